"""A child process that takes locks, for tests that stop, kill and fork it.

As a program it reads one JSON request per line and answers each with one line. `Child` is its remote
control: `child.call("acquire", name="x", ttl=1)`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import fencelock
from fencelock.io.blocking import run
from tests.spawning import Spawned


class Child:
    """A process with its own client: `Child(face, url)`, or another program with the same protocol."""

    def __init__(self, *arguments: str, program: str = "tests.child") -> None:
        (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
        self._requests, self._answers = os.fdopen(our_out, "w"), os.fdopen(our_in)
        with os.fdopen(their_in) as stdin, os.fdopen(their_out, "w") as stdout:
            self._process = Spawned(program, *arguments, stdin=stdin, stdout=stdout)
        self.pid = self._process.pid

    def send(self, do: str, **arguments: Any) -> None:
        """Send a request without waiting for the answer."""
        self._requests.write(json.dumps({"do": do, **arguments}) + "\n")
        self._requests.flush()

    def receive(self) -> Any:
        """Return the next answer."""
        line = self._answers.readline()
        assert line, f"the child ended with {self._process.wait()}"
        return json.loads(line)

    def call(self, do: str, **arguments: Any) -> Any:
        """Send a request, and wait for the answer."""
        self.send(do, **arguments)
        return self.receive()

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Child:
        assert self.receive() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hang_up(self) -> None:
        """Tell the child that there are no more requests."""
        self._requests.close()

    def close(self) -> None:
        self.kill()
        self._requests.close()
        self._answers.close()


class Session:
    """The child's side: one client, the lease it holds, and what its callback saw."""

    def __init__(self, face: str, url: str) -> None:
        self._sync = face == "sync"
        self._client: Any = (fencelock.Client if self._sync else fencelock.AsyncClient)(url)
        self._lease: Any = None
        self._crowd: list[Any] = []
        self._told = 0

    async def answer(self, request: dict[str, Any]) -> Any:
        handler = getattr(self, "do_" + request.pop("do"))
        try:
            return await handler(**request)
        except (fencelock.FencelockError, KeyboardInterrupt) as error:
            return {"error": type(error).__name__, "text": str(error)}

    async def _await(self, act: Callable[[], Any]) -> Any:
        result = act()
        return result if self._sync else await result

    async def do_acquire(
        self,
        name: str,
        ttl: float | None = None,
        timeout: float | None = None,
        kind: str = "lock",
    ) -> Any:
        def told(_: object) -> None:
            self._told += 1

        match kind.split():
            case ["read"]:
                lock = self._client.rwlock(name, ttl=ttl, on_lost=told).read()
            case ["permits", number]:
                lock = self._client.semaphore(name, int(number), ttl=ttl, on_lost=told)
            case _:
                lock = self._client.lock(name, ttl=ttl, on_lost=told)
        self._lease = await self._await(lambda: lock.acquire(timeout))
        return self._facts()

    async def do_wait(self, name: str, ttl: float) -> Any:
        """As `acquire`, but answers once before: when this process knows that its ticket waits."""

        def announce() -> None:
            while all(context.idle for context in self._client._contexts.every()):
                time.sleep(0.005)
            print(json.dumps("waits"), flush=True)

        threading.Thread(target=announce, daemon=True).start()
        return await self.do_acquire(name, ttl)

    async def do_crowd(self, names: list[str], ttl: float, waiters: int) -> Any:
        """Hold each of these names, and let this many callers of this process wait for it."""
        for name in names:
            lock = self._client.lock(name, ttl=ttl)
            self._crowd.append(await self._await(lock.acquire))
            for _ in range(waiters):
                if self._sync:
                    threading.Thread(target=lock.acquire, daemon=True).start()
                else:
                    self._crowd.append(asyncio.create_task(lock.acquire()))
        return "crowded"

    async def do_campaign(self, name: str, value: str, ttl: float) -> Any:
        election = self._client.election(name, value, ttl=ttl)
        self._lease = await self._await(election.campaign)
        return self._facts()

    async def do_facts(self) -> Any:
        return self._facts()

    async def do_check(self) -> Any:
        self._lease.check()
        return self._facts()

    async def do_release(self) -> Any:
        await self._await(self._lease.release)
        return self._facts()

    async def do_fork(self, name: str) -> Any:
        """What a forked child sees when it uses the parent's lease, and the client that the parent made."""
        reading, writing = os.pipe()
        lock = self._client.lock(f"{name}:child")
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            seen: dict[str, Any] = {
                "lease": [
                    _attempt(act, self._sync) for act in (self._lease.check, self._lease.release)
                ]
            }
            try:
                if self._sync:
                    with lock as lease:
                        seen["held"] = lease.owner.pid == os.getpid() and lease.fence > 0
                    seen["parent's"] = self._client.lock(name).try_acquire() is None
                    self._client.close()
                else:
                    seen |= asyncio.run(self._use(lock, name))
            except BaseException as error:
                seen["error"] = repr(error)
            os.write(writing, json.dumps(seen).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = await asyncio.to_thread(pipe.read) if not self._sync else pipe.read()
        os.waitpid(pid, 0)  # noqa: ASYNC222 - it has ended: its side of the pipe is closed
        return json.loads(said)

    async def _use(self, lock: Any, name: str) -> dict[str, Any]:
        async with lock as lease:
            held = lease.owner.pid == os.getpid() and lease.fence > 0
        refused = await self._client.lock(name).try_acquire() is None
        await self._client.close()
        return {"held": held, "parent's": refused}

    def _facts(self) -> Any:
        return {
            "fence": self._lease.fence,
            "state": self._lease.state.value,
            "lost": self._lease.lost.is_set(),
            "told": self._told,
            "abandoned": self._lease.abandoned,
        }


def _attempt(act: Callable[[], Any], sync: bool) -> str:
    try:
        result = act()
        if not sync and result is not None:
            result.send(None)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def _say(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


async def _serve_async(url: str) -> None:
    session = Session("async", url)
    _say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        _say(await session.answer(json.loads(line)))


def serve(session: Session) -> None:
    """Answer requests until there are no more."""
    _say("ready")
    for line in sys.stdin:
        _say(run(session.answer(json.loads(line))))


if __name__ == "__main__":
    if sys.argv[1] == "sync":
        serve(Session("sync", sys.argv[2]))
    else:
        asyncio.run(_serve_async(sys.argv[2]))
