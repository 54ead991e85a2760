"""Calls the scripts as an engine would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from fencelock.core.ticket import Departure
from fencelock.engines.redlock.protocol import Answer
from fencelock.engines.redlock.readmission_rule import Memory
from fencelock.engines.redlock.scripts import (
    FIND,
    GRANT,
    LOOK,
    RAISE,
    READMIT,
    RELEASE,
    RENEW,
    TAKE_OVER,
)
from fencelock.engines.resp.script import Script
from tests.servers import connect

OpenCaller = Callable[[str], "Caller"]
"""How a test opens one at a URL, which is closed when the test ends."""


class Caller:
    """One node: keys of its own on a server."""

    def __init__(self, url: str) -> None:
        self.redis: Any = connect(url)  # redis-py's types are those of its two faces at once
        self.prefix = f"redlock:{uuid4().hex}"
        self.run = "run-1"
        self._used = {self.prefix}

    def call(self, script: Script, name: str | None, *args: Any) -> Any:
        keys = [self.prefix]
        if name is not None:
            keys += self.keys(name)
        self._used.update(keys)
        return self.redis.eval(script.text, len(keys), *keys, self.run, *args)

    def keys(self, name: str) -> list[str]:
        return [f"{self.prefix}:{name}:{what}" for what in ("lock", "trace", "waiters")]

    def grant(
        self,
        name: str,
        id: str,
        ttl: int = 600_000,
        hint: int = 0,
        channel: str = "",
        waited: int | None = None,
    ) -> Answer:
        since = "" if waited is None else waited
        return Answer.parse(self.call(GRANT, name, id, ttl, hint, "host 1 ", channel, since))

    def raise_to(self, name: str, id: str, fence: int) -> Answer:
        return Answer.parse(self.call(RAISE, name, id, fence))

    def renew(self, name: str, id: str, ttl: int, fence: int) -> bool | None:
        return {0: False, 1: True, 2: None}[self.call(RENEW, name, id, ttl, fence)]

    def find(self, name: str, id: str) -> Answer:
        return Answer.parse(self.call(FIND, name, id))._replace(recheck=0.0)

    def take_over(self, name: str, id: str, ttl: int, fence: int) -> bool | None:
        reply = self.call(TAKE_OVER, name, id, ttl, fence, "host 1 ", "")
        return {0: False, 1: True, 2: None}[reply]

    def release(
        self, name: str, id: str, fence: int, departure: Departure = Departure.RELEASED
    ) -> bool:
        reply = self.call(RELEASE, name, id, fence, departure.value, "", "host 1 ", "")
        return {0: False, 1: True, 2: False}[reply]

    def look(self) -> Memory:
        return Memory.parse(self.call(LOOK, None))

    def readmit(self, floor: int = 0) -> bool:
        return bool(self.call(READMIT, None, self.look().since, floor))

    def forget(self) -> None:
        self.redis.delete(
            *self._used
        )  # not by a search: others may have left a hundred thousand here

    def close(self) -> None:
        self.redis.close()

    def time_left(self, name: str) -> int:
        return int(self.redis.pttl(self.keys(name)[0]))
