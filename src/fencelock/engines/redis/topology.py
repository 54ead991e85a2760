"""Which server is responsible for a name: one node, the master a Sentinel knows, or a Cluster's slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from binascii import crc_hqx
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import hiredis

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redis.keys import tag_of
from fencelock.engines.resp.advice import WRONG_NODE, WRONG_SERVER, first_word, rejection
from fencelock.engines.resp.facts import DATA_QUESTIONS, Question
from fencelock.engines.resp.link import Link, MakeNode, Node
from fencelock.engines.resp.packing import Command, pack
from fencelock.engines.resp.wire import Login, Rejected, error_text
from fencelock.io.contract import IO, Event

SLOTS = 16384

_CLUSTER_QUESTIONS = (*DATA_QUESTIONS, ("CLUSTER INFO", ("CLUSTER", "INFO")))

Address = tuple[str, int]
Slots = list[tuple[int, int, Address]]

A = TypeVar("A")


class Member(NamedTuple):
    """A server and its role: "master", "replica" or "sentinel"."""

    role: str
    node: Node
    questions: Sequence[Question] = DATA_QUESTIONS
    """What to ask it when it is examined."""


class Unserved(RequestFailed):
    """No node is responsible for a name at the moment. Other names are not affected."""


class Topology(ABC):
    """Finds the node of a name, and finds it again when it was wrong."""

    on_change: Callable[[], None] = staticmethod(lambda: None)
    """Called after a request has found out which nodes are responsible."""

    only: Node | None = None
    """The node that is responsible for all names, if that never changes."""

    @abstractmethod
    def known(self, name: str) -> Node | None:
        """The server that keeps this name's queue, if it is known."""

    @abstractmethod
    async def node(self, name: str, timeout: float) -> Node:
        """The server that keeps this name's queue. Asks if it is not known."""

    @abstractmethod
    async def masters(self, timeout: float) -> list[Node]:
        """Every server that keeps queues."""

    @abstractmethod
    async def members(self, timeout: float) -> list[Member]:
        """Every server of this set-up that is known, to examine it: also those that keep no queues now."""

    def moved(self, name: str, node: Node) -> bool:
        """Whether a name is known to be at another node by now. Sends nothing."""
        return False

    def redirect(self, node: Node, answer: str) -> None:  # noqa: B027 - only a cluster has slots
        """Take in a node's answer about a slot that has moved: "MOVED SLOT HOST:PORT"."""

    def invalidate(self, node: Node) -> None:  # noqa: B027 - a single node never changes
        """Find the node again before the next request: this one failed or is not responsible."""

    def rejected(self, node: Node, link: Link, reply: hiredis.ReplyError) -> Rejected:
        """The error for a node's refusal of a script. Takes in what it says about other nodes."""
        error = rejection(reply)
        word = first_word(error)
        if word in WRONG_SERVER:
            link.retire()
        if word == "MOVED":
            self.redirect(node, str(error))
        elif word in WRONG_SERVER or word in WRONG_NODE:
            self.invalidate(node)
        return error

    @abstractmethod
    async def close(self) -> None:
        """Close every link."""


class Single(Topology):
    """One server, always the same."""

    only: Node

    def __init__(self, node: Node) -> None:
        self.only = node

    def known(self, name: str) -> Node:
        return self.only

    async def node(self, name: str, timeout: float) -> Node:
        return self.only

    async def masters(self, timeout: float) -> list[Node]:
        return [self.only]

    async def members(self, timeout: float) -> list[Member]:
        return [Member("master", self.only)]

    async def close(self) -> None:
        await self.only.close()


class _Discovery(Generic[A]):
    """A discovery under way, which other callers wait for."""

    def __init__(self, over: Event) -> None:
        self.over = over
        self.answer: A | None = None
        self.failure: RequestFailed | None = None


