"""Property tests have no deadline: a busy machine is not a bug."""

from hypothesis import settings

from tests.effort import effort

settings.register_profile("fencelock", deadline=None, max_examples=effort(100, 1_000))
settings.load_profile("fencelock")
