"""The site, built once for all workers of a run."""

import fcntl
from pathlib import Path

import pytest

from website.build import build


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder with the HTML of the site. It can't be built if a link or a picture is broken."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "site"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        html = folder / "built" / "html"
        return html if html.exists() else build(folder / "built")