class _Discovered(Topology, Generic[A]):
    """Nodes whose addresses other servers tell."""

    def __init__(self, make: MakeNode, login: Login, io: IO) -> None:
        self._make = make
        self._login = login
        self._io = io
        self._nodes: dict[Address, Node] = {}
        self._discovery: _Discovery[A] | None = None

    def _at(self, address: Address) -> Node:
        node = self._nodes.get(address)
        return node or self._nodes.setdefault(address, self._make(*address, self._login))

    async def _discover(self, timeout: float) -> A:
        """Ask, once for all callers that want to know at the same time."""
        discovery = self._discovery
        if discovery is None:
            discovery = self._discovery = _Discovery(self._io.event())
            try:
                discovery.answer = await self._ask(timeout)
                self.on_change()
                return discovery.answer
            except RequestFailed as error:
                discovery.failure = error
                raise
            finally:
                self._discovery = None
                discovery.over.set()
        if not await discovery.over.wait(timeout):
            raise RequestFailed(f"no answer within {timeout:.3g} s", "not applied")
        if discovery.failure is not None:
            raise RequestFailed(str(discovery.failure), "not applied") from discovery.failure
        # Neither an answer nor a failure: the caller that asked was cancelled.
        return discovery.answer or await self._discover(timeout)

    @abstractmethod
    async def _ask(self, timeout: float) -> A:
        """Ask which nodes are responsible, and remember it."""

    async def close(self) -> None:
        for node in list(self._nodes.values()):
            await node.close()


async def ask(node: Node, command: Command, timeout: float) -> object:
    """One command to one node; an error reply is raised."""
    link = await node.take(timeout)
    try:
        (reply,) = await link.ask(pack([command]), 1, timeout)
    finally:
        node.give(link)
    if isinstance(reply, hiredis.ReplyError):
        raise RequestFailed(error_text(reply), "not applied")
    return reply


async def _answer(
    nodes: list[Node],
    command: Command,
    timeout: float,
    who: str,
    doubtful: Callable[[list[Any]], bool] = lambda answer: False,
) -> tuple[Node, list[Any]]:
    """The first answer that any of these nodes gives, and the node. A doubtful answer counts only if no node
    gives another one."""
    failure = "none was given"
    doubted: tuple[Node, list[Any]] | None = None
    for node in nodes:
        try:
            answer = await ask(node, command, timeout / len(nodes))
        except RequestFailed as error:
            failure = f"{node}: {error}"
            continue
        if not isinstance(answer, list) or not answer:
            failure = f"{node}: does not know it"
        elif doubtful(answer):
            doubted = doubted or (node, answer)
        else:
            return node, answer
    if doubted is not None:
        return doubted
    raise RequestFailed(f"no {who} could tell where the master is ({failure})", "not applied")


class Sentinel(_Discovered[Node]):
    """The master of a group, as its Sentinels tell. It is found again after a failover."""

    def __init__(
        self, make: MakeNode, sentinels: list[Node], group: str, login: Login, io: IO
    ) -> None:
        super().__init__(make, login, io)
        self._sentinels = sentinels
        for sentinel in sentinels:
            sentinel.loaded = True  # it takes no scripts
        self._group = group
        self._master: Node | None = None
        self._failed: Node | None = None

    def known(self, name: str) -> Node | None:
        return self._master

    async def node(self, name: str, timeout: float) -> Node:
        return self._master or await self._discover(timeout)

    async def _ask(self, timeout: float) -> Node:
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._group)
        # A Sentinel that is cut off from the others may still name the master that has failed.
        told, answer = await _answer(
            self._sentinels,
            command,
            timeout,
            "Sentinel",
            lambda answer: self._named(answer) is self._failed,
        )
        master = self._master = self._named(answer)
        # Next time ask the Sentinel that answered first: others may hang.
        self._sentinels = sorted(self._sentinels, key=lambda sentinel: sentinel is not told)
        return master

    def _named(self, answer: list[Any]) -> Node:
        host, port = answer
        return self._at((host.decode(), int(port)))

    async def masters(self, timeout: float) -> list[Node]:
        return [await self.node("", timeout)]

    async def members(self, timeout: float) -> list[Member]:
        about = ("SENTINEL", "MASTER", self._group)
        questions = (("SENTINEL MASTER", about), ("INFO", ("INFO", "sentinel")))
        found = [Member("sentinel", sentinel, questions) for sentinel in self._sentinels]
        try:
            found.append(Member("master", await self._discover(timeout)))
            command = ("SENTINEL", "REPLICAS", self._group)
            _, replicas = await _answer(self._sentinels, command, timeout, "Sentinel")
        except RequestFailed:  # the Sentinels' own descriptions say why, or there is no replica
            return found
        addresses = [(each[b"ip"].decode(), int(each[b"port"])) for each in replicas]
        return found + [Member("replica", self._at(address)) for address in addresses]

    def moved(self, name: str, node: Node) -> bool:
        return self._master not in (None, node)

    def invalidate(self, node: Node) -> None:
        if node is self._master:
            self._master = None
            self._failed = node

    async def close(self) -> None:
        await super().close()
        for sentinel in self._sentinels:
            await sentinel.close()


