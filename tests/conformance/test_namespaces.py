from fencelock.testing.conformance.test_namespaces import *  # noqa: F403
