from fencelock.testing.conformance.test_queue import *  # noqa: F403
