"""Celery: real workers and real beats, with the program that the page shows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

import fencelock
from fencelock.integrations.celery import ElectedBeat, locked_task
from tests.integrations.pages import write_files
from tests.program import Program
from tests.servers import RedisServer
from tests.waiting import PATIENCE, eventually

MORE_TASKS = """
@app.task(max_retries=1, default_retry_delay=0)
@locked_task(client, "account:{account}")
def hurried(lease, account):
    return lease.name


@app.task(bind=True)
@locked_task(client, "lost:{number}")
def loser(self, number, *, lease):
    client.break_lock(lease.name)
    return self.name
"""


class Project:
    """The program of the page, with a few more tasks, on a Redis of its own."""

    def __init__(self, folder: Path, server: RedisServer) -> None:
        self._folder = folder
        self.url = server.url
        write_files("celery.md", folder, redis=self.url)
        with (folder / "tasks.py").open("a") as program:
            program.write(MORE_TASKS)
        self.locks = fencelock.Client(self.url, ttl=3600, label="test")

    def start(self, *words: str) -> Program:
        return Program(
            *(sys.executable, "-m", "celery", "-A", "tasks", *words),
            folder=self._folder,
            environment={**os.environ, "C_FORCE_ROOT": "1"},
        )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("celery")
    with RedisServer(folder / "redis") as server:
        project = Project(folder, server)
        yield project
        project.locks.close()


@pytest.fixture(scope="module")
def app(project: Project) -> Iterator[Celery]:
    """For asking the worker, which runs as long as the tests of this module."""
    app = Celery(broker=project.url, backend=project.url, set_as_current=False)
    app.conf.result_backend_thread_safe = True
    with project.start(
        *("worker", "--pool", "solo", "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    ):
        yield app
    app.close()


def test_a_task_runs_under_its_lock(app: Celery, project: Project) -> None:
    asked = app.send_task("tasks.charge", [7], {"cents": 100})
    assert asked.get(timeout=PATIENCE) == "charged 7: 100"
    assert project.locks.inspect("account:7").holders == ()
    assert project.locks.inspect("account:7").fence > 0


def test_a_task_is_put_back_while_the_lock_is_held(app: Celery, project: Project) -> None:
    with project.locks.lock("account:8"):
        asked = app.send_task("tasks.hurried", [8])
        with pytest.raises(fencelock.LockTimeout, match=r"'account:8'.*held by test") as caught:
            asked.get(timeout=PATIENCE)
        assert type(caught.value) is fencelock.LockTimeout, "it is rebuilt from JSON"
        asked = app.send_task("tasks.charge", [8, 1])
        eventually(lambda: asked.state == "RETRY", "the task to be put back")
    assert project.locks.inspect("account:8").waiting == 0


def test_a_task_is_skipped_while_the_lock_is_held(app: Celery, project: Project) -> None:
    with project.locks.lock("report:monday"):
        assert app.send_task("tasks.report", ["monday"]).get(timeout=PATIENCE) is None
    assert app.send_task("tasks.report", ["monday"]).get(timeout=PATIENCE) == "built monday"


def test_a_loss_fails_the_task(app: Celery) -> None:
    with pytest.raises(fencelock.LeaseLost, match="'lost:1'"):
        app.send_task("tasks.loser", [1]).get(timeout=PATIENCE)


def test_a_task_that_is_called_like_a_function() -> None:
    app = Celery(broker="memory://", set_as_current=False)
    client, other = fencelock.Client("memory://tasks"), fencelock.Client("memory://tasks")

    @app.task(name="outer")  # type: ignore[untyped-decorator]
    @locked_task(client, "x")
    def outer(lease: fencelock.Lease) -> str:
        with client.lock("y", timeout=0):
            return lease.name

    assert outer() == "x"
    for name in ("x", "y"):
        with other.lock(name), pytest.raises(fencelock.LockTimeout, match=name):
            outer()
    with pytest.raises(ValueError, match="'retry' or 'skip'"):
        locked_task(client, "x", held="wait")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no option 'tll'"):
        locked_task(client, "x", tll=1)  # type: ignore[call-arg]
    app.close()


EVERY_MOMENT = """
from celery.schedules import schedule
Beat.look_every = 0.2
Beat.election = client.election("beat", ttl=5)
app.conf.beat_schedule = {"tick": {"task": "tick", "schedule": 0.1, "options": {"queue": "ticks"}}}
"""


def test_a_beat_sends_only_while_it_leads(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server, redis.Redis.from_url(server.url) as broker:
        project = Project(tmp_path, server)
        with (tmp_path / "tasks.py").open("a") as program:
            program.write(EVERY_MOMENT)
        term = project.locks.election("beat").campaign()
        with project.start("beat", "--loglevel", "DEBUG", "--pidfile=") as beat:

            def look_again() -> None:
                """Wait until the beat has finished a tick that began after this."""
                known = beat.output.count("Waking up")
                eventually(lambda: beat.output.count("Waking up") >= known + 2, "beat to look")

            look_again()
            assert broker.llen("ticks") == 0, "another one leads"
            term.release()
            eventually(lambda: broker.llen("ticks") >= 3, "tasks")
            with ThreadPoolExecutor(1) as pool:  # next in the queue, when the beat is thrown out
                elected = pool.submit(project.locks.election("beat").campaign)
                eventually(lambda: project.locks.inspect("beat").waiting, "the candidate")
                project.locks.break_lock("beat")
                term = elected.result(PATIENCE)
            beat.expect("this beat sends no more tasks")
            sent = broker.llen("ticks")
            look_again()
            assert broker.llen("ticks") == sent
            term.release()
            eventually(lambda: broker.llen("ticks") > sent, "tasks")
            beat.terminate()
            assert beat.wait() == 0, beat.output
            with project.locks.lock("beat", timeout=0) as lease:
                assert not lease.abandoned, "it resigned"
        project.locks.close()


Make = Callable[[fencelock.Client], Any]


class Recording:
    """A scheduler that keeps what it sends, and waits for nothing."""

    look_every = patience = 0.0

    def __init__(self, app: Celery, client: fencelock.Client) -> None:
        self.election = client.election("beat", ttl=3600)
        self.sent: list[str] = []
        super().__init__(app, max_interval=1)  # type: ignore[call-arg]

    def apply_async(self, entry: Any, producer: Any = None, **_: Any) -> None:
        self.sent.append(entry.name)


@pytest.fixture
def beat() -> Iterator[Make]:
    """Make a beat with one entry, which is not due."""
    from celery.beat import Scheduler  # slow to import, and each worker of a run imports this file

    app = Celery(broker="memory://", set_as_current=False)
    app.conf.beat_schedule = {"report": {"task": "report", "schedule": 1_000_000.0}}
    kind: Any = type("Beat", (Recording, ElectedBeat, Scheduler), {})
    made: list[Any] = []

    def make(client: fencelock.Client) -> Any:
        made.append(kind(app, client))
        return made[-1]

    yield make
    for each in made:
        each.close()
    app.close()


def come_due(beat: Any) -> None:
    """Let the entry come due, and look."""
    beat.schedule["report"].last_run_at -= timedelta(seconds=2_000_000)
    beat._heap = None
    beat.tick()


def test_what_comes_due_is_left_to_a_leader_that_lives(beat: Make) -> None:
    first, second = (beat(fencelock.Client("memory://beats")) for _ in range(2))
    for each in (first, second):
        come_due(each)
    assert (first.sent, second.sent) == (["report"], [])
    first.close()
    second.tick()
    assert second.sent == [], "the leader has sent it before it resigned"
    come_due(second)
    assert second.sent == ["report"]


def test_what_comes_due_when_the_leader_resigns_is_sent(beat: Make) -> None:
    first, second = (beat(fencelock.Client("memory://resigning")) for _ in range(2))
    first.tick()
    second.patience = 3600.0
    come_due(second)
    first.close()  # its clock is behind: it has not seen yet that the task is due
    second._heap = None
    second.tick()
    assert second.sent == ["report"]


def test_what_came_due_before_a_leader_vanished_is_sent_again(beat: Make) -> None:
    one, other = (fencelock.Client("memory://vanished") for _ in range(2))
    first, second = beat(one), beat(other)
    for each in (first, second):
        come_due(each)
    assert one.break_lock("beat")
    second.tick()
    assert second.sent == ["report"], "nobody knows whether the first one had sent it"
    come_due(first)
    assert first.sent == ["report"], "it has lost its term, and sends no more"


def test_what_came_due_while_nobody_could_be_elected_is_sent_later(beat: Make) -> None:
    away = beat(fencelock.Client("redis://127.0.0.1:1"))  # nothing listens there
    for _ in range(2):
        come_due(away)
    assert away.sent == []
    away.election = fencelock.Client("memory://later").election("beat")
    away.tick()
    assert away.sent == ["report"]
