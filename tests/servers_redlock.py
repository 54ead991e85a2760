"""Five Redis servers that know nothing of one another."""

from contextlib import ExitStack
from pathlib import Path

from tests.servers import RedisServer, ServerSet, Setting


class RedlockSet(ServerSet):
    """The nodes of a Redlock; settings are those of redis.conf."""

    def __init__(
        self,
        folder: Path,
        *,
        binary: str = "redis-server",
        nodes: int = 5,
        tls: bool = False,
        **settings: Setting,
    ) -> None:
        super().__init__(folder, binary=binary)
        self._count = nodes
        self._tls = tls
        self._settings = settings

    @property
    def url(self) -> str:
        return "redlock://" + ",".join(node.address for node in self.nodes)

    def mend(self) -> None:
        """Repair what a test has done: all nodes run, and are empty. Changed settings stay changed."""
        for node in self.nodes:
            if not node.runs:
                node.start()
                continue
            node.thaw()
            with node.client() as client:
                client.script_flush()
                client.flushall()

    def _start(self, running: ExitStack) -> None:
        self.nodes = [
            running.enter_context(
                RedisServer(
                    self.folder / f"node-{n}", binary=self.binary, tls=self._tls, **self._settings
                )
            )
            for n in range(self._count)
        ]
