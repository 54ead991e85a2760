"""What is noted down for a name: a node that stays when all tickets are gone.

    <chroot>/fencelock-notes                      changed to learn the servers' time
    <chroot>/fencelock-notes/<shelf>              one of 256, changed whenever a note is added to it
    <chroot>/fencelock-notes/<shelf>/<name>       a note: for how many seconds it was written, and the text

ZooKeeper lets nothing expire by itself. But its leader writes on every node when it was last changed, by its
own wall clock: from that the time of a note counts, and by that clock it ends. What has ended is taken out by
those who add something new: now and then one of them looks at some of its neighbours. So there is never much
more than what still counts.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from typing import Any

from kazoo.exceptions import NodeExistsError

from fencelock.core.note import Note
from fencelock.engines.failure import RequestFailed
from fencelock.engines.zookeeper import requests as ask
from fencelock.engines.zookeeper.advice import rejection
from fencelock.engines.zookeeper.nodes import escaped
from fencelock.engines.zookeeper.queue import Queues, value
from fencelock.engines.zookeeper.requests import Stat
from fencelock.io.contract import IO

_TRUSTED = 60.0
"""Seconds after which the servers' time is asked for anew: another one may lead by then."""

_SELDOM = 8
"""One of so many additions looks at others."""
_NEIGHBOURS = 32
"""At so many, which is more than were added: so what is over does not pile up."""


class Notes:
    """All notes beside the queues below one path."""

    def __init__(self, queues: Queues, io: IO, acl: Any) -> None:
        self._queues = queues
        self._io = io
        self._acl = acl
        self._root = f"{queues.root}-notes"
        self._time: tuple[float, float] | None = None
        """The servers' time, and ours when we heard of it."""

    async def remember(self, ticket: str, name: str, text: str, keep: float, until: float) -> bool:
        """Note something down, provided that a ticket which holds is still there."""
        shelf, path = self._place(name)
        data = Note(keep, text).pack()
        replace = ask.write_held(ticket, ask.touch(path, data))
        add = ask.add_note(ticket, path, data, shelf, self._acl)
        while True:
            replaced, added = await self._queues.ask(until, replace, add)
            if ask.done(replaced):
                return True
            if ask.done(added):
                break
            if ask.missing(replaced) or ask.missing(added):
                return False
            if not ask.gone(_fault(replaced)):
                raise rejection(replaced)
            if ask.gone(_fault(added)):
                await self._make_shelf(shelf, until)
            elif not isinstance(_fault(added), NodeExistsError):  # else one who shares was faster
                raise rejection(added)
        if self._io.random.randrange(_SELDOM) == 0:
            with suppress(RequestFailed):
                await self.tidy(name, until)
        return True

    async def recall(self, name: str, until: float) -> str | None:
        """What was noted down, unless its time is up."""
        _, path = self._place(name)
        _, found = await self._queues.ask(until, ask.sync(path), ask.get(path))
        if ask.gone(found):
            return None
        data, stat = value(found)
        note = Note.unpack(data)
        return None if _is_over(note, stat, await self._now(until)) else note.text

    async def tidy(self, name: str, until: float) -> None:
        """Take out some of what is over on a name's shelf.

        Only if nothing was added to it since we looked: it could be the same name again, just noted down.
        """
        shelf, _ = self._place(name)
        about, listing = await self._queues.ask(until, ask.get(shelf), ask.children(shelf))
        nodes, version = value(listing), Stat._make(value(about)[1]).version
        if not nodes:  # others have tidied up already
            return
        some = self._io.random.sample(nodes, min(len(nodes), _NEIGHBOURS))
        paths = [f"{shelf}/{node}" for node in some]
        found = await self._queues.ask(until, *map(ask.get, paths))
        now = await self._now(until)
        over = [
            ask.remove_note(path, reply[1].version, shelf, version)
            for path, reply in zip(paths, found, strict=True)
            if not ask.gone(reply) and _is_over(Note.unpack(value(reply)[0]), reply[1], now)
        ]
        if over:
            await self._queues.ask(until, *over)

    def _place(self, name: str) -> tuple[str, str]:
        """The shelf for a name, and its note there."""
        shelf = f"{self._root}/{blake2b(name.encode(), digest_size=1).hexdigest()}"
        return shelf, f"{shelf}/{escaped(name)}"

    async def _make_shelf(self, shelf: str, until: float) -> None:
        wanted = [ask.create_plain(path, self._acl) for path in (self._root, shelf)]
        for reply in await self._queues.ask(until, *wanted):
            if not isinstance(reply, NodeExistsError):
                value(reply)

    async def _now(self, until: float) -> float:
        """The servers' time, or a moment before it."""
        time = self._time
        if time is None or self._io.now() - time[1] > _TRUSTED:
            (touched,) = await self._queues.ask(until, ask.touch(self._root, b""))
            time = self._time = Stat._make(value(touched)).mtime / 1000, self._io.now()
        at, heard = time
        return at + self._io.now() - heard


def _fault(reply: Any) -> Any:
    """Why nothing was noted down, though the ticket is there."""
    return reply[1] if isinstance(reply, list) else reply


def _is_over(note: Note, stat: Any, now: float) -> bool:
    return bool(stat.mtime / 1000 + note.keep <= now)
