from fencelock.testing.conformance.test_portable import *  # noqa: F403
