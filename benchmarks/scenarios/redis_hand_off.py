"""Redis, several processes want the lock: how fast does it change hands, and what does that cost?"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.ours import Holdfast
from benchmarks.adapters.raw_redis import Ring, RingAfterRoundTrip, Token
from benchmarks.adapters.redis_py import RedisPyLockPolling
from benchmarks.crew import Crew, Pace, Series, calm
from benchmarks.rounds import Table, interleave
from benchmarks.setting import Setting, scenario
from tests import counting
from tests.servers import RedisServer

SIZES = (2, 8, 32)


@scenario("redis-hand-off")
def redis_hand_off(setting: Setting) -> Iterator[Table]:
    with Crew(max(SIZES)) as crew:
        for size in SIZES:
            yield _throughput(setting, crew, size)
        for size in SIZES[:2]:
            yield _latency(setting, crew, size)


def _throughput(setting: Setting, crew: Crew, size: int) -> Table:
    url, seconds = setting.redis.url, setting.seconds(0.5, 0.15)
    series: dict[str, list[Series]] = {}

    def contestant(adapter: type[Turns]) -> Callable[[], float]:
        def run() -> float:
            turns = crew.compete(adapter, url, f"busy-{size}", size, Pace(seconds))
            series.setdefault(adapter.label, []).append(turns)
            return turns.per_second()

        return run

    adapters = (Holdfast, RedisPyLockPolling, Token)
    contestants = {adapter.label: contestant(adapter) for adapter in adapters}
    samples = interleave(contestants, setting.rounds(9, 3))
    fairness = ", ".join(
        f"{label} {statistics.median(one.fairness() for one in all_):.2f}"
        for label, all_ in series.items()
    )
    goals = {Token.label: 0.6}
    notes = [f"Jain index: {fairness}", _cost(crew, setting.redis, adapters[:2], size)]
    title = f"Redis hand-off, {size} processes"
    return Table(title, "per s", "higher", samples, goals, notes)


def _cost(crew: Crew, server: RedisServer, adapters: tuple[type[Turns], ...], size: int) -> str:
    """Requests per turn, in a run of its own: the server is slower while it is watched."""
    parts = []
    for adapter in adapters:
        crew.connect(adapter, server.url, "counted", size)
        with counting.requests(server) as requests, counting.commands(server) as commands:
            turns = len(crew.take_turns(size, Pace(0.1)).turns)
        sent = sum(count for name, count in requests.items() if name not in _OF_THE_COUNTER)
        parts.append(
            f"{adapter.label} {sent / turns:.2f} requests and {commands['publish'] / turns:.2f} pushes"
        )
    return "per turn: " + "; ".join(parts)


_OF_THE_COUNTER = {"info", "echo", "hello", "client"}


def _latency(setting: Setting, crew: Crew, size: int) -> Table:
    url, seconds = setting.redis.url, setting.seconds(0.5, 0.15)

    def contestant(adapter: type[Turns]) -> Callable[[], float]:
        return lambda: crew.compete(adapter, url, f"calm-{size}", size, calm(seconds)).latency_us()

    adapters = (Holdfast, RedisPyLockPolling, Token, RingAfterRoundTrip, Ring)
    contestants = {adapter.label: contestant(adapter) for adapter in adapters}
    samples = interleave(contestants, setting.rounds(9, 3))
    title = f"Redis release → next holder, {size} processes"
    return Table(title, "µs", "lower", samples, {RingAfterRoundTrip.label: 0.5})
