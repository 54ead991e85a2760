"""etcd: each contender watches its own key, and writes to the next one's. A hand-off, not a lock."""

from __future__ import annotations

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.etcd_txns import address_of
from fencelock.engines.etcd.blocking import BlockingNode
from fencelock.engines.etcd.messages_pb2 import WatchCreateRequest, WatchRequest
from fencelock.engines.etcd.wire import TXN, put, txn
from fencelock.io.blocking import run


class EtcdBaton(Turns):
    """One transaction and one push, through our own client."""

    label = "limit: one write, one push"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._node = BlockingNode(address_of(url), None)
        self._give = txn([], [put(_key(name, (seat + 1) % seats), b"t", 0)])
        self._stream = self._node.watch((), lambda: False)
        watch = WatchCreateRequest(key=_key(name, seat))
        self._stream.send(WatchRequest(create_request=watch))
        created = run(self._stream.receive())
        assert created is not None
        assert created.created

    def acquire(self) -> None:
        while True:
            heard = run(self._stream.receive())
            assert heard is not None
            if heard.events:  # messages without events only show that the watch is alive
                return

    def release(self) -> None:
        run(self._node.call(TXN, self._give, 5.0, ()))

    def close(self) -> None:
        self._stream.close()
        run(self._node.close())

    @classmethod
    def kick_off(cls, url: str, name: str) -> None:
        node = BlockingNode(address_of(url), None)
        run(node.call(TXN, txn([], [put(_key(name, 0), b"t", 0)]), 5.0, ()))
        run(node.close())


def _key(name: str, seat: int) -> bytes:
    return f"baton/{name}/{seat}".encode()
