from fencelock.testing.conformance.test_sharing import *  # noqa: F403
