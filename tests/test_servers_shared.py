"""Servers of the whole run: each worker has its own place there, and no server is left behind."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fencelock.core.url import Url
from tests.servers_shared import SharedServers, ask
from tests.waiting import eventually


def listens(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(Url.parse(url).hosts[0]) == 0


def test_places_in_one_server_until_it_is_closed() -> None:
    servers = SharedServers()
    try:
        one, other = (Url.parse(ask(servers.address, "mysql", worker)) for worker in ("w1", "w2"))
        assert one.hosts == other.hosts
        assert one.path != other.path
        assert listens(str(one))
        with pytest.raises(AssertionError, match="no shared oracle"):
            ask(servers.address, "oracle", "w1")
    finally:
        servers.close()
    assert not listens(str(one))
    assert not Path(servers.address).parent.exists()


def test_they_die_with_their_process() -> None:
    program = """
import os, signal
from tests.servers_shared import SharedServers, ask
address = SharedServers().address
print(address, ask(address, "etcd", "w1"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout, run.stderr
    address, url = run.stdout.split()
    eventually(lambda: not listens(url), "the servers to die")
    shutil.rmtree(Path(address).parent)  # a killed process can't do this itself
