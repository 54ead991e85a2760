"""Forks, several event loops, and programs that just end."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fencelock
from fencelock.primitives.waiting import new_id
from tests.engines.etcd import server_state
from tests.servers_etcd import EtcdCluster

ROOT = Path(__file__).parents[3]

FORKS = """
import os, sys, threading, time
import fencelock

url, name = sys.argv[1:]
client = fencelock.Client(url, ttl=30)
lease = client.lock(name).acquire()
threading.Thread(target=lambda: client.lock(name).acquire(timeout=60), daemon=True).start()
while not client.inspect(name).waiting:
    time.sleep(0.01)
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        for one in (client, fencelock.Client(url)):
            assert one.lock(name).try_acquire() is None
            with one.lock(name + ":child"):
                pass
            one.close()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
lease.renew()
lease.release()
client.close()
print("unharmed")
"""

FORKS_ASYNC = """
import asyncio, os, sys
import fencelock

url, name = sys.argv[1:]
client, unused = fencelock.AsyncClient(url, ttl=30), fencelock.AsyncClient(url)

async def in_child():
    for make in (lambda: client.lock(name).acquire(), lambda: unused.lock(name).acquire()):
        try:
            await make()
            os._exit(1)
        except fencelock.Unsupported as error:
            assert "fork before the first use" in str(error)
    try:
        fencelock.AsyncClient(url)
        os._exit(2)
    except fencelock.Unsupported:
        pass

async def main():
    async with client, client.lock(name):
        pid = os.fork()
        if pid == 0:
            asyncio.events._set_running_loop(None)
            asyncio.run(in_child())
            os._exit(0)
        assert await asyncio.to_thread(os.waitpid, pid, 0) == (pid, 0)

async def use_first_in_child():
    async with unused, unused.lock(name):
        pass

pid = os.fork()  # before the first use
if pid == 0:
    asyncio.run(use_first_in_child())
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
asyncio.run(main())
print("unharmed")
"""

ENDS = """
import sys, threading, time
import fencelock

client = fencelock.Client(sys.argv[1], ttl=30)
lease = client.lock(sys.argv[2]).acquire()
threading.Thread(target=lambda: client.lock(sys.argv[2]).acquire(), daemon=True).start()
while not client.inspect(sys.argv[2]).waiting:
    time.sleep(0.01)
print("ends")  # without closing the client
"""

ENDS_ASYNC = """
import asyncio, sys
import fencelock

async def main():
    client = fencelock.AsyncClient(sys.argv[1], ttl=30)
    lease = await client.lock(sys.argv[2]).acquire()
    waiter = asyncio.create_task(client.lock(sys.argv[2]).acquire())
    while not (await client.inspect(sys.argv[2])).waiting:
        await asyncio.sleep(0.01)
    print("ends")  # without closing the client

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [FORKS, FORKS_ASYNC, ENDS, ENDS_ASYNC])
def test_programs_end_normally(etcd_cluster: EtcdCluster, program: str) -> None:
    command = [sys.executable, "-c", program, etcd_cluster.url, f"program:{new_id()}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() in (["unharmed"], ["ends"])


def test_two_event_loops_at_once(etcd_cluster: EtcdCluster) -> None:
    name = f"loops:{new_id()}"
    inside: list[int] = []
    fences: list[int] = []

    async def contend() -> None:
        async with fencelock.AsyncClient(etcd_cluster.url) as client:
            for _ in range(20):
                async with client.lock(name) as lease:
                    inside.append(1)
                    assert len(inside) == 1
                    fences.append(lease.fence)
                    await asyncio.sleep(0)
                    inside.pop()

    threads = [threading.Thread(target=asyncio.run, args=(contend(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(fences) == 60
    assert fences == sorted(set(fences))
    assert server_state.of(etcd_cluster, name) == []


def test_one_event_loop_after_the_other(etcd_cluster: EtcdCluster) -> None:
    async def once() -> int:
        async with (
            fencelock.AsyncClient(etcd_cluster.url) as client,
            client.lock(name) as lease,
        ):
            return lease.fence

    name = f"loops:{new_id()}"
    fences = [asyncio.run(once()) for _ in range(5)]
    assert fences == sorted(set(fences))
