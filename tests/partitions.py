"""Real partitions: servers and clients in network namespaces, and a network that is split between them.

    sudo python -m tests.partitions etcd        # or zookeeper, redlock, redis, sentinel, careful-sentinel

It prints what each side can still do, what becomes of the holders, and what comes back afterwards; the
results are in docs/which-engine.md. It needs Linux, root and the servers, so it is no part of ./test.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import fencelock
from fencelock.servers.zookeeper import CLASSPATH, JAVA, MAIN
from tests.servers import DIE_WITH_PARENT
from tests.waiting import eventually

TTL = 6.0
WATCHED = 25.0
TAKEN = "the lock held here, asked for there"
INSIDE = "FENCELOCK_PARTITIONS"
"""Set in the process that has a network of its own."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Network:
    """Machines a, b, c …, each with an address of its own, on one switch or on two."""

    def __init__(self, folder: Path, machines: str) -> None:
        self.folder = folder
        self._machines = machines
        self._running = ExitStack()

    def __enter__(self) -> Self:
        for switch in ("one", "two"):
            ip("link", "add", switch, "type", "bridge")
            ip("link", "set", switch, "up")
        for machine in self._machines:
            ip("netns", "add", machine)
            ip(
                "link",
                "add",
                f"to-{machine}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                machine,
            )
            ip("link", "set", f"to-{machine}", "master", "one", "up")
            for words in (("addr", "add", f"{self.address(machine)}/24", "dev", "eth0"),
                          ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):  # fmt: skip
                ip("-n", machine, *words)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def address(self, machine: str) -> str:
        return f"10.9.0.{1 + self._machines.index(machine)}"

    def addresses(self, port: int) -> str:
        return ",".join(f"{self.address(machine)}:{port}" for machine in self._machines)

    def start(self, machine: str, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Start a program on a machine; it ends with the network."""
        process = subprocess.Popen(
            [*DIE_WITH_PARENT, "ip", "netns", "exec", machine, *command], text=True, **options
        )
        self._running.callback(process.wait)
        self._running.callback(process.kill)
        return process

    def split(self, machines: str) -> None:
        """Move these machines to the other switch."""
        for machine in machines:
            ip("link", "set", f"to-{machine}", "master", "two")

    def heal(self) -> None:
        for machine in self._machines:
            ip("link", "set", f"to-{machine}", "master", "one")


class Client:
    """A program with a client on one of the machines. It does one thing at a time."""

    def __init__(self, network: Network, machine: str, url: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 1}
        self._process = network.start(
            machine,
            sys.executable,
            "-m",
            "tests.partitions",
            "client",
            url,
            **pipes,
            stderr=subprocess.DEVNULL,
        )

    def send(self, *words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")

    def answered(self) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def receive(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, *words: Any) -> Any:
        self.send(*words)
        return self.receive()


def be_a_client(url: str) -> None:
    """What runs on a machine: one line of JSON for each command."""
    leases: dict[str, fencelock.Lease] = {}
    with fencelock.Client(url) as client:
        for line in sys.stdin:
            what, name, *rest = json.loads(line)
            try:
                if what == "acquire":
                    leases[name] = client.lock(name, ttl=TTL).acquire(timeout=rest[0])
                    answer: Any = leases[name].fence
                elif what == "state":
                    answer = leases[name].state.value
                else:
                    leases[name].release()
                    answer = "fine"
            except fencelock.FencelockError as error:
                answer = type(error).__name__
            print(json.dumps(answer), flush=True)


class Engine(ABC):
    """Servers on some machines."""

    machines = "abc"
    excludes = True
    """Whether a lock must never have two holders, one on each side."""

    def __init__(self, network: Network) -> None:
        self.network = network

    @abstractmethod
    def start(self) -> str:
        """Start the servers, and return the URL."""

    def minority(self) -> str:
        """The machines to be cut off. With the leader, if there is one: that is the worst case."""
        return "a"

    def _ctl(self, machine: str, *command: str) -> str:
        done = subprocess.run(
            ["ip", "netns", "exec", machine, *command], capture_output=True, text=True, timeout=10
        )
        return done.stdout

    def _until(self, machine: str, words: str, *command: str) -> None:
        """Repeat a command until it says these words."""
        eventually(lambda: words in self._ctl(machine, *command), words)


class Etcd(Engine):
    def start(self) -> str:
        peers = {each: f"http://{self.network.address(each)}:2380" for each in self.machines}
        cluster = ",".join(f"{machine}={peer}" for machine, peer in peers.items())
        for machine, peer in peers.items():
            here = f"http://{self.network.address(machine)}:2379"
            self.network.start(
                machine, "etcd", f"--name={machine}", f"--data-dir={self.network.folder / machine}",
                f"--listen-client-urls={here}", f"--advertise-client-urls={here}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={cluster}", "--logger=zap", "--log-level=fatal",
            )  # fmt: skip
        eventually(self.minority, "a leader")
        return f"etcd://{self.network.addresses(2379)}"

    def minority(self) -> str:
        for machine in self.machines:
            metrics = f"http://{self.network.address(machine)}:2379/metrics"
            if "etcd_server_is_leader 1\n" in self._ctl(machine, "curl", "-s", metrics):
                return machine
        return ""


class ZooKeeper(Engine):
    def start(self) -> str:
        for number, machine in enumerate(self.machines, 1):
            folder = self.network.folder / machine
            folder.mkdir()
            (folder / "myid").write_text(str(number))
            lines = ["tickTime=1000", "initLimit=10", "syncLimit=5", f"dataDir={folder}"]
            lines += ["clientPort=2181", "4lw.commands.whitelist=*"]
            lines += [
                f"server.{each}={self.network.address(other)}:2888:3888"
                for each, other in enumerate(self.machines, 1)
            ]
            (folder / "zoo.cfg").write_text("\n".join(lines))
            self.network.start(machine, *JAVA, "-cp", CLASSPATH, MAIN, str(folder / "zoo.cfg"))
        eventually(self.minority, "a leader", 60)
        return f"zookeeper://{self.network.addresses(2181)}"

    def minority(self) -> str:
        ask = "exec 3<>/dev/tcp/{}/2181; printf srvr >&3; timeout 2 cat <&3"
        for machine in self.machines:
            answer = self._ctl(machine, "bash", "-c", ask.format(self.network.address(machine)))
            if "Mode: leader" in answer:
                return machine
        return ""


class Redis(Engine):
    """One server on the machine a. Only that side has an engine."""

    def start(self) -> str:
        self._server("a")
        return f"redis://{self.network.address('a')}:6379"

    def _server(self, machine: str, *more: str, port: str = "6379") -> None:
        self.network.start(
            machine, "redis-server", *more, "--port", port, "--protected-mode", "no", "--save", "",
            "--daemonize", "no", "--loglevel", "warning", "--dir", str(self.network.folder),
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self._until(machine, "PONG", "redis-cli", "-p", port, "ping")


class Redlock(Redis):
    machines = "abcde"

    def start(self) -> str:
        for machine in self.machines:
            self._server(machine)
        return f"redlock://{self.network.addresses(6379)}"

    def minority(self) -> str:
        return "ab"


class Sentinel(Redis):
    """A master on a, a replica on b, and a Sentinel on each machine."""

    excludes = False
    settings: tuple[str, ...] = ()

    def start(self) -> str:
        master = self.network.address("a")
        self._server("a", *self.settings)
        self._server("b", "--replicaof", f"{master} 6379")
        for machine in self.machines:
            file = self.network.folder / f"sentinel-{machine}.conf"
            file.write_text(
                f"sentinel monitor mymaster {master} 6379 2\n"
                "sentinel down-after-milliseconds mymaster 2000\n"
                "sentinel failover-timeout mymaster 10000\n"
            )
            self._server(machine, str(file), "--sentinel", port="26379")
        sees = ("redis-cli", "-p", "26379", "sentinel", "ckquorum", "mymaster")
        for machine in self.machines:
            self._until(machine, "OK 3 usable", *sees)
        self._until("a", "state=online", "redis-cli", "info")
        return f"redis+sentinel://{self.network.addresses(26379)}/mymaster"


class CarefulSentinel(Sentinel):
    """A master without a replica accepts no writes, as the doctor advises."""

    settings = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2")


ENGINES: dict[str, type[Engine]] = {
    "etcd": Etcd, "zookeeper": ZooKeeper, "redis": Redis, "redlock": Redlock, "sentinel": Sentinel,
    "careful-sentinel": CarefulSentinel,
}  # fmt: skip


Say = Callable[[str], None]
Wish = tuple[Client, tuple[Any, ...]]
"""A client that asks for a lock, and how."""


def split(engine: Engine, network: Network) -> None:
    """Hold a lock on each side, split the network, look, heal it, and look again."""
    url, minority = engine.start(), engine.minority()
    majority = "".join(machine for machine in engine.machines if machine not in minority)
    here, there = minority[0], majority[-1]
    holders = {"held here": Client(network, here, url), "held there": Client(network, there, url)}
    fences = {name: client.ask("acquire", name, 20) for name, client in holders.items()}
    asker, other_asker, waiter = (Client(network, where, url) for where in (here, there, there))
    for number, client in enumerate((asker, other_asker, waiter)):
        client.ask("acquire", f"warm {number}", 20)  # all have connected
    start = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - start:6.1f} s  {what}", flush=True)

    network.split(minority)
    say(f"split: {minority} | {majority}")
    wishes: dict[str, Wish] = {
        "a free lock, asked for here": (asker, ("acquire", "new here", 4)),
        "a free lock, asked for there": (other_asker, ("acquire", "new there", 15)),
        TAKEN: (waiter, ("acquire", "held here", 60)),
    }
    granted = _watch(holders, wishes, say, start + WATCHED)
    network.heal()
    say("healed")
    for what, (client, _) in wishes.items():
        if what not in granted:
            answer = client.receive()
            say(f"{what}: {'granted' if isinstance(answer, int) else answer}")
    _back(asker, "here", say)
    _back(other_asker, "there", say)
    if TAKEN in granted:
        fence, state = granted[TAKEN]
        eventually(lambda: holders["held here"].ask("state", "held here") == "lost", "the loss")
        assert fence > fences["held here"]
        say("the fence there is higher")
        assert state == "lost" or not engine.excludes, "two holders"
    for name, client in holders.items():
        say(f"the lease {name}, released now: {client.ask('release', name)}")


def _watch(
    holders: dict[str, Client], wishes: dict[str, Wish], say: Say, until: float
) -> dict[str, tuple[int, str]]:
    """Tell what changes. Returns what was granted: its fence, and the state of the lease held here then."""
    granted: dict[str, tuple[int, str]] = {}
    states, said = dict.fromkeys(holders, "held"), set()
    for client, words in wishes.values():
        client.send(*words)
    while time.monotonic() < until:
        for name, client in holders.items():
            if (state := client.ask("state", name)) != states[name]:
                say(f"the lease {name} is {state}")
                states[name] = state
        for what, (client, words) in wishes.items():
            if what in granted or not client.answered():
                continue
            answer, state = client.receive(), holders["held here"].ask("state", "held here")
            if isinstance(answer, int):
                granted[what] = answer, state
                say(f"{what}: granted, while the lease held here is {state}")
            else:
                client.send(*words)  # until it is there
                if (what, answer) not in said:
                    say(f"{what}: {answer}")
                    said.add((what, answer))
        time.sleep(0.05)
    return granted


def _back(client: Client, where: str, say: Say) -> None:
    """Ask until there is an engine again."""
    eventually(
        lambda: isinstance(client.ask("acquire", f"after {where}", 5), int), "the engine", 60
    )
    say(f"a free lock, asked for {where}: granted")


def main(words: Sequence[str]) -> None:
    if words[0] == "client":
        be_a_client(words[1])
        return
    if INSIDE not in os.environ:  # a network and mounts of its own, which end with it
        command = ["unshare", "-n", "-m", sys.executable, "-m", "tests.partitions", *words]
        os.execvpe("unshare", command, {**os.environ, INSIDE: "1"})
    os.makedirs("/run/netns", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run/netns"], check=True)
    kind = ENGINES[words[0]]
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory() as name,
        Network(Path(name), kind.machines) as network,
    ):
        split(kind(network), network)


if __name__ == "__main__":
    main(sys.argv[1:])
