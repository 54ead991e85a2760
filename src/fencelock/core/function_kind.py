"""Telling coroutine functions from plain ones, without calling them."""

from __future__ import annotations


def is_async(function: object) -> bool:
    """Whether this is a coroutine function."""
    if not callable(function):
        return False
    # Importing it takes longer than importing all of the core, and most locks have no function to test.
    import inspect

    return inspect.iscoroutinefunction(function)
