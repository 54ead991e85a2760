from fencelock.testing.conformance.test_bounded import *  # noqa: F403
