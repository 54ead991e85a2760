from fencelock.testing.conformance.test_healing import *  # noqa: F403
