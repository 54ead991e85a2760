from fencelock.testing.conformance.test_dropped import *  # noqa: F403
