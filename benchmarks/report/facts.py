"""Facts about the machine of a run, in general terms."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = [
    "redis",
    "hiredis",
    "apsw",
    "grpcio",
    "kazoo",
    "psycopg",
    "pymysql",
    "aetcd",
    "aioredlock",
    "etcd3gw",
    "filelock",
    "pals",
    "portalocker",
    "pottery",
    "python-redis-lock",
    "redlock-ng",
    "sherlock",
    "tooz",
]
SERVERS = {
    "Redis": "redis-server",
    "etcd": "etcd",
    "PostgreSQL": "postgres",
    "MariaDB": "mariadbd",
}
_PLACES = ("/usr/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin")))


def facts() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} on {platform.machine()}",
        "python": platform.python_version(),
        "servers": {name: found for name, word in SERVERS.items() if (found := _server(word))},
        "packages": {name: found for name in PACKAGES if (found := _package(name))},
        "load before": round(os.getloadavg()[0], 1),
    }


def headline(facts: dict[str, Any]) -> str:
    def listed(versions: dict[str, str]) -> str:
        return ", ".join(f"{name} {version}" for name, version in versions.items())

    return (
        f"{facts['cores']} cores, {facts['system']}, Python {facts['python']}; "
        f"{listed(facts['servers'])}; {listed(facts['packages'])}; load before: {facts['load before']}"
    )


def _package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _server(word: str) -> str | None:
    path = os.pathsep.join((os.environ.get("PATH", ""), *_PLACES))
    command = shutil.which(word, path=path)
    if command is None:
        return None
    said = subprocess.run([command, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\d+\.\d+(\.\d+)?", said)
    return found[0] if found else None
