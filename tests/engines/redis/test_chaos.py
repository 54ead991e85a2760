"""Everything at once: many contenders, and a network and a server that are never well for long."""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import fencelock
from tests.engines.redis.server_state import empty, links
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisFactory, RedisServer
from tests.waiting import soon

TURNS = 20
FAULTS = 100
"""More than most runs take. The rest is done in peace: what an interrupted contender leaves behind may last
for its ttl, and on a machine that is slow there would be ever more of it."""
SEED = random.randrange(1_000_000)


class Section:
    """What the lock protects: two may never be inside at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.together = 0
        self.fences: list[int] = []
        self.failures: list[str] = []

    def come_in(self, lease: Any) -> None:
        self.inside += 1
        self.together += self.inside > 1
        self.fences.append(lease.fence)

    def go_out(self) -> None:
        self.inside -= 1


def thread(client: fencelock.Client, section: Section) -> None:
    done = 0
    while done < TURNS:
        try:
            with client.lock("x", ttl=20) as lease:
                section.come_in(lease)
                time.sleep(0.001)
                section.go_out()
                done += 1
        except fencelock.EngineError:
            continue  # it could not join: once more
        except Exception as error:
            section.failures.append(repr(error))
            raise


async def task(client: fencelock.AsyncClient, section: Section) -> None:
    done = 0
    while done < TURNS:
        try:
            async with client.lock("x", ttl=20) as lease:
                section.come_in(lease)
                await asyncio.sleep(0.001)
                section.go_out()
                done += 1
        except fencelock.EngineError:
            continue


async def impatient(
    client: fencelock.AsyncClient, chance: random.Random, over: asyncio.Event
) -> None:
    """Joins, changes its mind and is cancelled, over and over."""
    while not over.is_set():
        acquiring = asyncio.create_task(client.lock("x", ttl=20).acquire())
        await asyncio.sleep(chance.random() / 30)
        acquiring.cancel()
        with suppress(asyncio.CancelledError, fencelock.EngineError):
            await (await acquiring).release()


def trouble(chance: random.Random, server: RedisServer, proxy: TcpProxy) -> None:
    """One of the things that go wrong, each over after a moment."""
    what = chance.randrange(7)
    if what == 0:
        proxy.cut()
    elif what == 1:
        server.execute("CLIENT", "KILL", "TYPE", "pubsub")
    elif what == 2:
        server.execute("SCRIPT", "FLUSH")
    elif what == 3:
        proxy.refuse()
        time.sleep(chance.random() / 20)
        proxy.heal()
    elif what == 4:
        server.freeze()
        time.sleep(chance.random() / 10)
        server.thaw()
    elif what == 5:
        proxy.mute()
        time.sleep(chance.random() / 20)
        proxy.heal()
    else:
        proxy.cut_after_request(chance.randrange(1, 10))


async def test_nothing_is_lost_and_nobody_is_inside_together(
    redis_server: RedisFactory,
    tcp_proxy: Callable[[int], TcpProxy],
    record_property: Callable[[str, object], None],
) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    server = redis_server()
    proxy = tcp_proxy(server.port)
    url = f"redis://{HOST}:{proxy.port}"
    section = Section()
    with fencelock.Client(url) as client, fencelock.Client(url) as other:
        async with fencelock.AsyncClient(url) as async_client:
            threads = [
                threading.Thread(target=thread, args=(one, section))
                for one in (client, other)
                for _ in range(4)
            ]
            for one in threads:
                one.start()
            tasks = [asyncio.create_task(task(async_client, section)) for _ in range(8)]
            over = asyncio.Event()
            passers_by = [
                asyncio.create_task(impatient(async_client, chance, over)) for _ in range(3)
            ]
            faults = 0
            while any(one.is_alive() for one in threads) or not all(one.done() for one in tasks):
                if faults < FAULTS:
                    await asyncio.to_thread(trouble, chance, server, proxy)
                    faults += 1
                await asyncio.sleep(chance.random() / 10)
                assert not section.failures, f"seed {SEED}"
            over.set()
            await asyncio.gather(*tasks, *passers_by)
            proxy.heal()
            record_property("faults", faults)
            assert section.together == 0, f"seed {SEED}"
            assert len(section.fences) == 16 * TURNS
            assert section.fences == sorted(set(section.fences)), f"seed {SEED}"
            await empty(server, "x")
    await soon(lambda: not links(server), "every connection to be closed")
