"""Guards for object stores that write on a condition, as S3 does with `If-Match` and `If-None-Match`.

Under its own key an object has a pointer: the newest fence, and where the data is. Two objects, because the
condition is on an ETag, which for S3 is a digest of the content: the same data written by two holders would
look unchanged, but no two pointers are alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from fencelock.core.errors import StaleFence
from fencelock.guards.stamp import Stamp, holder_of


class Found(NamedTuple):
    """An object, and what tells its versions apart."""

    data: bytes
    etag: str


class ObjectStore(Protocol):
    """What a guard needs of an object store: see `S3Store`."""

    def get(self, key: str) -> Found | None:
        """An object; None if there is none."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""

    def replace(self, key: str, data: bytes, etag: str | None) -> bool:
        """Write an object if its present version is this one, None: if there is none. Whether it was so."""

    def delete(self, key: str) -> None:
        """Delete an object, if it is there."""


class S3Store:
    """A bucket of S3 or its like, with a client of boto3."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def get(self, key: str) -> Found | None:
        """An object; None if there is none."""
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
        except self._client.exceptions.NoSuchKey:
            return None
        return Found(answer["Body"].read(), answer["ETag"])

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self._client.put_object(Bucket=self._bucket, Key=key, Body=data)

    def replace(self, key: str, data: bytes, etag: str | None) -> bool:
        """Write an object if its present version is this one, None: if there is none. Whether it was so."""
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        try:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=data, **condition)
        except self._client.exceptions.ClientError as error:
            # 404: it was deleted meanwhile; 409: another conditional write is under way.
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 409, 412):
                return False
            raise
        return True

    def delete(self, key: str) -> None:
        """Delete an object, if it is there."""
        self._client.delete_object(Bucket=self._bucket, Key=key)


class _Pointer(NamedTuple):
    name: str
    fence: int
    holder: str
    data: str | None
    """The key under which the data is; None: nothing was written yet."""


class ObjectGuard:
    """Writes objects unless a newer holder has. Read them here, too: `key` itself holds a pointer only.

    `keys`: those that `raise_fence` bars if it is not told others. An object belongs to one lock's name.
    """

    def __init__(self, store: ObjectStore, *, keys: Sequence[str] = ()) -> None:
        self._store = store
        self._keys = tuple(keys)

    @property
    def acts_alone(self) -> bool:
        """Whether it can raise the fence by itself, as `lock(…, guard=…)` needs it."""
        return bool(self._keys)

    def read(self, key: str) -> bytes:
        """The data; `LookupError` if nobody has written yet."""
        while True:
            pointer, _ = self._look(key)
            if pointer is None or pointer.data is None:
                raise LookupError(f"nothing was written to {key!r} yet")
            found = self._store.get(pointer.data)
            if found is not None:
                return found.data
            # It was replaced between the two looks; but if nothing has changed, it is not there.
            if self._look(key)[0] == pointer:
                raise LookupError(f"{pointer.data!r} is missing, to which {key!r} points")

    def write(self, key: str, data: bytes, lease: Stamp) -> None:
        """Replace the data; `StaleFence` if a newer holder was here, and then nothing has changed."""
        fresh = f"{key}@{lease.fence}-{os.urandom(8).hex()}"
        self._store.put(fresh, data)
        try:
            before = self._point(key, lease, fresh)
        except (StaleFence, ValueError):  # but not if it is in doubt whether somebody points to it
            self._store.delete(fresh)
            raise
        if before is not None and before.data not in (None, fresh):
            self._store.delete(before.data)

    def raise_fence(self, lease: Stamp, *keys: str) -> None:
        """The read barrier for these keys: after this no older holder can write them any more."""
        if not keys and not self._keys:
            raise ValueError("name the keys to bar, here or with ObjectGuard(keys=…)")
        for key in keys or self._keys:
            self._point(key, lease, None)

    def newest(self, key: str) -> int:
        """The newest fence that was seen, 0 if there is none."""
        pointer, _ = self._look(key)
        return pointer.fence if pointer else 0

    def _look(self, key: str) -> tuple[_Pointer | None, str | None]:
        found = self._store.get(key)
        if found is None:
            return None, None
        try:
            return _Pointer(**json.loads(found.data)), found.etag
        except (ValueError, TypeError):
            raise ValueError(f"{key!r} holds something else than a guarded object") from None

    def _point(self, key: str, lease: Stamp, data: str | None) -> _Pointer | None:
        """Point to new data, or if there is none to the old; what was there before."""
        its = (lease.fence, holder_of(lease))
        while True:
            before, etag = self._look(key)
            if before is not None:
                if before.name != lease.name:
                    raise ValueError(f"{key!r} is guarded by the lock {before.name!r}")
                same = (before.fence, before.holder) == its
                if its[0] <= before.fence and not same:
                    raise StaleFence(lease.name, given=lease.fence, newest=before.fence)
                if same and data in (None, before.data):  # perhaps by a request without an answer
                    return before
            kept = data or (before.data if before else None)
            packed = json.dumps(_Pointer(lease.name, *its, kept)._asdict()).encode()
            if self._store.replace(key, packed, etag):
                return before
