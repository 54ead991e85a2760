"""The pages on the service: the table of errors is complete, and the shell loop holds a lock correctly."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencelock.guards.http import PREFIX
from fencelock.service.problems import TITLES
from tests.service.rest.api import A, Api
from tests.waiting import PATIENCE, eventually

PAGES = Path(__file__).parents[3] / "docs" / "service"


def test_the_table_of_errors() -> None:
    page = (PAGES / "errors.md").read_text()
    rows = re.findall(rf"^\| `{PREFIX}([a-z-]+)` \| (\d+) \| ([^|]+) \|", page, re.MULTILINE)
    assert {kind: (int(status), title) for kind, status, title in rows} == TITLES
    assert [int(status) for _, status, _ in rows] == sorted(int(row[1]) for row in rows)


@contextmanager
def the_loop(api: Api, name: str, work: str) -> Iterator[subprocess.Popen[bytes]]:
    """The shell script of the page with other work, at a faster pace."""
    page = (PAGES / "curl.md").read_text()
    (script,) = re.findall(r"^## bash\n\n```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for old, new in (
        ("http://localhost:7007", f"http://127.0.0.1:{api.port}"),
        ("name=nightly", f"name={name}"),
        ('echo "working"', work),
        ("sleep 5", "sleep 0.1"),
    ):
        assert old in script
        script = script.replace(old, new)
    with subprocess.Popen(["bash", "-euc", script], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_loop_waits_for_its_turn_and_releases(api: Api, name: str, tmp_path: Path) -> None:
    done = tmp_path / "done"
    api.lock(name, "acquire", A)
    with the_loop(api, name, f"touch {done}") as loop:
        eventually(lambda: api.show(name)["waiting"] == 1, "the loop to wait")
        assert not done.exists()
        api.lock(name, "release", A)
        assert loop.wait(PATIENCE) == 0
    assert done.exists()
    assert api.show(name)["holders"] == []


def test_the_loop_stops_the_work_when_the_lease_is_gone(
    api: Api, name: str, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    with the_loop(api, name, f"touch {begun}; sleep {10 * PATIENCE}") as loop:
        eventually(begun.exists, "the work to begin")
        fence = api.show(name)["holders"][0]["fence"]
        assert api.ask("DELETE", f"/v1/locks/{name}?fence={fence}").status == 200
        assert loop.wait(PATIENCE) == 137
