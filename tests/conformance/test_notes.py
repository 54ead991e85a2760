from fencelock.testing.conformance.test_notes import *  # noqa: F403
