"""The nodes as this client knows them: who can be asked, who is left alone for a while, who is unfit."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import ClassVar, cast

import hiredis

from fencelock.core.backoff import Backoff
from fencelock.core.errors import Unsupported
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.blocking import BlockingLines
from fencelock.engines.redlock.lines import Lines
from fencelock.engines.redlock.multiplexed import MultiplexedLines
from fencelock.engines.redlock.protocol import majority
from fencelock.engines.resp.advice import explained
from fencelock.engines.resp.blocking import BlockingNode
from fencelock.engines.resp.facts import facts_of
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.multiplexed import MultiplexedNode
from fencelock.engines.resp.packing import Command
from fencelock.engines.resp.wire import Login, said
from fencelock.io import clock
from fencelock.io.contract import IO, Event, Task

log = logging.getLogger("fencelock")

QUESTIONS: tuple[Command, ...] = (
    ("INFO", "server", "replication", "cluster", "memory"),
    ("CONFIG", "GET", "append*"),
)
"""What each new connection is asked: who is there, and what it will remember."""

DURABLE = "durable"
"""Stands for the process of a node that loses nothing when it restarts: all its processes are one."""

_PROBE = 2.0
"""Seconds that a node may take to come back. Nobody waits for it."""

_TRUSTED = 1.0
"""Seconds after which idle lines are looked at before they are used: they may have been cut."""

_IDLE_LINES = 16
"""Sets of lines kept for the next question; more are closed when they come back."""

_MOMENT = 0.05
"""Seconds to wait, before lines are closed, for nodes to take in what was sent."""


class Member:
    """One node, and how it has behaved."""

    def __init__(self, number: int, node: Node, io: IO) -> None:
        self.number = number
        self.node = node
        self.run_id = ""
        self.failure: RequestFailed | None = None
        """Why it is left alone."""
        self.complaint: RequestFailed | None = None
        """What it last had to say against a request, though it can be asked."""
        self.retry_at = 0.0
        self.probe: Task | None = None
        self.probing = False
        self._backoff = Backoff(0.5, 10.0, io.random)

    def __str__(self) -> str:
        return str(self.node)

    @property
    def trouble(self) -> RequestFailed | None:
        return self.failure or self.complaint

    def fail(self, why: RequestFailed) -> None:
        """Leave it alone for a while, longer each time."""
        self.failure = why
        self.retry_at = clock.now() + self._backoff.next()

    def succeed(self) -> None:
        self.failure = self.complaint = None
        self._backoff.reset()


class Members(ABC):
    """All nodes."""

    attentive: ClassVar[bool]
    """Whether it is noticed that a line was lost though nobody uses it."""

    def __init__(self, nodes: list[Node], io: IO, node_timeout: float) -> None:
        self.all = [Member(number, node, io) for number, node in enumerate(nodes)]
        self.enough = majority(len(nodes))
        self.node_timeout = node_timeout
        self._io = io
        self._met = False
        self._closed = False
        self._curious: list[Event] = []
        """Of those who wait for nodes to come back."""

    async def take(
        self, timeout: float, kept: Lines | None = None, before: Lines | None = None
    ) -> Lines:
        """Lines to all nodes that can be asked now.

        `kept`: those that the caller has already. `before`: those that it has given back and would
        like again, if nobody else uses them.
        """
        if self._closed:
            if kept is not None:
                self.discard(kept)
            raise RequestFailed("the client was closed", "not applied")
        lines = self._ready(kept, before)
        await self._drop_overdue(lines)
        for member in self.all:
            if member.failure is not None:  # as somebody else has found
                lines.drop(member.number)
        if None not in lines.links:
            return lines
        until = clock.now() + timeout
        try:
            for member in self.all:
                if lines.links[member.number] is None and member.failure is None:
                    await self._connect(lines, member, until)
            if len(lines.up()) < self.enough:
                await self.revive(lines, self.enough, min(until, clock.now() + self.node_timeout))
        except BaseException:
            self.discard(lines)
            raise
        self._met = self._met or len(lines.up()) >= self.enough
        for member in self.all:
            if lines.links[member.number] is None and clock.now() >= member.retry_at:
                self._look_after(member)
        return lines

    def fail(self, lines: Lines, node: int, why: RequestFailed) -> None:
        """A node did not answer, or its line broke."""
        self.all[node].fail(why)
        lines.drop(node)

    def trouble(self) -> RequestFailed | None:
        """What is wrong with a node; of several the first one's."""
        return next((why for member in self.all if (why := member.trouble) is not None), None)

    def explain(self) -> str:
        """What is wrong with the nodes, as far as it is known."""
        return "; ".join(
            f"{member}: {explained(why)}" for member in self.all if (why := member.trouble)
        )

    async def close(self) -> None:
        """Close every line, and open no more."""
        self._closed = True
        for member in self.all:
            await member.node.close()
            if member.probe is not None:
                await member.probe.join()

    @abstractmethod
    def give(self, lines: Lines) -> None:
        """Give lines back; nobody waits for what they are still owed."""

    @abstractmethod
    def discard(self, lines: Lines) -> None:
        """Likewise after an interruption: what was sent and what was read is not known."""

    @abstractmethod
    async def catch_up(self) -> None:
        """Read what idle lines are owed: nobody else may come by for long."""

    @abstractmethod
    def _ready(self, kept: Lines | None, before: Lines | None) -> Lines:
        """Lines that are there already, to all nodes or to some."""

    async def _drop_overdue(self, lines: Lines) -> None:
        for node in await lines.overdue(self.node_timeout):
            self.fail(lines, node, RequestFailed("it does not answer", "unknown"))

    async def _connect(self, lines: Lines, member: Member, until: float) -> None:
        try:
            timeout = min(self.node_timeout, max(0.001, until - clock.now()))
            link = await member.node.take(timeout)
            lines.connect(member.number, link, self._identify(member, link))
        except RequestFailed as error:
            member.fail(error)
        else:
            member.succeed()

    async def revive(self, lines: Lines, wanted: int, until: float) -> None:
        """Rather than give up, see whether nodes that failed are back: all of them at once."""
        lacking = [member for member in self.all if lines.links[member.number] is None]
        news = self._io.event()
        self._curious.append(news)
        try:
            for member in lacking:
                self._look_after(member)
            while any(member.probing for member in lacking) and (now := clock.now()) < until:
                back = sum(member.failure is None for member in lacking)
                if len(lines.up()) + back >= wanted:
                    break
                await news.wait(until - now)
                news.clear()
        finally:
            self._curious.remove(news)
        for member in lacking:
            if member.failure is None:
                await self._connect(lines, member, until)

    def _look_after(self, member: Member) -> None:
        """See in the background whether a node is back: nobody has to wait for it."""
        if not member.probing:
            member.probing = True  # not by the task: it may have ended before we have it
            member.probe = self._io.spawn(self._try(member), "fencelock-probe")

    async def _try(self, member: Member) -> None:
        try:
            link = await member.node.take(_PROBE)
            self._identify(member, link)
            member.node.give(link)
        except (RequestFailed, Unsupported) as error:
            member.fail(
                error
                if isinstance(error, RequestFailed)
                else RequestFailed(str(error), "not applied")
            )
        else:
            member.succeed()
        finally:
            member.probing = False
            for news in list(self._curious):
                news.set()

    def _identify(self, member: Member, link: Link) -> str:
        """Look whom we met: the word by which the scripts know whether it has its memory."""
        info, config = link.answers
        if isinstance(info, hiredis.ReplyError):
            link.close()
            raise RequestFailed(f"{said(info)} (to INFO)", "not applied")
        facts = facts_of(info)
        why = self._unfit(member, facts)
        if why is not None:
            link.close()
            if self._met:  # it has changed since: the others carry on
                log.warning("%s %s", member, why)
                raise RequestFailed(why, "not applied")
            raise Unsupported(f"{member} {why}")
        member.run_id = facts["run_id"]
        settings = config if isinstance(config, dict) else {}  # not everybody may ask
        keeps = settings.get(b"appendonly") == b"yes" and settings.get(b"appendfsync") == b"always"
        return DURABLE if keeps else member.run_id

    def _unfit(self, member: Member, facts: dict[str, str]) -> str | None:
        if facts.get("cluster_enabled") == "1":
            return (
                "is a node of a Redis Cluster, but Redlock needs servers that know nothing of one "
                "another: for the cluster use redis+cluster://"
            )
        if facts.get("role") != "master":
            return "is a replica, but Redlock needs masters that know nothing of one another"
        for other in self.all:
            if other is not member and other.run_id == facts["run_id"]:
                return f"is the same server as {other}: name each server once"
        return None


