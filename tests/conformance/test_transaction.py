from fencelock.testing.conformance.test_transaction import *  # noqa: F403