class Cluster(_Discovered[Slots]):
    """The masters of a Redis Cluster, each responsible for some of the 16384 slots."""

    def __init__(self, make: MakeNode, seeds: list[Address], login: Login, io: IO) -> None:
        super().__init__(make, login, io)
        self._seeds = seeds
        self._slots: Slots = []
        self._failed: Node | None = None

    def known(self, name: str) -> Node | None:
        slot = _slot(name)
        for first, last, address in self._slots:
            if first <= slot <= last:
                return self._at(address)
        return None

    async def node(self, name: str, timeout: float) -> Node:
        node = self.known(name)
        if node is None:
            await self._map(timeout)
            node = self.known(name)
        if node is None:
            raise Unserved(f"no node of the cluster serves slot {_slot(name)}", "not applied")
        return node

    def moved(self, name: str, node: Node) -> bool:
        return self.known(name) not in (None, node)

    async def masters(self, timeout: float) -> list[Node]:
        addresses = dict.fromkeys(address for _, _, address in await self._map(timeout))
        return [self._at(address) for address in addresses]

    async def members(self, timeout: float) -> list[Member]:
        nodes = [self._at(seed) for seed in self._seeds]
        try:
            told, answer = await _answer(nodes, ("CLUSTER", "SLOTS"), timeout, "cluster node")
        except RequestFailed:  # their own descriptions say why
            return [Member("master", node, _CLUSTER_QUESTIONS) for node in nodes]
        found: dict[Node, Member] = {}
        for _, _, *replicated in answer:
            for at, server in enumerate(replicated):
                role = "replica" if at else "master"
                node = self._at(_address(server, told))
                found.setdefault(node, Member(role, node, _CLUSTER_QUESTIONS))
        for seed in nodes:  # a seed that serves no slots, or that is down
            found.setdefault(seed, Member("seed", seed, _CLUSTER_QUESTIONS))
        return list(found.values())

    def redirect(self, node: Node, answer: str) -> None:
        # Believe it at once: other nodes give the old answer until they have heard of the change.
        _, slot, address = answer.split()[:3]
        host, _, port = address.rpartition(":")
        if self._slots:  # else the next request asks for the whole map anyway
            self._slots = [(int(slot), int(slot), (host or node.host, int(port))), *self._slots]
            self.on_change()

    def invalidate(self, node: Node) -> None:
        self._slots = []
        self._failed = node

    async def _map(self, timeout: float) -> Slots:
        return self._slots or await self._discover(timeout)

    async def _ask(self, timeout: float) -> Slots:
        # All nodes that are known, because the seeds may be gone by now. The one that failed last comes last.
        known = {self._at(seed): None for seed in self._seeds}
        known.update(dict.fromkeys(self._nodes.values()))
        nodes = sorted(known, key=lambda node: node is self._failed)
        told, answer = await _answer(nodes, ("CLUSTER", "SLOTS"), timeout, "cluster node")
        slots = self._slots = [
            (first, last, _address(master, told)) for first, last, master, *_ in answer
        ]
        return slots


def _address(server: list[Any], told: Node) -> Address:
    # A node that does not know its own address leaves it empty. We know where we asked it.
    return (server[0] or b"").decode() or told.host, int(server[1])


def _slot(name: str) -> int:
    return crc_hqx(tag_of(name).encode(), 0) % SLOTS
