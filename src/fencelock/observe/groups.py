"""Groups of names: the name of a lock is never a label of a metric, because there may be millions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencelock.core.names import matches

OTHER = "other"
"""The group of the names that match no pattern."""

_REMEMBERED = 10_000
"""The number of names whose group is remembered."""


class Groups(dict[str, str]):
    """From a name to its group, by patterns that the user declares: `{"order:*": "order"}`.

    The first pattern that matches a name counts. What was found for a name is remembered.
    """

    def __init__(self, patterns: Mapping[str, str] | None = None) -> None:
        given: Any = {} if patterns is None else patterns
        if not isinstance(given, Mapping) or not all(
            each and isinstance(each, str) for pair in given.items() for each in pair
        ):
            raise TypeError(
                "groups must be a dict of patterns and names of groups, such as "
                f'{{"order:*": "order"}}, not {given!r}'
            )
        self.patterns = dict(given)
        self.every = list(dict.fromkeys((*self.patterns.values(), OTHER)))
        """All groups that there are."""

    def __missing__(self, name: str) -> str:
        found = (group for pattern, group in self.patterns.items() if matches(name, pattern))
        group = next(found, OTHER)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[name] = group
        return group
