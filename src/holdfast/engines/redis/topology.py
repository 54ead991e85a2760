"""Which server is responsible for a name: one node, the master a Sentinel knows, or a Cluster's slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from binascii import crc_hqx
from collections.abc import Callable

import hiredis

from holdfast.engines.redis.link import Node
from holdfast.engines.redis.resp import Broken, Command, Login

SLOTS = 16384

Address = tuple[str, int]
MakeNode = Callable[[str, int, Login], Node]


class Topology(ABC):
    """Finds the node for a name, and learns when it was wrong."""

    @abstractmethod
    async def node(self, name: str, timeout: float) -> Node:
        """The server that keeps this name's queue."""

    @abstractmethod
    async def masters(self, timeout: float) -> list[Node]:
        """Every server that keeps queues."""

    def mistrust(self, node: Node) -> None:  # noqa: B027 - a single node has nothing to rediscover
        """This node failed or is not responsible: ask again before the next request."""

    @abstractmethod
    async def close(self) -> None:
        """Close every link."""


class Single(Topology):
    """One server, always the same."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def node(self, name: str, timeout: float) -> Node:
        return self._node

    async def masters(self, timeout: float) -> list[Node]:
        return [self._node]

    async def close(self) -> None:
        await self._node.close()


class _Discovered(Topology):
    """Servers that are found out by asking others, and kept by address."""

    def __init__(self, make: MakeNode, login: Login) -> None:
        self._make = make
        self._login = login
        self._nodes: dict[Address, Node] = {}

    def _at(self, address: Address) -> Node:
        if address not in self._nodes:
            self._nodes[address] = self._make(*address, self._login)
        return self._nodes[address]

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.close()


async def ask(node: Node, command: Command, timeout: float) -> object:
    """One command to one node; an error reply is raised."""
    link = await node.take(timeout)
    try:
        (reply,) = await link.exchange([command], timeout)
    finally:
        node.give(link)
    if isinstance(reply, hiredis.ReplyError):
        raise Broken(str(reply), "not applied")
    return reply


async def _first_answer(nodes: list[Node], command: Command, timeout: float, who: str) -> object:
    """The first answer that any of several nodes gives."""
    failure = "none was given"
    for node in nodes:
        try:
            answer = await ask(node, command, timeout / len(nodes))
            if answer:
                return answer
            failure = f"{node}: does not know it"
        except Broken as error:
            failure = f"{node}: {error}"
    raise Broken(f"no {who} could tell where the master is ({failure})", "not applied")


class Sentinel(_Discovered):
    """The master of a monitored group, as its Sentinels tell; found again after a failover."""

    def __init__(self, make: MakeNode, sentinels: list[Node], group: str, login: Login) -> None:
        super().__init__(make, login)
        self._sentinels = sentinels
        self._group = group
        self._master: Node | None = None

    async def node(self, name: str, timeout: float) -> Node:
        if self._master is None:
            command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._group)
            answer = await _first_answer(self._sentinels, command, timeout, "Sentinel")
            assert isinstance(answer, list)
            host, port = answer
            self._master = self._at((host.decode(), int(port)))
        return self._master

    async def masters(self, timeout: float) -> list[Node]:
        return [await self.node("", timeout)]

    def mistrust(self, node: Node) -> None:
        self._master = None

    async def close(self) -> None:
        await super().close()
        for sentinel in self._sentinels:
            await sentinel.close()


class Cluster(_Discovered):
    """The masters of a Redis Cluster, each responsible for some of the 16384 slots."""

    def __init__(self, make: MakeNode, seeds: list[Address], login: Login) -> None:
        super().__init__(make, login)
        self._seeds = seeds
        self._slots: list[tuple[int, int, Address]] = []

    async def node(self, name: str, timeout: float) -> Node:
        slot = crc_hqx(name.encode(), 0) % SLOTS
        for first, last, address in await self._map(timeout):
            if first <= slot <= last:
                return self._at(address)
        raise Broken(f"no node of the cluster serves slot {slot}", "not applied")

    async def masters(self, timeout: float) -> list[Node]:
        addresses = dict.fromkeys(address for _, _, address in await self._map(timeout))
        return [self._at(address) for address in addresses]

    def mistrust(self, node: Node) -> None:
        self._slots = []

    async def _map(self, timeout: float) -> list[tuple[int, int, Address]]:
        if not self._slots:
            # Those that answered before come along: the seeds may be gone by now.
            known = [self._at(seed) for seed in self._seeds]
            known += [node for node in self._nodes.values() if node not in known]
            answer = await _first_answer(known, ("CLUSTER", "SLOTS"), timeout, "cluster node")
            assert isinstance(answer, list)
            self._slots = [
                (first, last, (master[0].decode(), int(master[1])))
                for first, last, master, *_ in answer
            ]
        return self._slots
