from fencelock.testing.conformance.test_attach import *  # noqa: F403
