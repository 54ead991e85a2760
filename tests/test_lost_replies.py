"""Every primitive, with the reply to one of its requests lost: nothing is left behind or done twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from uuid import uuid4

import pytest

import fencelock
from tests.proxy import TcpProxy, resp_replies
from tests.servers import HOST
from tests.servers_service import Replica, line_replies
from tests.waiting import eventually

Deed = Callable[[fencelock.Client, str], None]


def share(client: fencelock.Client, name: str) -> None:
    with client.rwlock(f"{name}:rw").write() as lease:
        lease.downgrade()
        lease.check()
    with client.semaphore(f"{name}:s", 3, weight=2):
        pass


def take_several(client: fencelock.Client, name: str) -> None:
    with client.lock_all([f"{name}:c", f"{name}:a", f"{name}:b"]) as leases:
        leases.check()


def transact(client: fencelock.Client, name: str) -> None:
    def work(transaction: fencelock.Transaction) -> None:
        transaction.lock(f"{name}:a")
        with suppress(fencelock.LockTimeout):
            transaction.lock(f"{name}:obstacle")

    client.transaction("wound-wait", timeout=0.05).run(work)


def be_elected(client: fencelock.Client, name: str) -> None:
    election = client.election(f"{name}:e", "me")
    with election:
        election.proclaim("still me")


def run_once(client: fencelock.Client, name: str) -> None:
    assert client.once(f"{name}:o", lambda: 7, keep=600) == 7
    assert client.once(f"{name}:o", lambda: 8, keep=600) == 7, "it was done, and that is known"


@pytest.mark.parametrize("service", [False, True], ids=["redis", "http"])
@pytest.mark.parametrize("deed", [share, take_several, transact, be_elected, run_once])
def test_the_reply_to_any_request_is_lost(
    deed: Deed, service: bool, redis_url: str, replica_of: Callable[[str], Replica]
) -> None:
    url = replica_of("redis").url if service else redis_url
    scheme, _, port = url.replace("//", "").split(":")
    replies = line_replies if service else resp_replies
    with TcpProxy(int(port), replies) as proxy, fencelock.Client(redis_url) as witness:
        for number in count(1):
            name = uuid4().hex
            obstacle = witness.lock(f"{name}:obstacle").acquire()
            with fencelock.Client(f"{scheme}://{HOST}:{proxy.port}") as client:
                client.names("nothing")  # connected
                cut = proxy.cut_after_request(number)
                # "Unknown" is an honest answer here; anything else would be wrong.
                with suppress(fencelock.EngineError, fencelock.LeaseLost):
                    deed(client, name)
                if not cut.is_set():
                    break
                eventually(
                    lambda: witness.names(f"*{name}*") == [f"{name}:obstacle"],  # noqa: B023
                    f"nothing to be left after a cut at request {number}",
                )
                eventually(lambda: client._context.idle, "nothing to be kept")
            obstacle.release()
        assert number > 3, "there was something to cut"
