"""The statements of statements.sql, by name."""

from __future__ import annotations

import re
from importlib.resources import files


def _statements() -> dict[str, str]:
    text = files(__package__).joinpath("statements.sql").read_text("utf-8")
    parts = re.split(r"^-- (\w+) \(.*?\):(?:.*\n)(?:--.*\n)*", text, flags=re.MULTILINE)
    return {name: " ".join(sql.split()) for name, sql in zip(parts[1::2], parts[2::2], strict=True)}


SQL = _statements()
