"""The messages that docs/troubleshooting.md explains are messages of Fencelock."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "troubleshooting.md"


def test_explained_messages_exist() -> None:
    """A message is what is in code in the first column, if it is more than one word."""
    cells = re.findall(r"^\| (.*?) \| ", PAGE.read_text(), re.MULTILINE)
    messages = [each for cell in cells for each in re.findall(r"`([^`]* [^`]*)`", cell)]
    source = _source()
    # Its variable parts divide a message.
    parts = [part.strip() for message in messages for part in message.split("…")]
    missing = [part for part in parts if part not in source]
    assert not missing
    assert len(messages) > 20


def _source() -> str:
    """The whole source. A text that is written on several lines is on one."""
    files = (file.read_text() for file in sorted((ROOT / "src").rglob("*.py")))
    return re.sub(r'"\n +f?"', "", "".join(files))
