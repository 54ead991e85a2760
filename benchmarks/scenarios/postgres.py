"""PostgreSQL: a pair that nobody disputes, and how fast a lock changes hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.ours import Holdfast
from benchmarks.adapters.postgres import BareAdvisory, BareUpdates, Pals, Tooz
from benchmarks.crew import Crew, Pace, calm
from benchmarks.rounds import Table, interleave
from benchmarks.scenarios.redis_pair import measure_pairs
from benchmarks.setting import Setting, scenario

SIZES = (2, 32)


@scenario("postgres-pair")
def postgres_pair(setting: Setting) -> Iterator[Table]:
    adapters = (Holdfast, BareUpdates, BareAdvisory, Tooz, Pals)
    for durable in (True, False):
        url = setting.postgresql(durable=durable).url
        rounds, pairs = setting.rounds(25, 5), setting.rounds(100, 30)
        samples = measure_pairs(adapters, url, rounds=rounds, pairs=pairs)
        title = f"PostgreSQL pair, {'durable' if durable else 'fsync off'}"
        yield Table(title, "µs", "lower", samples, {BareUpdates.label: 0.77, Tooz.label: 1.0})


@scenario("postgres-hand-off")
def postgres_hand_off(setting: Setting) -> Iterator[Table]:
    url, seconds = setting.postgresql(durable=False).url, setting.seconds(0.5, 0.2)

    def contestant(crew: Crew, adapter: type[Turns], size: int) -> Callable[[], float]:
        return lambda: crew.compete(adapter, url, f"calm-{size}", size, calm(seconds)).latency_us()

    def busy(crew: Crew, adapter: type[Turns], size: int) -> Callable[[], float]:
        pace = Pace(seconds)
        return lambda: crew.compete(adapter, url, f"busy-{size}", size, pace).per_second()

    adapters = (Holdfast, BareAdvisory)
    with Crew(max(SIZES)) as crew:
        for size in SIZES:
            throughput = interleave(
                {adapter.label: busy(crew, adapter, size) for adapter in adapters},
                setting.rounds(9, 3),
            )
            yield Table(f"PostgreSQL hand-off, {size} processes", "per s", "higher", throughput)
            latency = interleave(
                {adapter.label: contestant(crew, adapter, size) for adapter in adapters},
                setting.rounds(9, 3),
            )
            title = f"PostgreSQL release → next holder, {size} processes"
            yield Table(title, "µs", "lower", latency)


@scenario("postgres-bloat")
def postgres_bloat(setting: Setting) -> Iterator[Table]:
    """How large the table is after many pairs; not a race, but a million takes minutes."""
    server = setting.postgresql(durable=False)
    pairs = setting.rounds(1_000_000, 10_000)
    turns = Holdfast(server.url, "bloat")
    sizes: list[float] = []
    for _ in range(10):
        for _ in range(pairs // 10):
            turns.acquire()
            turns.release()
        ((size,),) = server.execute("SELECT pg_total_relation_size('holdfast.names')")
        sizes.append(size / 1024)
    turns.close()
    note = f"after each tenth of {pairs:,} pairs: {', '.join(f'{size:.0f}' for size in sizes)} KiB"
    yield Table("PostgreSQL table size", "KiB", "lower", {Holdfast.label: sizes}, {}, [note])
