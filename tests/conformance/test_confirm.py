from fencelock.testing.conformance.test_confirm import *  # noqa: F403
