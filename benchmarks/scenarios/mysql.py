"""MariaDB: a pair that nobody disputes, and how fast a lock changes hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.mysql import BareGetLock, BareUpdates, Tooz
from benchmarks.adapters.ours import Holdfast
from benchmarks.crew import Crew, Pace, calm
from benchmarks.rounds import Table, interleave
from benchmarks.scenarios.redis_pair import measure_pairs
from benchmarks.setting import Setting, scenario

SIZES = (2, 32)


@scenario("mysql-pair")
def mysql_pair(setting: Setting) -> Iterator[Table]:
    adapters = (Holdfast, BareUpdates, BareGetLock, Tooz)
    for durable in (True, False):
        url = setting.mysql(durable=durable).url
        rounds, pairs = setting.rounds(25, 5), setting.rounds(100, 30)
        samples = measure_pairs(adapters, url, rounds=rounds, pairs=pairs)
        title = f"MariaDB pair, {'durable' if durable else 'not flushed at commit'}"
        yield Table(title, "µs", "lower", samples, {BareUpdates.label: 0.77, Tooz.label: 1.0})


@scenario("mysql-hand-off")
def mysql_hand_off(setting: Setting) -> Iterator[Table]:
    url, seconds = setting.mysql(durable=False).url, setting.seconds(0.5, 0.2)

    def contestant(crew: Crew, adapter: type[Turns], size: int) -> Callable[[], float]:
        return lambda: crew.compete(adapter, url, f"calm-{size}", size, calm(seconds)).latency_us()

    def busy(crew: Crew, adapter: type[Turns], size: int) -> Callable[[], float]:
        pace = Pace(seconds)
        return lambda: crew.compete(adapter, url, f"busy-{size}", size, pace).per_second()

    adapters = (Holdfast, BareGetLock)
    with Crew(max(SIZES)) as crew:
        for size in SIZES:
            throughput = interleave(
                {adapter.label: busy(crew, adapter, size) for adapter in adapters},
                setting.rounds(9, 3),
            )
            yield Table(f"MariaDB hand-off, {size} processes", "per s", "higher", throughput)
            latency = interleave(
                {adapter.label: contestant(crew, adapter, size) for adapter in adapters},
                setting.rounds(9, 3),
            )
            title = f"MariaDB release → next holder, {size} processes"
            yield Table(title, "µs", "lower", latency)


@scenario("mysql-bloat")
def mysql_bloat(setting: Setting) -> Iterator[Table]:
    """How large the table is after many pairs; not a race, but a million takes minutes."""
    server = setting.mysql(durable=False)
    pairs = setting.rounds(1_000_000, 10_000)
    turns = Holdfast(server.url, "bloat")
    sizes: list[float] = []
    for _ in range(10):
        for _ in range(pairs // 10):
            turns.acquire()
            turns.release()
        sizes.append((server.data / "locks" / "holdfast_names.ibd").stat().st_size / 1024)
    turns.close()
    note = f"after each tenth of {pairs:,} pairs: {', '.join(f'{size:.0f}' for size in sizes)} KiB"
    yield Table("MariaDB table size", "KiB", "lower", {Holdfast.label: sizes}, {}, [note])
