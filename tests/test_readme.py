"""The code in the documentation runs, and the files that it names exist.

Each Python block is a separate program, run in an empty folder. Its output must match the comment behind
each `print(…)`. In these comments `…` stands for any text, and a comment that begins with `e.g.` matches
any line. Shell blocks (`sh`) run as well, and JavaScript (`js`) in Node, with `console.log(…)`. Blocks that
can't run here are marked `console`, or `py` for a fragment.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import fencelock
from fencelock.engines import registry
from tests.servers_service import Replica

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
REDIS = "redis://localhost"
REDLOCK = "redlock://a,b,c,d,e"
ETCD = "etcd://localhost:2379"
ZOOKEEPER = "zookeeper://localhost"
POSTGRESQL = "postgresql://localhost/app"
MYSQL = "mysql://me:secret@localhost/app"
SERVICE = "http://localhost:7007"


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(language: str) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if found[1] == language:
                yield Block(page, text[: found.start()].count("\n") + 1, found[1], found[2])


@pytest.fixture(scope="session")
def service_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Replica(tmp_path_factory.mktemp("service"), "memory://") as replica:
        yield replica.url


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """An environment in which `fencelock` is installed, and which does not touch the user's own locks."""
    command = tmp_path / "bin" / "fencelock"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fencelock "$@"\n')
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "FENCELOCK_URL"}
    return {
        **kept,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


def with_servers(request: pytest.FixtureRequest, text: str) -> str:
    """The same text, with the URLs of real servers. Only those are started that it names."""
    if REDIS in text:
        # A separate database: other tests may use names such as `nightly`.
        text = text.replace(REDIS, request.getfixturevalue("redis_url") + "/9")
    if REDLOCK in text:
        text = text.replace(REDLOCK, request.getfixturevalue("redlock_url"))
    if ETCD in text:
        text = text.replace(ETCD, request.getfixturevalue("etcd_cluster").url)
    if ZOOKEEPER in text:
        text = text.replace(ZOOKEEPER, request.getfixturevalue("zookeeper_url").partition("?")[0])
    if POSTGRESQL in text:
        text = text.replace(POSTGRESQL, request.getfixturevalue("postgresql_url"))
    if MYSQL in text:
        text = text.replace(MYSQL, request.getfixturevalue("mysql_url"))
    if SERVICE in text:
        text = text.replace(SERVICE, request.getfixturevalue("service_url"))
    return text


def run(
    request: pytest.FixtureRequest, folder: Path, block: Block, *command: str, env: dict[str, str]
) -> str:
    text = with_servers(request, block.text)
    here = folder / "here"
    here.mkdir()
    done = subprocess.run(
        [*command, text], cwd=here, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{block}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("block", list(blocks("python")), ids=str)
def test_python_blocks_print_what_they_say(
    request: pytest.FixtureRequest, tmp_path: Path, surroundings: dict[str, str], block: Block
) -> None:
    printed = run(request, tmp_path, block, sys.executable, "-c", env=surroundings).splitlines()
    _compare(printed, block, "print", "#")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
@pytest.mark.parametrize("block", list(blocks("js")), ids=str)
def test_javascript_blocks_print_what_they_say(
    request: pytest.FixtureRequest, tmp_path: Path, surroundings: dict[str, str], block: Block
) -> None:
    node = ("node", "--input-type=module", "-e")
    printed = run(request, tmp_path, block, *node, env=surroundings).splitlines()
    _compare(printed, block, "console.log", "//")


def _compare(printed: list[str], block: Block, call: str, comment: str) -> None:
    said = rf"^ *{re.escape(call)}\(.*\);? +{comment} (.*)$"
    expected = re.findall(said, block.text, re.MULTILINE)
    assert len(expected) == block.text.count(f"{call}("), "say behind each call what it prints"
    assert len(printed) == len(expected), printed
    for line, pattern in zip(printed, expected, strict=True):
        assert pattern.startswith("e.g. ") or _fits(line, pattern), f"{line!r} is not {pattern!r}"


def _fits(line: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace("…", ".+"), line) is not None


@pytest.mark.parametrize("block", list(blocks("sh")), ids=str)
def test_shell_blocks_run(
    request: pytest.FixtureRequest, tmp_path: Path, surroundings: dict[str, str], block: Block
) -> None:
    printed = run(request, tmp_path, block, "bash", "-euc", env=surroundings)
    for said in re.findall(r'echo "([^"$]*)', block.text):
        assert said in printed


def test_the_commands_are_there() -> None:
    for command in ("run", "site", "test"):
        assert f"./{command} " in (ROOT / "README.md").read_text()
        assert os.access(ROOT / command, os.X_OK)


def test_the_table_of_promises_is_what_the_engines_declare() -> None:
    row = r"^\|[^|]*\| `([^`]*)`[^|]*\| \*\*(\w+)\*\*([^|]*) \|"
    rows = re.findall(row, _readme(), re.MULTILINE)
    for url, promise, condition in rows:
        traits = fencelock.Client(url).traits
        assert traits.guarantee == promise, url
        assert condition or not traits.condition, f"say what the promise of {url} rests on"
    schemes = {url.partition("://")[0] for url, _, _ in rows}
    others = (
        *("rediss", "redlocks", "etcds", "zookeepers"),  # the same with TLS
        "redis+unix",  # the same by another way
        "http",  # promises nothing itself
    )
    assert schemes == {scheme for scheme in registry._BUILT_IN if not scheme.startswith(others)}


def _readme() -> str:
    return (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", _prose(page)):
        if "://" in target:
            continue
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in _anchors(there), f"{target}#{anchor}"


def _prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


MAPS = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]


def test_maps_and_decisions_name_files_that_are_there() -> None:
    named = r"`(\w[\w./-]*(?:/[\w.-]*|\.(?:py|md|toml|lua|sql|proto|txt)))`"
    found = [(page, path) for page in MAPS for path in re.findall(named, page.read_text())]
    assert len(found) > 30
    for page, path in found:
        places = (ROOT / path, ROOT / "src" / "fencelock" / path)
        assert any(place.exists() for place in places), f"{page.name} names {path}"


def test_every_error_is_explained() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    for name in fencelock.__all__:
        thing = getattr(fencelock, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert f"`{name}`" in page
