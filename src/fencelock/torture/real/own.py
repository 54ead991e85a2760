"""Private servers of each engine, and what can be done to them: for `fencelock torture --self ENGINE`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from fencelock.servers.clock import ShiftedClock
from fencelock.servers.process import Server, ServerFailed

_STEP = 60.0
"""By how many seconds a clock is set forward or back."""

_EXCLUSION = frozenset({"exclusion"})
_EXCLUSION_AND_FENCES = _EXCLUSION | {"fences_grow"}

_NO_SERVER = "there is no server: the locks are in a file"
_ON_DISK = "the servers keep what they know on disk"
_NO_WALL_CLOCK = "leases do not run by a wall clock here"


class OwnEngine:
    """The servers of one engine."""

    def __init__(
        self,
        url: str,
        servers: list[Server],
        heal: Callable[[], object],
        *,
        clock: ShiftedClock | None = None,
        forget: Callable[[Server], None] | None = None,
        cannot: Mapping[str, str],
        suspends: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self.url = url
        self.cannot = cannot
        """The faults that are not possible with this engine, and why."""
        self.suspends = suspends or {}
        """The promises that the engine does not make while a fault lasts: docs/guarantees.md."""
        self._servers = servers
        self._heal = heal
        self._clock = clock
        self._forget = forget

    def hit(self, kind: str, random: Random) -> str:
        """Let a fault happen. Returns whom it has hit."""
        if kind.startswith("clock"):
            server = self._servers[0]  # in a Redlock, it alone has the clock that moves
            self._set_clock(_STEP if kind == "clock-forward" else -_STEP)
            return self._title(server)
        server = self._servers[0] if "clock" in kind else random.choice(self._servers)
        if kind == "freeze-server":
            server.freeze()
            return self._title(server)
        server.kill()
        if kind.startswith("memory-lost"):
            assert self._forget is not None
            self._forget(server)
        if kind == "memory-lost-clock-back":
            self._set_clock(-_STEP)
            server.start()
        return self._title(server)

    def heal(self, kind: str) -> None:
        """Undo a fault, and wait until all servers serve."""
        if "clock" in kind:
            self._set_clock(0.0)
        self._heal()

    def _title(self, server: Server) -> str:
        if len(self._servers) == 1:
            return "the server"
        return f"server {self._servers.index(server) + 1} of {len(self._servers)}"

    def _set_clock(self, seconds: float) -> None:
        assert self._clock is not None
        self._clock.set(seconds)


def _clock(folder: Path) -> tuple[ShiftedClock | None, dict[str, str], dict[str, str]]:
    """A clock to move, the environment of servers that use it, and what is not possible without it."""
    try:
        clock = ShiftedClock(folder)
    except ServerFailed as error:
        return None, {}, dict.fromkeys(_CLOCKS, str(error))
    return clock, clock.environment, {}


_CLOCKS = ("clock-forward", "clock-back", "memory-lost-clock-back")


def _sqlite(folder: Path, running: ExitStack) -> OwnEngine:
    kinds = ("kill-server", "freeze-server", "memory-lost", *_CLOCKS)
    url = f"sqlite:///{folder}/locks.db"
    return OwnEngine(url, [], lambda: None, cannot=dict.fromkeys(kinds, _NO_SERVER))


def _redis(folder: Path, running: ExitStack) -> OwnEngine:
    from fencelock.servers.redis import RedisServer

    clock, environment, cannot = _clock(folder)
    server = running.enter_context(
        RedisServer(folder / "redis", appendonly="yes", environment=environment)
    )
    return OwnEngine(
        server.url,
        [server],
        lambda: _up(server),
        clock=clock,
        forget=_empty_redis,
        cannot=cannot,
        suspends={
            "memory-lost": _EXCLUSION,
            "clock-forward": _EXCLUSION,
            "clock-back": _EXCLUSION,
            "memory-lost-clock-back": _EXCLUSION_AND_FENCES,
        },
    )


def _redlock(folder: Path, running: ExitStack) -> OwnEngine:
    from fencelock.servers.redlock import RedlockSet

    clock, environment, cannot = _clock(folder)
    nodes = RedlockSet(folder / "redlock", appendonly="yes")
    nodes.servers[0].environment.update(environment)
    running.enter_context(nodes)
    return OwnEngine(
        nodes.url,
        list(nodes.servers),
        nodes.heal,
        clock=clock,
        forget=_empty_redis,
        cannot=cannot,
        # One clock is enough: the holder may have no more than a majority. A node that forgot waits by its
        # own clock until it votes again, and healing sets that forward.
        suspends={
            "clock-forward": _EXCLUSION,
            "clock-back": _EXCLUSION,
            "memory-lost-clock-back": _EXCLUSION_AND_FENCES,
        },
    )


def _etcd(folder: Path, running: ExitStack) -> OwnEngine:
    from fencelock.servers.etcd import EtcdCluster

    cluster = running.enter_context(EtcdCluster(folder / "etcd"))
    cannot = dict.fromkeys(_CLOCKS, _NO_WALL_CLOCK) | {"memory-lost": _ON_DISK}
    return OwnEngine(cluster.url, list(cluster.servers), cluster.heal, cannot=cannot)


def _zookeeper(folder: Path, running: ExitStack) -> OwnEngine:
    from fencelock.servers.zookeeper import Ensemble

    ensemble = running.enter_context(Ensemble(folder / "zookeeper"))
    cannot = dict.fromkeys(_CLOCKS, _NO_WALL_CLOCK) | {"memory-lost": _ON_DISK}
    return OwnEngine(ensemble.url, list(ensemble.servers), ensemble.heal, cannot=cannot)


def _postgresql(folder: Path, running: ExitStack) -> OwnEngine:
    from fencelock.servers.postgresql import PostgresqlServer

    clock, environment, cannot = _clock(folder)
    server = running.enter_context(PostgresqlServer(folder / "postgresql", environment=environment))
    return _database(server, server.url, clock, cannot)


def _mysql(folder: Path, running: ExitStack) -> OwnEngine:
    from fencelock.servers.mysql import MysqlServer

    clock, environment, cannot = _clock(folder)
    server = running.enter_context(MysqlServer(folder / "mysql", environment=environment))
    return _database(server, server.url, clock, cannot)


def _database(
    server: Server, url: str, clock: ShiftedClock | None, cannot: dict[str, str]
) -> OwnEngine:
    return OwnEngine(
        url,
        [server],
        lambda: _up(server),
        clock=clock,
        cannot=dict.fromkeys(("memory-lost", "memory-lost-clock-back"), _ON_DISK) | cannot,
        suspends={"clock-forward": _EXCLUSION, "clock-back": _EXCLUSION},
    )


def _up(server: Server) -> None:
    if server.runs:
        server.thaw()
    else:
        server.start()


def _empty_redis(server: Server) -> None:
    for path in (*server.folder.glob("*.rdb"), *server.folder.glob("appendonlydir/*")):
        path.unlink()


_KINDS: dict[str, Callable[[Path, ExitStack], OwnEngine]] = {
    "sqlite": _sqlite,
    "redis": _redis,
    "redlock": _redlock,
    "etcd": _etcd,
    "zookeeper": _zookeeper,
    "postgresql": _postgresql,
    "mysql": _mysql,
}

ENGINES = tuple(_KINDS)
"""The engines that torture can start by itself."""


@contextmanager
def own_engine(name: str, folder: Path) -> Iterator[OwnEngine]:
    """Start private servers of an engine. They run as long as the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        yield _KINDS[name](folder, running)
