from fencelock.testing.conformance.test_inquiries import *  # noqa: F403
