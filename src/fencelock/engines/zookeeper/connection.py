"""A connection that sends batches of requests. It differs from kazoo's client in three ways:

- A client has one thread instead of three: replies and watch events are handed over where they arrive.
- Requests that belong together are sent together, in the caller's thread if that is possible, and it is known
  whether they were sent at all.
- A server that does not answer is left within seconds instead of two thirds of the session.
"""

from __future__ import annotations

from fencelock.engines.zookeeper.batch import Batch
from fencelock.engines.zookeeper.kazoo_door import KazooConnection
from fencelock.io import clock


class Connection(KazooConnection):
    """One session's connection, for batches. Any thread may call it."""

    @property
    def connected(self) -> bool:
        return self.server is not None

    def submit(self, batch: Batch) -> None:
        """Send a batch as soon as there is a connection, unless it is withdrawn before."""
        if self.direct and self._sent_directly(batch):
            return
        self.outbox.append(batch)
        self.wake()
        if self.dead is not None:
            self.fail_outbox(self.dead)

    def _sent_directly(self, batch: Batch) -> bool:
        """Write in the caller's thread: to wake the connection's thread takes longer than to write."""
        if not self.sending.acquire(blocking=False):
            return False
        try:
            if self.server is None or self.outbox or self.unsent:
                return False
            payload = self.frame(batch)
            try:
                self.unsent = payload[self.write_some(payload) :]
            except BlockingIOError:
                self.unsent = payload
            except OSError:  # it broke: its thread is about to notice
                return True
        finally:
            self.sending.release()
        if self.unsent:
            self.wake()
        return True

    def unchanged_since(self, zxid: int, now: float) -> float:
        """Since when a node is known to be as it is now, if this transaction changed it last."""
        with self.progress_mutex:
            self.progress.reached(self.client.last_zxid, now)
            return self.progress.known_since(zxid, now)

    def leave_if_silent(self, seconds: float) -> None:
        """A request was not answered: leave the server if it has said nothing at all for so long."""
        silent = self.silent_since
        if silent is not None and clock.now() - silent >= seconds:
            self.disconnect()
