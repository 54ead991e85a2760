"""What Django must know of this app."""

from django.apps import AppConfig


class FencelockConfig(AppConfig):  # type: ignore[misc]  # Django ships no types
    """The app `fencelock`: a migration and a command."""

    name = "fencelock.integrations.django"
    label = "fencelock"  # by default it would be `django`
    verbose_name = "Fencelock"
