"""SET NX PX to all nodes, DEL to all nodes: bare commands on sockets, and one poll."""

from __future__ import annotations

import select

from benchmarks.adapters.contract import TTL_SECONDS, Turns
from benchmarks.adapters.limits.redis_wire import RawConnection, pack


def nodes_of(url: str) -> list[str]:
    """The nodes as `redis://` URLs: one, or several for `redlock://`."""
    scheme, _, rest = url.partition("://")
    return [url] if scheme == "redis" else [f"redis://{address}" for address in rest.split(",")]


class SendToAll(Turns):
    """It continues as soon as a majority has answered. The other answers are read when they come."""

    label = "limit: answers of a majority"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._set = pack("SET", name, "me", "NX", "PX", TTL_SECONDS * 1000)
        self._delete = pack("DEL", name)
        self._nodes: dict[int, RawConnection] = {}
        self._owed: dict[int, list[bytes]] = {}
        self._poll = select.poll()
        for node in nodes_of(url):
            connection = RawConnection(node)
            number = connection.socket.fileno()
            self._nodes[number], self._owed[number] = connection, []
            self._poll.register(connection.socket, select.POLLIN)

    def acquire(self) -> None:
        self._ask(self._set, b"+OK\r\n")

    def release(self) -> None:
        self._ask(self._delete, b":1\r\n")

    def _ask(self, request: bytes, answer: bytes) -> None:
        for number, connection in self._nodes.items():
            connection.socket.sendall(request)
            self._owed[number].append(answer)
        missing = self._enough()
        while missing > 0:
            for number, _ in self._poll.poll():
                missing -= self._heard(number)

    def _heard(self, number: int) -> bool:
        """Read from a node. Returns whether the node has sent all its pending answers."""
        answers, owed = self._nodes[number].socket.recv(65536), self._owed[number]
        while answers:
            assert answers.startswith(owed[0]), answers
            answers = answers[len(owed.pop(0)) :]
        return not owed

    def _enough(self) -> int:
        return len(self._nodes) // 2 + 1

    def close(self) -> None:
        for connection in self._nodes.values():
            connection.close()


class SendToAllReadAll(SendToAll):
    """It waits for the slowest node."""

    label = "limit: answers of all"

    def _enough(self) -> int:
        return len(self._nodes)