class BlockingMembers(Members):
    """A set of lines for each thread that asks at the same time."""

    attentive = False

    def __init__(
        self, hosts: list[tuple[str, int]], login: Login, io: IO, node_timeout: float
    ) -> None:
        nodes: list[Node] = [BlockingNode(host, port, login) for host, port in hosts]
        super().__init__(nodes, io, node_timeout)
        self._idle: list[BlockingLines] = []

    def _ready(self, kept: Lines | None, before: Lines | None) -> BlockingLines:
        lines = kept or self._again(before)
        if lines is None:
            return BlockingLines(len(self.all))
        assert isinstance(lines, BlockingLines)
        if clock.now() - lines.used_at > _TRUSTED:
            lines.drop_cut()
        else:
            lines.catch_up()
        return lines

    def _again(self, before: Lines | None) -> Lines | None:
        try:
            if before is not None and before is not self._idle[-1]:
                with suppress(ValueError):  # somebody else uses them
                    self._idle.remove(cast(BlockingLines, before))
                    return before
            return self._idle.pop()
        except IndexError:
            return None

    def give(self, lines: Lines) -> None:
        assert isinstance(lines, BlockingLines)
        lines.used_at = clock.now()
        if self._closed or not lines.usable or len(self._idle) >= _IDLE_LINES:
            lines.settle(_MOMENT)
            lines.close()
        else:
            self._idle.append(lines)

    def discard(self, lines: Lines) -> None:
        assert isinstance(lines, BlockingLines)
        lines.close()

    async def catch_up(self) -> None:
        for lines in list(self._idle):
            with suppress(ValueError):  # somebody uses them now
                self._idle.remove(lines)
                lines.catch_up()
                await self._drop_overdue(lines)
                self._idle.insert(0, lines)  # as long unused as before

    async def close(self) -> None:
        await super().close()
        while self._idle:
            self.give(self._idle.pop())


class MultiplexedMembers(Members):
    """One link to each node for all tasks."""

    attentive = True

    def __init__(
        self, hosts: list[tuple[str, int]], login: Login, io: IO, node_timeout: float
    ) -> None:
        nodes: list[Node] = [MultiplexedNode(host, port, login) for host, port in hosts]
        super().__init__(nodes, io, node_timeout)
        self._known: list[tuple[Link | None, str]] = [(None, "")] * len(hosts)

    def _ready(self, kept: Lines | None, before: Lines | None) -> MultiplexedLines:
        lines = MultiplexedLines(len(self.all))
        for node, (known, run) in enumerate(self._known):
            link = self.all[node].node.ready()
            if link is not None and link is known:
                lines.connect(node, link, run)
        return lines

    def _identify(self, member: Member, link: Link) -> str:
        known, run = self._known[member.number]
        if known is not link:
            run = super()._identify(member, link)
            self._known[member.number] = link, run
        return run

    def give(self, lines: Lines) -> None:
        pass  # the links are everybody's, and skip by themselves what nobody waits for

    discard = give

    async def catch_up(self) -> None:
        pass  # the event loop reads
