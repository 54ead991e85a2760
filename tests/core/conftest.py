"""Property tests have no deadline: a busy machine is not a bug."""

from hypothesis import settings

settings.register_profile("holdfast", deadline=None)
settings.load_profile("holdfast")
