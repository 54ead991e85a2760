"""Web servers with several workers, and a client at module level of the program that they serve."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.program import Program
from tests.waiting import eventually
from tests.web import UnixConnection


def get(path: str) -> Any:
    """The answer of the server at this path. None if it does not listen yet."""
    connection = UnixConnection(path)
    try:
        connection.request("GET", "/", headers={"Connection": "close"})
        return json.loads(connection.getresponse().read())
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    finally:
        connection.close()


def answers_of_both(path: str) -> list[dict[str, Any]]:
    """An answer of each worker."""
    seen: dict[int, dict[str, Any]] = {}

    def asked() -> bool:
        if said := get(path):
            seen[said["pid"]] = said
        return len(seen) == 2

    eventually(asked, "an answer of each worker")
    return list(seen.values())


def test_gunicorn_with_preload(redis_url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "gunicorn")
    server = Program(
        *(
            sys.executable,
            "-m",
            "gunicorn",
            "--preload",
            "--workers",
            "2",
            "--bind",
            f"unix:{path}",
        ),
        *("--log-level", "warning", "tests.frameworks.wsgi:app"),
        environment={**os.environ, "FENCELOCK_URL": redis_url},
    )
    with server, fencelock.Client(redis_url) as other:
        for said in answers_of_both(path):
            assert said["pid"] == said["owner"] != server.pid
            assert f"belongs to process {server.pid}" in said["refusal"]
        assert other.lock("gunicorn:parent").try_acquire() is None, "it is the parent's, unharmed"
        server.terminate()
        assert server.wait() == 0, server.output
        lease = other.lock("gunicorn:parent").try_acquire()
        assert lease is not None, "the parent released it when it ended"
        lease.release()


def test_uvicorn_with_workers(redis_url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "uvicorn")
    server = Program(
        *(sys.executable, "-m", "uvicorn", "--workers", "2", "--uds", path),
        *("--log-level", "warning", "tests.frameworks.asgi:app"),
        environment={**os.environ, "FENCELOCK_URL": redis_url},
    )
    with server:
        for said in answers_of_both(path):
            assert said["pid"] == said["owner"] != server.pid
        server.terminate()
        assert server.wait() == 0, server.output
        assert "Traceback" not in server.output


def test_an_asgi_program_in_one_loop_after_the_other(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the test clients of web frameworks run it: with a new event loop for each test."""
    monkeypatch.setenv("FENCELOCK_URL", redis_url)
    asgi = importlib.reload(importlib.import_module("tests.frameworks.asgi"))

    async def serve() -> int:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await asgi.app({"type": "http"}, None, send)
        await asgi.client.close()
        fence: int = json.loads(sent[1]["body"])["fence"]
        return fence

    assert asyncio.run(serve()) < asyncio.run(serve())
