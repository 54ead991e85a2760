"""HAProxy and nginx for tests, with the files in ops/: private, on free loopback ports, stopped by pid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.servers import HOST, Server

OPS = Path(__file__).parent.parent / "ops"

_NGINX = """
daemon off;
master_process off;  # one process, so that nothing is left if it is killed
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_read_timeout 1s;  # in place of nginx's 60 s: what the file does not set itself shows soon
    include {folder}/fencelock.conf;
}}
"""


class LoadBalancer(Server):
    """A load balancer in front of the replicas on these ports. `changes` are made to its file in ops/."""

    source: Path

    def __init__(
        self, folder: Path, ports: Sequence[int], changes: dict[str, str] | None = None
    ) -> None:
        super().__init__(folder)
        self._ports = ports
        self._changes = changes or {}

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def ready(self) -> bool:
        connection = HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status in (200, 502)
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def configuration(self) -> str:
        """The file in ops/, with the ports of this test."""
        text = self.source.read_text()
        ports = iter(self._ports)
        lines: list[str] = []
        for line in text.splitlines():
            if re.match(r"\s*server .*10\.0\.0\.1\d:7007", line):
                port = next(ports, None)
                if port is None:  # fewer replicas than in the example
                    continue
                line = re.sub(r"10\.0\.0\.1\d:7007", f"{HOST}:{port}", line)
            lines.append(line)
        text = "\n".join(lines) + "\n"
        for old, new in self._changes.items():
            assert old in text, f"{self.source} has no {old!r}"
            text = text.replace(old, new)
        return text


class Haproxy(LoadBalancer):
    source = OPS / "haproxy" / "haproxy.cfg"

    def command(self) -> list[str]:
        path = self.folder / "haproxy.cfg"
        text = self.configuration().replace("bind :7000", f"bind {HOST}:{self.port}")
        path.write_text(text)
        return ["haproxy", "-db", "-f", str(path)]


class Nginx(LoadBalancer):
    source = OPS / "nginx" / "fencelock.conf"

    def command(self) -> list[str]:
        path = self.folder / "nginx.conf"
        text = self.configuration().replace("listen 7000", f"listen {HOST}:{self.port}")
        (self.folder / "fencelock.conf").write_text(text)
        path.write_text(_NGINX.format(folder=self.folder))
        return ["nginx", "-p", str(self.folder), "-c", str(path)]
