"""The tables of checks in docs/doctor.md: `python -m tests.doctor.tables` prints them as they should be."""

from __future__ import annotations

from fencelock.doctor import common, rules_of
from fencelock.doctor.checks import Rule
from fencelock.engines import registry

LABELS = sorted(
    {registry._VARIANTS.get(scheme, scheme).partition("+")[0] for scheme in registry._BUILT_IN}
)
"""Every kind of engine that comes with Fencelock."""

TO_COME: set[str] = set()
"""Engines whose checks are being written. Whoever adds them takes them out here."""


def described() -> list[str]:
    """The engines that have checks."""
    return [label for label in LABELS if rules_of(label) != (common.undescribed,)]


def table(label: str) -> str:
    """The checks of one engine that are not common to all."""
    own = [rule for rule in rules_of(label) if rule not in common.RULES]
    return _table(own)


def common_table() -> str:
    return _table(common.RULES)


def _table(rules: tuple[Rule, ...] | list[Rule]) -> str:
    rows = [f"| `{r.id}` | {r.why} | {_cell(r.mend)} | {r.leaves or ''} |" for r in rules]
    head = [
        "| check | why it matters | what mends it | while it is bad, at most |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(f"## Every engine\n\n{common_table()}")
    for label in described():
        print(f"## {label}\n\n{table(label)}")
