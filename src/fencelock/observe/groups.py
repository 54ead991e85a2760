"""Groups of names: the name of a lock is never a label of a metric, because there may be millions."""

from __future__ import annotations

from collections.abc import Mapping

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
        self._patterns = dict(patterns or {})
        for each in (*self._patterns, *self._patterns.values()):
            if not each or not isinstance(each, str):
                raise TypeError(
                    "groups must be a dict of patterns and names of groups, such as "
                    f'{{"order:*": "order"}}; {each!r} is neither'
                )
        self.every = list(dict.fromkeys((*self._patterns.values(), OTHER)))
        """All groups that there are."""

    def __missing__(self, name: str) -> str:
        found = (group for pattern, group in self._patterns.items() if matches(name, pattern))
        group = next(found, OTHER)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[name] = group
        return group
