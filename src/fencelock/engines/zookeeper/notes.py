"""Notes: what `remember` stores for a name, in a node that stays when all tickets are gone.

    <chroot>/fencelock-notes                      changed to learn the servers' time
    <chroot>/fencelock-notes/<bucket>             one of 256, changed whenever a note is added to it
    <chroot>/fencelock-notes/<bucket>/<name>      a note: for how many seconds it was stored, and the text

ZooKeeper lets nothing expire by itself. But its leader writes on every node when it was last changed, by its
own wall clock. The time of a note counts from then, and ends by that clock. Clients that add notes delete
notes whose time is over: now and then, such a client looks at some others in the bucket. So there are never
many more notes than still count.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from typing import Any

from fencelock.core.note import Note
from fencelock.engines.failure import RequestFailed
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.batch import done, existed, gone, missing, rejection, value
from fencelock.engines.zookeeper.nodes import escaped
from fencelock.engines.zookeeper.queues import Queues

_MAX_CLOCK_AGE = 60.0
"""Seconds after which the servers' time is asked for again: another server may lead by then."""

_TIDY_ONE_IN = 8
"""One of so many additions tidies up."""
_TIDY_SAMPLE = 32
"""At how many notes it looks. More than were added in the meantime, so that old notes don't pile up."""


class Notes:
    """All notes beside the queues below one path."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._io = queues.io
        self._root = f"{queues.root}-notes"
        self._time: tuple[float, float] | None = None
        """The servers' time, and ours when we heard of it."""

    async def remember(self, ticket: str, name: str, text: str, keep: float, until: float) -> bool:
        """Store a note, provided that a ticket which holds is still there."""
        bucket, path = self._place(name)
        data = Note(keep, text).pack()
        check = requests.check(ticket)
        replace = requests.transaction(check, requests.touch(path, data))
        create = requests.create(path, data, self._queues.acl)
        add = requests.transaction(check, create, requests.touch(bucket, b""))
        while True:
            replaced, added = await self._queues.ask(until, replace, add)
            if done(replaced):
                return True
            if done(added):
                break
            if missing(replaced) or missing(added):
                return False
            if not missing(replaced, 1):
                raise rejection(replaced)
            if missing(added, 1):
                await self._queues.make_nodes([self._root, bucket], until)
            elif not existed(added, 1):  # else another holder was faster
                raise rejection(added)
        if self._io.random.randrange(_TIDY_ONE_IN) == 0:
            with suppress(RequestFailed):
                await self.tidy(name, until)
        return True

    async def recall(self, name: str, until: float) -> str | None:
        """The note of a name, unless its time is over."""
        _, path = self._place(name)
        _, found = await self._queues.ask(until, requests.sync(path), requests.get(path))
        if gone(found):
            return None
        return None if _is_over(found, await self._now(until)) else Note.unpack(found[0]).text

    async def tidy(self, name: str, until: float) -> None:
        """Delete some notes in a name's bucket whose time is over.

        Only if no note was added to the bucket since it was read: it could be for the same name.
        """
        bucket, _ = self._place(name)
        about, listing = await self._queues.ask(
            until, requests.get(bucket), requests.children(bucket)
        )
        nodes, version = value(listing), value(about)[1].version
        if not nodes:  # other clients have tidied up already
            return
        some = self._io.random.sample(nodes, min(len(nodes), _TIDY_SAMPLE))
        paths = [f"{bucket}/{node}" for node in some]
        found = await self._queues.ask(until, *map(requests.get, paths))
        now = await self._now(until)
        over = [
            removal(path, reply[1].version, bucket, version)
            for path, reply in zip(paths, found, strict=True)
            if not gone(reply) and _is_over(reply, now)
        ]
        if over:
            await self._queues.ask(until, *over)

    def _place(self, name: str) -> tuple[str, str]:
        """The bucket of a name, and its note there."""
        bucket = f"{self._root}/{blake2b(name.encode(), digest_size=1).hexdigest()}"
        return bucket, f"{bucket}/{escaped(name)}"

    async def _now(self, until: float) -> float:
        """The servers' time, or a moment before it."""
        time = self._time
        if time is None or self._io.now() - time[1] > _MAX_CLOCK_AGE:
            (touched,) = await self._queues.ask(until, requests.touch(self._root, b""))
            time = self._time = value(touched).mtime / 1000, self._io.now()
        at, heard = time
        return at + self._io.now() - heard


def removal(path: str, version: int, bucket: str, bucket_version: int) -> requests.Request:
    """Delete a note, provided that it is the one that was read, and not a later one for the same name."""
    return requests.transaction(
        requests.check(bucket, bucket_version), requests.delete(path, version)
    )


def _is_over(reply: Any, now: float) -> bool:
    data, stat = value(reply)
    return bool(stat.mtime / 1000 + Note.unpack(data).keep <= now)
