"""The README for PyPI; hatchling calls it (pyproject.toml).

PyPI has no files next to the README, so its links must point to the repository.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    """Sets `readme` in the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = metadata["urls"]["Repository"]
        text = Path(self.root, "README.md").read_text("utf-8")
        # A picture itself, not the page around it.
        text = re.sub(r"(!\[.*?\])\((?![a-z]+:)", rf"\1({repository}/raw/main/", text)
        text = re.sub(r"\]\((?![a-z]+:|#)", f"]({repository}/blob/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
