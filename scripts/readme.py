"""The README as PyPI shows it; hatchling asks for it (pyproject.toml).

There it has no files beside it, so its links lead into the repository.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    """Fills in `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        files = metadata["urls"]["Repository"] + "/blob/main/"
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": re.sub(r"\]\((?![a-z]+:|#)", f"]({files}", text),
        }
