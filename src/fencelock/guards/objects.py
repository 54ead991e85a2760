"""Guards for object stores with conditional writes, such as S3 with `If-Match` and `If-None-Match`.

The object's own key holds a pointer: the newest fence, and the key of the data. The data is a second object,
because the condition compares ETags, and an ETag of S3 is a digest of the content. The same data from two
holders would look unchanged; their pointers never do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from fencelock.core.errors import StaleFence
from fencelock.guards.lease_like import LeaseLike, holder_of, refused


class Found(NamedTuple):
    """The data of an object, and the ETag of this version."""

    data: bytes
    etag: str


class ObjectStore(Protocol):
    """What a guard needs of an object store. `S3Store` is an example."""

    def get(self, key: str) -> Found | None:
        """An object; None if there is none."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""

    def replace(self, key: str, data: bytes, etag: str | None) -> bool:
        """Write an object only if its ETag is still this one; None means: only if it does not exist.

        Returns whether it was written.
        """

    def delete(self, key: str) -> None:
        """Delete an object, if it is there."""


class S3Store(ObjectStore):
    """A bucket of S3, or of a compatible store, with a boto3 client."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def get(self, key: str) -> Found | None:
        try:
            response = self._client.get_object(Bucket=self._bucket, Key=key)
        except self._client.exceptions.NoSuchKey:
            return None
        return Found(response["Body"].read(), response["ETag"])

    def put(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=self._bucket, Key=key, Body=data)

    def replace(self, key: str, data: bytes, etag: str | None) -> bool:
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
        self._client.delete_object(Bucket=self._bucket, Key=key)


class _Pointer(NamedTuple):
    name: str
    fence: int
    holder: str
    data: str | None
    """The key of the data; None if nothing was written yet."""


class ObjectGuard:
    """Writes objects unless a newer holder has. Read them with it, too: `key` itself holds only a pointer.

    `keys` are the keys that `raise_fence` protects if the call names none. Each object belongs to the name of
    one lock.
    """

    def __init__(self, store: ObjectStore, *, keys: Sequence[str] = ()) -> None:
        self._store = store
        self._keys = tuple(keys)

    @property
    def acts_alone(self) -> bool:
        """Whether `lock(…, guard=…)` can use it: it knows the keys to protect."""
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
            # A writer replaced it between our two reads. If the pointer is the same, the data is missing.
            if self._look(key)[0] == pointer:
                raise LookupError(f"{key!r} points to {pointer.data!r}, which is missing")

    def write(self, key: str, data: bytes, lease: LeaseLike) -> None:
        """Replace the data; `StaleFence` if a newer holder was here, and then nothing has changed."""
        fresh = f"{key}@{lease.fence}-{os.urandom(8).hex()}"
        self._store.put(fresh, data)
        try:
            before = self._point(key, lease, fresh)
        except (StaleFence, ValueError):  # other errors: a pointer to it may have been written
            self._store.delete(fresh)
            raise
        if before is not None and before.data not in (None, fresh):
            self._store.delete(before.data)

    def raise_fence(self, lease: LeaseLike, *keys: str) -> None:
        """The read barrier for these keys: after this no older holder can write them any more."""
        if not keys and not self._keys:
            raise ValueError("name the keys to protect, here or with ObjectGuard(keys=…)")
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
            raise ValueError(f"{key!r} holds something else, not a guarded object") from None

    def _point(self, key: str, lease: LeaseLike, data: str | None) -> _Pointer | None:
        """Write the pointer: to `data`, or with None to the same data as before. Returns the old pointer."""
        given = (lease.fence, holder_of(lease))
        while True:
            before, etag = self._look(key)
            if before is not None:
                if before.name != lease.name:
                    raise ValueError(f"{key!r} is guarded by the lock {before.name!r}")
                same = (before.fence, before.holder) == given
                if given[0] <= before.fence and not same:
                    raise refused("object", lease, before.fence)
                # A request without an answer may have written our pointer already.
                if same and data in (None, before.data):
                    return before
            kept = data or (before.data if before else None)
            packed = json.dumps(_Pointer(lease.name, *given, kept)._asdict()).encode()
            if self._store.replace(key, packed, etag):
                return before
