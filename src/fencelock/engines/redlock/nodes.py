"""The nodes as this client knows them: which can be asked, which have failed, which are unfit."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import hiredis

from fencelock.core.backoff import Backoff
from fencelock.core.errors import Unsupported
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.protocol import majority
from fencelock.engines.resp.advice import explained
from fencelock.engines.resp.facts import facts_of
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.packing import Command
from fencelock.engines.resp.wire import error_text
from fencelock.io import clock
from fencelock.io.contract import IO, Event, Task

log = logging.getLogger("fencelock.engine")

QUESTIONS: tuple[Command, ...] = (
    ("INFO", "server", "replication", "cluster", "memory"),
    ("CONFIG", "GET", "append*"),
)
"""Asked on each new connection: which server is this, and does it keep its data?"""

DURABLE = "durable"
"""Used instead of the run_id of a node that loses nothing in a restart: all its processes count as one."""

_PROBE_TIMEOUT = 2.0
"""Seconds that a failed node gets to answer a probe. No caller waits for it."""


class NodeHealth:
    """One node, and how it has behaved."""

    def __init__(self, number: int, node: Node, io: IO) -> None:
        self.number = number
        self.node = node
        self.run_id = ""
        self.failure: RequestFailed | None = None
        """Why it is left alone."""
        self.complaint: RequestFailed | None = None
        """The last error with which it refused a request. It can still be asked."""
        self.retry_at = 0.0
        self.probe: Task | None = None
        self.probing = False
        self._backoff = Backoff(0.5, 10.0, io.random)

    def __str__(self) -> str:
        return str(self.node)

    @property
    def problem(self) -> RequestFailed | None:
        return self.failure or self.complaint

    def fail(self, why: RequestFailed) -> None:
        """Leave it alone for a while, longer each time."""
        self.failure = why
        self.retry_at = clock.now() + self._backoff.next()

    def succeed(self) -> None:
        self.failure = self.complaint = None
        self._backoff.reset()


class Nodes(ABC):
    """All nodes."""

    notices_lost_links: ClassVar[bool]
    """Whether a lost link is noticed even while nobody uses it."""

    def __init__(self, nodes: Sequence[Node], io: IO, node_timeout: float) -> None:
        self.all = [NodeHealth(number, node, io) for number, node in enumerate(nodes)]
        self.enough = majority(len(nodes))
        self.node_timeout = node_timeout
        self._io = io
        self._reached_majority = False
        self._closed = False
        self._probe_ended: list[Event] = []
        """One for each caller that waits for nodes to come back."""

    async def take(
        self, timeout: float, kept: NodeLinks | None = None, before: NodeLinks | None = None
    ) -> NodeLinks:
        """Links to all nodes that can be asked now.

        `kept`: links that the caller already has. `before`: links that the caller gave back and would
        like to have again, if nobody else uses them.
        """
        if self._closed:
            if kept is not None:
                self.discard(kept)
            raise RequestFailed("the client was closed", "not applied")
        links = self._ready(kept, before)
        await self._drop_overdue(links)
        for health in self.all:
            if health.failure is not None:  # found by another caller
                links.drop(health.number)
        if None not in links.at:
            return links
        until = clock.now() + timeout
        try:
            for health in self.all:
                if links.at[health.number] is None and health.failure is None:
                    await self._connect(links, health, until)
            if len(links.connected()) < self.enough:
                await self.revive(links, self.enough, min(until, clock.now() + self.node_timeout))
        except BaseException:
            self.discard(links)
            raise
        self._reached_majority = self._reached_majority or len(links.connected()) >= self.enough
        for health in self.all:
            if links.at[health.number] is None and clock.now() >= health.retry_at:
                self._start_probe(health)
        return links

    @contextmanager
    def returned(self, links: NodeLinks) -> Iterator[None]:
        """Give the links back afterwards, or discard them if the block is left by an exception."""
        try:
            yield
        except BaseException:
            self.discard(links)
            raise
        self.give(links)

    def fail(self, links: NodeLinks, node: int, why: RequestFailed) -> None:
        """Note that a node did not answer, or that its link broke."""
        self.all[node].fail(why)
        links.drop(node)

    def problem(self) -> RequestFailed | None:
        """What is wrong with the first node that has a problem."""
        return next((why for health in self.all if (why := health.problem) is not None), None)

    def explain(self) -> str:
        """What is wrong with the nodes, as far as it is known."""
        return "; ".join(
            f"{health}: {explained(why)}" for health in self.all if (why := health.problem)
        )

    async def close(self) -> None:
        """Close every link, and open no more."""
        self._closed = True
        for health in self.all:
            await health.node.close()
            if health.probe is not None:
                await health.probe.join()

    @abstractmethod
    def give(self, links: NodeLinks) -> None:
        """Give links back. Nobody waits for the replies that they are still owed."""

    @abstractmethod
    def discard(self, links: NodeLinks) -> None:
        """Give links back after an interruption: what was sent and what was read is not known."""

    @abstractmethod
    async def catch_up(self) -> None:
        """Read the replies that idle links are owed. Perhaps nobody will use them for long."""

    @abstractmethod
    def _ready(self, kept: NodeLinks | None, before: NodeLinks | None) -> NodeLinks:
        """Links that are there already, to all nodes or to some."""

    async def _drop_overdue(self, links: NodeLinks) -> None:
        for node in await links.overdue(self.node_timeout):
            self.fail(links, node, RequestFailed("it does not answer", "unknown"))

    async def _connect(self, links: NodeLinks, health: NodeHealth, until: float) -> None:
        try:
            timeout = min(self.node_timeout, max(0.001, until - clock.now()))
            link = await health.node.take(timeout)
            links.connect(health.number, link, self._identify(health, link))
        except RequestFailed as error:
            health.fail(error)
        else:
            health.succeed()

    async def revive(self, links: NodeLinks, wanted: int, until: float) -> None:
        """Probe all nodes without a link at once, until `wanted` nodes can be asked or the time is up."""
        lacking = [health for health in self.all if links.at[health.number] is None]
        ended = self._io.event()
        self._probe_ended.append(ended)
        try:
            for health in lacking:
                self._start_probe(health)
            while any(health.probing for health in lacking) and (now := clock.now()) < until:
                back = sum(health.failure is None for health in lacking)
                if len(links.connected()) + back >= wanted:
                    break
                await ended.wait(until - now)
                ended.clear()
        finally:
            self._probe_ended.remove(ended)
        for health in lacking:
            if health.failure is None:
                await self._connect(links, health, until)

    def _start_probe(self, health: NodeHealth) -> None:
        """Find out in the background whether a node is back. No caller has to wait for it."""
        if not health.probing:
            # Set here and not by the task: the task may have ended before `probe` is assigned.
            health.probing = True
            health.probe = self._io.spawn(self._probe(health), "fencelock-probe")

    async def _probe(self, health: NodeHealth) -> None:
        try:
            link = await health.node.take(_PROBE_TIMEOUT)
            self._identify(health, link)
            health.node.give(link)
        except RequestFailed as error:
            health.fail(error)
        except Unsupported as error:
            health.fail(RequestFailed(str(error), "not applied"))
        else:
            health.succeed()
        finally:
            health.probing = False
            for ended in list(self._probe_ended):
                ended.set()

    def _identify(self, health: NodeHealth, link: Link) -> str:
        """Check the server behind a new link. Returns the word by which the scripts notice lost data."""
        info, config = link.answers
        if isinstance(info, hiredis.ReplyError):
            link.close()
            raise RequestFailed(f"{error_text(info)} (to INFO)", "not applied")
        facts = facts_of(info)
        why = self._unfit(health, facts)
        if why is not None:
            link.close()
            if self._reached_majority:  # the node has changed since: the others carry on
                log.warning("%s %s", health, why)
                raise RequestFailed(why, "not applied")
            raise Unsupported(f"{health} {why}")
        health.run_id = facts["run_id"]
        settings = config if isinstance(config, dict) else {}  # not every user may ask
        keeps = settings.get(b"appendonly") == b"yes" and settings.get(b"appendfsync") == b"always"
        return DURABLE if keeps else health.run_id

    def _unfit(self, health: NodeHealth, facts: dict[str, str]) -> str | None:
        if facts.get("cluster_enabled") == "1":
            return (
                "is a node of a Redis Cluster, but Redlock needs servers that know nothing of one "
                "another: for the cluster use redis+cluster://"
            )
        if facts.get("role") != "master":
            return "is a replica, but Redlock needs masters that know nothing of one another"
        for other in self.all:
            if other is not health and other.run_id == facts["run_id"]:
                return f"is the same server as {other}: name each server once"
        return None
