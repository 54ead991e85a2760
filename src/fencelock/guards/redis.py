"""Guards for Redis: check and write in one script, on the caller's own redis-py client.

Each key has its fence beside it, in the same slot, so this works on a Cluster, too. Keys with the same hash
tag share one, so that whoever writes one of them has fenced them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from fencelock.core.errors import StaleFence
from fencelock.guards.stamp import Stamp, holder_of

_SET = "return redis.call('SET', KEYS[1], unpack(ARGV))"
_HSET = "return redis.call('HSET', KEYS[1], unpack(ARGV))"
_DELETE = "return redis.call('DEL', unpack(KEYS))"
_RAISE = "return 1"

Value = str | bytes | int | float


def fence_key(name: str, key: str) -> str:
    """Where the newest fence of a name is kept, beside a key that it protects."""
    opening = key.find("{")
    closing = key.find("}", opening + 1)
    tag = key[opening + 1 : closing] if opening >= 0 and closing > opening + 1 else key
    if not tag or "}" in tag:
        raise ValueError(
            f"{key!r} has a '}}' but no hash tag, so that no other key could stand beside it: "
            "give it a tag, as in '{order:42}:stock'"
        )
    return f"fencelock:fence:{{{tag}}}:{name}"


class _Redis:
    """What both faces share."""

    def __init__(self, client: Any, *, keys: Sequence[str] = ()) -> None:
        self._client = client
        self._keys = tuple(keys)
        self._scripts: dict[str, Any] = {}

    @property
    def acts_alone(self) -> bool:
        """Whether it can raise the fence by itself, as `lock(…, guard=…)` needs it."""
        return bool(self._keys)

    def _call(self, lua: str, keys: Sequence[str], values: Sequence[Value], lease: Stamp) -> Any:
        """Run a guarded script; with an asyncio client this has to be awaited."""
        script = self._scripts.get(lua)
        if script is None:
            script = self._scripts[lua] = self._client.register_script(_checked(lua))
        if not keys:
            raise ValueError("name at least one key: its fence is kept beside it")
        fences = dict.fromkeys(fence_key(lease.name, key) for key in keys)
        return script(
            keys=[*fences, *keys],
            args=[len(fences), lease.fence, holder_of(lease), *values],
            client=self._client,
        )

    def _barred(self, keys: Sequence[str]) -> Sequence[str]:
        if not keys and not self._keys:
            raise ValueError("name the keys to bar, here or with RedisGuard(keys=…)")
        return keys or self._keys


class RedisGuard(_Redis):
    """Writes to Redis unless a newer holder has; takes a client of redis-py, RedisCluster's as well.

    `keys`: those that `raise_fence` bars if it is not told others.
    """

    def set(self, key: str, value: Value, lease: Stamp, *, px: int | None = None) -> None:
        """Set a key; `px`: for so many milliseconds."""
        self.run(_SET, [key], [value, *_expiry(px)], lease)

    def hset(self, key: str, values: Mapping[str, Value], lease: Stamp) -> int:
        """Set fields of a hash; how many are new."""
        return int(self.run(_HSET, [key], _pairs(values), lease))

    def delete(self, *keys: str, lease: Stamp) -> int:
        """Delete keys of one slot; how many were there."""
        return int(self.run(_DELETE, keys, [], lease))

    def run(self, lua: str, keys: Sequence[str], values: Sequence[Value], lease: Stamp) -> Any:
        """Run a script of your own, with KEYS and ARGV as usual; `StaleFence` if a newer holder was here."""
        try:
            return self._call(lua, keys, values, lease)
        except Exception as error:
            raise_if_stale(error, lease)
            raise

    def raise_fence(self, lease: Stamp, *keys: str) -> None:
        """The read barrier for these keys: after this no older holder can write them any more."""
        for key in self._barred(keys):  # one by one: they may be in different slots
            self.run(_RAISE, [key], [], lease)


class AsyncRedisGuard(_Redis):
    """The same for redis.asyncio."""

    async def set(self, key: str, value: Value, lease: Stamp, *, px: int | None = None) -> None:
        """Set a key; `px`: for so many milliseconds."""
        await self.run(_SET, [key], [value, *_expiry(px)], lease)

    async def hset(self, key: str, values: Mapping[str, Value], lease: Stamp) -> int:
        """Set fields of a hash; how many are new."""
        return int(await self.run(_HSET, [key], _pairs(values), lease))

    async def delete(self, *keys: str, lease: Stamp) -> int:
        """Delete keys of one slot; how many were there."""
        return int(await self.run(_DELETE, keys, [], lease))

    async def run(
        self, lua: str, keys: Sequence[str], values: Sequence[Value], lease: Stamp
    ) -> Any:
        """Run a script of your own, with KEYS and ARGV as usual; `StaleFence` if a newer holder was here."""
        try:
            return await self._call(lua, keys, values, lease)
        except Exception as error:
            raise_if_stale(error, lease)
            raise

    async def raise_fence(self, lease: Stamp, *keys: str) -> None:
        """The read barrier for these keys: after this no older holder can write them any more."""
        for key in self._barred(keys):  # one by one: they may be in different slots
            await self.run(_RAISE, [key], [], lease)


def raise_if_stale(error: Exception, lease: Stamp) -> None:
    """Turn the script's refusal into ours."""
    word, _, newest = str(error).partition(" ")
    if word == "STALEFENCE":
        raise StaleFence(lease.name, given=lease.fence, newest=int(newest.split()[0])) from error


@cache
def _checked(lua: str) -> str:
    check = (files(__package__) / "lua" / "check.lua").read_text("utf-8")
    return check + lua


def _expiry(px: int | None) -> list[Value]:
    return [] if px is None else ["PX", px]


def _pairs(values: Mapping[str, Value]) -> list[Value]:
    return [part for pair in values.items() for part in pair]
