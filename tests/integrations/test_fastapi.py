"""FastAPI and Starlette, served by a real uvicorn."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.program import Program
from tests.waiting import eventually
from tests.web import UnixConnection


class Site:
    """A running uvicorn with the program in fastapi_app.py, and a client for the same locks."""

    def __init__(self, folder: Path) -> None:
        url = f"sqlite:///{folder}/locks.db"
        self._path = str(folder / "uvicorn")
        self.locks = fencelock.Client(url, ttl=3600, label="test")
        self.program = Program(
            *(sys.executable, "-m", "uvicorn", "--uds", self._path, "--log-level", "info"),
            "tests.integrations.fastapi_app:app",
            environment={**os.environ, "FENCELOCK_URL": url},
        )

    def __enter__(self) -> Site:
        self.program.expect("Uvicorn running")
        return self

    def __exit__(self, *_: object) -> None:
        self.program.__exit__()
        self.locks.close()

    @contextmanager
    def asking(self, path: str) -> Iterator[UnixConnection]:
        """Send a request. The end of the block disconnects."""
        with closing(UnixConnection(self._path)) as connection:
            connection.request("GET", path)
            yield connection

    def get(self, path: str) -> Any:
        """The body of a good answer."""
        with self.asking(path) as asked, asked.getresponse() as answer:
            assert answer.status == 200, answer.read()
            return json.loads(answer.read())

    def problem(self, path: str) -> tuple[int, str | None, dict[str, Any]]:
        """The status, Retry-After and the body of a bad answer."""
        with self.asking(path) as asked, asked.getresponse() as answer:
            assert answer.headers["Content-Type"] == "application/problem+json"
            return answer.status, answer.headers["Retry-After"], json.loads(answer.read())

    def is_held(self, name: str) -> bool:
        return bool(self.locks.inspect(name).holders)

    def has_waiter(self, name: str) -> bool:
        return self.locks.inspect(name).waiting > 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("uvicorn")) as site:
        yield site


def test_a_request_holds_the_lock_that_its_path_names(site: Site) -> None:
    first = site.get("/held/7")
    assert first["name"] == "order:7"
    assert first["state"] == "held"
    again = site.get("/held/07")
    assert again["name"] == "order:7", "the name is made of what FastAPI has parsed"
    assert again["fence"] > first["fence"]
    assert site.get("/threads/7")["fence"] > again["fence"]
    assert site.get("/unused/7") == "order:7"
    assert not site.is_held("order:7")


def test_endpoints_with_the_decorator(site: Site) -> None:
    assert site.get("/decorated/1?note=x") == ["order:1", "x"]
    assert site.get("/decorated/01") == ["order:1", "none"]
    assert site.get("/blocking/1") == ["order:1"]
    described = site.get("/openapi.json")
    for path in ("held", "threads", "decorated", "blocking"):
        operation = described["paths"][f"/{path}/{{order_id}}"]["get"]
        taken = {each["name"] for each in operation["parameters"]}
        assert taken == {"order_id"} | ({"note"} if path == "decorated" else set())
        assert "requestBody" not in operation


@pytest.mark.parametrize("path", ["held", "threads", "decorated", "blocking"])
def test_a_held_lock_is_423_and_tells_strangers_nothing(site: Site, path: str) -> None:
    with site.locks.lock("order:2"):
        status, retry_after, problem = site.problem(f"/{path}/2")
    assert (status, retry_after) == (423, "3")
    assert problem == {
        "type": "urn:fencelock:locked",
        "title": "Somebody else holds the lock: try again later",
        "status": 423,
        "name": "order:2",
    }


def test_an_engine_that_is_away_is_503(site: Site) -> None:
    status, retry_after, problem = site.problem("/away")
    assert (status, retry_after) == (503, "3")
    assert problem["type"] == "urn:fencelock:engine-away"
    assert problem["name"] == "x"
    assert "127.0.0.1" not in str(problem)
    assert "127.0.0.1" in site.program.output, "the log says more"


@pytest.mark.parametrize("path", ["/stale", "/starlette/stale"])
def test_a_stale_holder_is_409(site: Site, path: str) -> None:
    status, retry_after, problem = site.problem(path)
    assert (status, retry_after) == (409, None)
    assert problem["type"] == "urn:fencelock:stale-fence"


def test_a_client_that_disconnects_does_not_end_the_work_or_its_lock(site: Site) -> None:
    with site.locks.lock("gate:3"):
        with site.asking("/slow/3"):
            eventually(lambda: site.has_waiter("gate:3"), "the endpoint to work")
        site.get("/held/4")  # uvicorn has seen the end of the other connection by now
        assert site.is_held("order:3")
        assert "slow 3 ends" not in site.program.output
    site.program.expect("slow 3 ends")
    eventually(lambda: not site.is_held("order:3"), "the lock to be released")


def test_a_client_that_disconnects_ends_a_stream_and_its_lock(site: Site) -> None:
    with site.locks.lock("gate:5"):
        with site.asking("/stream/5") as asked, asked.getresponse() as answer:
            assert answer.read(1) == b"a"
            eventually(lambda: site.has_waiter("gate:5"), "the stream to go on")
            assert site.is_held("order:5"), "until the response is sent"
        eventually(lambda: not site.is_held("order:5"), "the lock to be released")
        assert not site.has_waiter("gate:5")


def test_a_lost_lease_ends_the_request(site: Site) -> None:
    with site.asking("/short/6") as asked:
        eventually(lambda: site.is_held("order:6"), "the endpoint to work")
        assert site.locks.break_lock("order:6")
        with asked.getresponse() as answer:
            assert answer.status == 500
            assert answer.headers["Retry-After"] is None
            assert json.loads(answer.read())["type"] == "urn:fencelock:lease-lost"
    assert "LeaseLost" in site.program.output, "the log says more"


def test_a_loss_that_only_the_release_finds_is_told_too(site: Site) -> None:
    gate = site.locks.lock("gate:9").acquire()
    with site.asking("/slow/9") as asked:
        eventually(lambda: site.has_waiter("gate:9"), "the endpoint to work")
        assert site.locks.break_lock("order:9")
        gate.release()
        with asked.getresponse() as answer:
            assert answer.status == 500


def test_sigterm_lets_a_request_end_and_releases_everything(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        gate = site.locks.lock("gate:8").acquire()
        with site.asking("/slow/8") as asked:
            eventually(lambda: site.has_waiter("gate:8"), "the endpoint to work")
            site.program.terminate()
            site.program.expect("Shutting down")
            assert site.is_held("order:8")
            gate.release()
            with asked.getresponse() as answer:
                assert answer.status == 200
        site.program.wait()
        assert "closed" in site.program.output
        assert "Traceback" not in site.program.output
        with site.locks.lock("order:8", timeout=0) as lease:
            assert not lease.abandoned


def test_what_can_not_work_is_refused_at_once() -> None:
    from fencelock.integrations.fastapi import (
        held,  # slow to import, and each worker imports this file
    )

    client = fencelock.AsyncClient("memory://")
    with pytest.raises(ValueError, match="Give it a function"):
        held(client, "order:{order_id}")
    with pytest.raises(TypeError, match="needs an AsyncClient"):
        held(fencelock.Client("memory://"), "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no option 'tll'"):
        held(client, "x", tll=1)  # type: ignore[call-arg]
