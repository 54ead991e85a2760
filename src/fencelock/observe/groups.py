"""Groups of names: the name of a lock is never a label of a metric, because there may be millions."""

from __future__ import annotations

from collections.abc import Mapping

from fencelock.core.names import matches

OTHER = "other"
"""The group of the names that match no pattern."""

_REMEMBERED = 10_000
"""The number of names whose group is remembered."""


class Groups:
    """From a name to its group, by patterns that the user declares: `{"order:*": "order"}`.

    The first pattern that matches a name counts.
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
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """The group of a name."""
        group = self._known.get(name)
        return self._find(name) if group is None else group

    def _find(self, name: str) -> str:
        found = (group for pattern, group in self._patterns.items() if matches(name, pattern))
        group = next(found, OTHER)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[name] = group
        return group
