"""What can be told of a function without calling it."""

from __future__ import annotations


def is_async(function: object) -> bool:
    """Whether it is a coroutine function."""
    if not callable(function):
        return False
    # Takes longer to import than all of the core, and most locks have no function to ask about.
    import inspect

    return inspect.iscoroutinefunction(function)
