"""The messages that docs/troubleshooting.md explains are messages of Fencelock."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "troubleshooting.md"


def test_explained_messages_exist() -> None:
    """A message is what is in code in the first column, if it is more than one word."""
    cells = re.findall(r"^\| (.*?) \| ", PAGE.read_text(), re.MULTILINE)
    messages = [each for cell in cells for each in re.findall(r"`([^`]* [^`]*)`", cell)]
    texts = _texts()
    # Its variable parts divide a message into several texts of the source.
    parts = [part.strip() for message in messages for part in message.split("…")]
    missing = [part for part in parts if part not in texts]
    assert not missing
    assert len(messages) > 20


def _texts() -> str:
    """All texts in the source."""
    nodes = (
        node
        for file in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
    )
    found = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join(found)
