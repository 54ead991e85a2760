"""Property tests have no deadline: a busy machine is not a bug."""

from hypothesis import settings

settings.register_profile("fencelock", deadline=None)
settings.load_profile("fencelock")
