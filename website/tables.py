"""Writes the tables of the reference: the metrics, and the settings of the lock service."""

from __future__ import annotations

from fencelock.observe import families
from fencelock.service.settings import TABLE


def metrics() -> str:
    """The page of the metrics."""
    rows = [
        f"| `{each.name}` | {each.type} | {', '.join(each.labels)} | {each.help} |"
        for each in families.ALL
    ]
    about = "How to collect them, and what to ask of them: [metrics](../observing/metrics.md)."
    return _page("Metrics", about, "| metric | type | labels | what |", rows)


def settings() -> str:
    """The page of the settings of `fencelock serve`."""
    rows = [
        f"| `{entry.flag}` | `{entry.variable}` | `{entry.key}` | {_shown(entry.default)} | {entry.help} |"
        for entry in TABLE.values()
    ]
    about = (
        "A flag of `fencelock serve` wins over a variable, a variable over the file of `--config`: "
        "[more](../service/security.md#settings)."
    )
    head = "| flag | variable | in the file | default | meaning |"
    return _page("Settings of the service", about, head, rows)


def _shown(default: object) -> str:
    if default in ("", ()):
        return ""
    return f"`{', '.join(default) if isinstance(default, tuple) else default}`"


def _page(title: str, about: str, head: str, rows: list[str]) -> str:
    line = "|---" * (head.count("|") - 1) + "|"
    return "\n".join([f"# {title}", "", about, "", head, line, *rows, ""])
