from fencelock.testing.conformance.test_several import *  # noqa: F403
