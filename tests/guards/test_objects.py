"""ObjectGuard on an S3-compatible server: pointers that are replaced on a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

from fencelock import Client, StaleFence
from fencelock.guards.objects import Found, ObjectGuard, S3Store
from tests.guards.lease_likes import FIRST, LeaseLike


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id="nobody",
        aws_secret_access_key="nothing",
        region_name="us-east-1",
    )
    yield client
    client.close()
    server.stop()


@pytest.fixture
def bucket(s3: Any) -> str:
    name = uuid4().hex
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def store(s3: Any, bucket: str) -> S3Store:
    return S3Store(s3, bucket)


@pytest.fixture
def guard(store: S3Store) -> ObjectGuard:
    return ObjectGuard(store)


def keys(s3: Any, bucket: str) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_newer_holders_and_the_same_one_again(guard: ObjectGuard, s3: Any, bucket: str) -> None:
    with pytest.raises(LookupError, match="nothing was written"):
        guard.read("report")
    for stamp, data in ((FIRST, b"1"), (FIRST, b""), (FIRST.newer(), b"3")):
        guard.write("report", data, stamp)
        assert guard.read("report") == data
        assert guard.newest("report") == stamp.fence
    assert len(keys(s3, bucket)) == 2, "the pointer and the newest data, nothing else"


@pytest.mark.parametrize("stale", [FIRST, FIRST.newer().rival()], ids=["older", "same fence"])
def test_a_stale_holder_changes_nothing(
    guard: ObjectGuard, s3: Any, bucket: str, stale: LeaseLike
) -> None:
    guard.write("report", b"good", FIRST.newer())
    before = keys(s3, bucket)
    acts: list[Callable[[], None]] = [
        lambda: guard.write("report", b"stale", stale),
        lambda: guard.raise_fence(stale, "report"),
    ]
    for act in acts:
        with pytest.raises(StaleFence) as caught:
            act()
        assert (caught.value.given, caught.value.newest) == (stale.fence, FIRST.fence + 1)
    assert guard.read("report") == b"good"
    assert keys(s3, bucket) == before


def test_the_read_barrier(guard: ObjectGuard, store: S3Store) -> None:
    guard.raise_fence(FIRST, "report")  # before there is anything
    with pytest.raises(LookupError):
        guard.read("report")
    guard.write("report", b"good", FIRST)
    ObjectGuard(store, keys=["report"]).raise_fence(FIRST.newer())
    assert guard.read("report") == b"good"
    with pytest.raises(StaleFence):
        guard.write("report", b"stale", FIRST)
    with pytest.raises(ValueError, match="name the keys"):
        guard.raise_fence(FIRST)


class Interrupted(S3Store):
    """Something happens right before the next conditional write."""

    happens: Callable[[], None] | None = None

    def replace(self, key: str, data: bytes, etag: str | None) -> bool:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return super().replace(key, data, etag)


@pytest.mark.parametrize("first", [True, False], ids=["a new object", "an old one"])
def test_a_newer_holder_between_looking_and_writing(
    guard: ObjectGuard, s3: Any, bucket: str, first: bool
) -> None:
    if not first:
        guard.write("report", b"same", FIRST)
    slow = Interrupted(s3, bucket)
    # The same data: its ETag, which S3 compares, is the same as well.
    slow.happens = lambda: guard.write("report", b"same", FIRST.newer())
    with pytest.raises(StaleFence):
        ObjectGuard(slow).write("report", b"stale", FIRST)
    assert guard.read("report") == b"same"


def test_an_older_holder_between_looking_and_writing(
    guard: ObjectGuard, s3: Any, bucket: str
) -> None:
    slow = Interrupted(s3, bucket)
    slow.happens = lambda: guard.write("report", b"old", FIRST)
    ObjectGuard(slow).write("report", b"new", FIRST.newer())
    assert guard.read("report") == b"new"
    assert len(keys(s3, bucket)) == 2


def test_an_answer_that_was_lost(guard: ObjectGuard, s3: Any, bucket: str) -> None:
    """boto3 sends it again, and then the condition does not hold any more."""

    class Forgetful(S3Store):
        def replace(self, key: str, data: bytes, etag: str | None) -> bool:
            super().replace(key, data, etag)
            return False

    ObjectGuard(Forgetful(s3, bucket)).write("report", b"good", FIRST)
    assert guard.read("report") == b"good"


def test_a_reader_between_two_writes(guard: ObjectGuard, s3: Any, bucket: str) -> None:
    class Slow(S3Store):
        replaced = False

        def get(self, key: str) -> Found | None:
            if key != "report" and not self.replaced:
                self.replaced = True
                guard.write("report", b"new", FIRST)
            return super().get(key)

    guard.write("report", b"old", FIRST)
    assert ObjectGuard(Slow(s3, bucket)).read("report") == b"new"


def test_data_that_is_missing(guard: ObjectGuard, s3: Any, bucket: str) -> None:
    guard.write("report", b"gone", FIRST)
    (data,) = (key for key in keys(s3, bucket) if key != "report")
    s3.delete_object(Bucket=bucket, Key=data)
    with pytest.raises(LookupError, match="is missing"):
        guard.read("report")


def test_an_object_of_somebody_else(guard: ObjectGuard, store: S3Store) -> None:
    store.put("report", b"no pointer")
    with pytest.raises(ValueError, match="something else"):
        guard.write("report", b"mine", FIRST)
    guard.write("other", b"mine", FIRST)
    with pytest.raises(ValueError, match="guarded by the lock 'order:42'"):
        guard.write("other", b"mine", FIRST._replace(name="another"))


def test_with_a_lock(store: S3Store) -> None:
    guard = ObjectGuard(store, keys=["report"])
    with Client("memory://objects") as client, client.lock("report", guard=guard) as lease:
        assert guard.newest("report") == lease.fence
        guard.write("report", b"good", lease)
    assert guard.read("report") == b"good"
