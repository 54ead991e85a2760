"""Private Redis and Valkey servers. They need nothing but a socket to see whether a server answers."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from io import BufferedRWPair
from pathlib import Path

from fencelock.servers.process import HOST, Server, Setting, spelled_out

_TIMEOUT = 5.0


class RedisServer(Server):
    """One Redis or Valkey. It writes nothing to disk unless the settings say so.

    Settings are those of redis.conf: `RedisServer(folder, appendonly="yes", requirepass="…")`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        binary: str = "redis-server",
        environment: Mapping[str, str] | None = None,
        **settings: Setting,
    ) -> None:
        super().__init__(folder, environment=environment)
        self.binary = binary
        self.package = Path(binary).name  # Debian's packages have the names of the programs
        self.settings: dict[str, Setting] = {
            "bind": HOST,
            "dir": folder,
            "save": "",
            # By default a primary waits 5 s for more replicas to sync. At shutdown it waits 10 s for slow
            # replicas.
            "repl-diskless-sync-delay": 0,
            "shutdown-timeout": 0,
            **spelled_out(settings),
        }

    def command(self) -> list[str]:
        words = [self.binary]
        for name, value in {**self.settings, **self._listener()}.items():
            # A few settings take several words. An empty value is one word. A path may contain spaces.
            parts = value.split() if isinstance(value, str) else [str(value)]
            words += [f"--{name}", *(parts or [""])]
        return words

    def _listener(self) -> dict[str, Setting]:
        return {"port": self.port}

    def ready(self) -> bool:
        try:
            # PING fails while data is loading. The pid shows whether our server or another one has the port.
            pong, about = self._ask("PING", "INFO server")
        except (OSError, ValueError):
            return False
        return pong == "PONG" and f"process_id:{self.pid}\r\n" in about

    @property
    def url(self) -> str:
        password = self.settings.get("requirepass")
        return self._url(f":{password}@" if password else "")

    def _url(self, credentials: str) -> str:
        return f"redis://{credentials}{self.address}"

    def restart(self, *, keep_data: bool) -> None:
        """Crash and start again, with all the data, or with none, like a server without a disk."""
        if keep_data:
            self._ask("SAVE")
        self.kill()
        if not keep_data:
            for path in (*self.folder.glob("*.rdb"), *self.folder.glob("appendonlydir/*")):
                path.unlink()
        self.start()

    def _connect(self) -> socket.socket:
        return socket.create_connection((HOST, self.port), _TIMEOUT)

    def _ask(self, *commands: str) -> list[str]:
        """Run commands on a new connection. Their replies must be one line, or a text."""
        password = self.settings.get("requirepass")
        commands = (f"AUTH {password}", *commands) if password else commands
        with self._connect() as link, link.makefile("rwb") as stream:
            stream.write("".join(f"{command}\r\n" for command in commands).encode())
            stream.flush()
            replies = [_reply(stream) for _ in commands]
        return replies[1:] if password else replies


def _reply(stream: BufferedRWPair) -> str:
    line = stream.readline().decode().rstrip()
    if not line or line[0] == "-":
        raise OSError(line or "the server has closed the connection")
    return stream.read(int(line[1:]) + 2).decode() if line[0] == "$" else line[1:]
