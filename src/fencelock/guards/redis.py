"""Guards for Redis: check and write in one script, with the caller's own redis-py client.

The fence of a key is stored in the same slot as the key, so this works on a Cluster, too. Keys with the same
hash tag share one fence: a write to one of them fences them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

from fencelock.guards.lease_like import LeaseLike, holder_of, refused
from fencelock.io.blocking import blocking

_SET = "return redis.call('SET', KEYS[1], unpack(ARGV))"
_HSET = "return redis.call('HSET', KEYS[1], unpack(ARGV))"
_DELETE = "return redis.call('DEL', unpack(KEYS))"
_RAISE = "return 1"

Value = str | bytes | int | float


def fence_key(name: str, key: str) -> str:
    """The key of the newest fence of a name, in the same slot as `key`, which the fence protects."""
    opening = key.find("{")
    closing = key.find("}", opening + 1)
    tag = key[opening + 1 : closing] if opening >= 0 and closing > opening + 1 else key
    if not tag or "}" in tag:
        raise ValueError(
            f"{key!r} has a '}}' but no hash tag, so no other key can be put into its slot: "
            "give it a tag, as in '{order:42}:stock'"
        )
    return f"fencelock:fence:{{{tag}}}:{name}"


class BaseRedisGuard:
    """What `RedisGuard` and `AsyncRedisGuard` share."""

    _blocking: ClassVar[bool] = True

    def __init__(self, client: Any, *, keys: Sequence[str] = ()) -> None:
        self._client = client
        self._keys = tuple(keys)
        self._scripts: dict[str, Any] = {}

    @property
    def acts_alone(self) -> bool:
        """Whether `lock(…, guard=…)` can use it: it knows the keys to protect."""
        return bool(self._keys)


class AsyncRedisGuard(BaseRedisGuard):
    """`RedisGuard` for redis.asyncio."""

    _blocking = False

    async def set(
        self: BaseRedisGuard, key: str, value: Value, lease: LeaseLike, *, px: int | None = None
    ) -> None:
        """Set a key. With `px`, it expires after that many milliseconds."""
        expiry: list[Value] = [] if px is None else ["PX", px]
        await AsyncRedisGuard.run(self, _SET, [key], [value, *expiry], lease)

    async def hset(
        self: BaseRedisGuard, key: str, values: Mapping[str, Value], lease: LeaseLike
    ) -> int:
        """Set fields of a hash. Returns how many of them are new."""
        pairs = [part for pair in values.items() for part in pair]
        return int(await AsyncRedisGuard.run(self, _HSET, [key], pairs, lease))

    async def delete(self: BaseRedisGuard, *keys: str, lease: LeaseLike) -> int:
        """Delete keys of one slot. Returns how many were there."""
        return int(await AsyncRedisGuard.run(self, _DELETE, keys, [], lease))

    async def run(
        self: BaseRedisGuard,
        lua: str,
        keys: Sequence[str],
        values: Sequence[Value],
        lease: LeaseLike,
    ) -> Any:
        """Run a script of your own, with KEYS and ARGV as usual; `StaleFence` if a newer holder was here."""
        script = self._scripts.get(lua)
        if script is None:
            script = self._scripts[lua] = self._client.register_script(_checked(lua))
        if not keys:
            raise ValueError("name at least one key: its fence is stored beside it")
        fences = dict.fromkeys(fence_key(lease.name, key) for key in keys)
        args = [len(fences), lease.fence, holder_of(lease), *values]
        try:
            answer = script(keys=[*fences, *keys], args=args, client=self._client)
            return answer if self._blocking else await answer
        except Exception as error:
            _raise_if_stale(error, lease)
            raise

    async def raise_fence(self: BaseRedisGuard, lease: LeaseLike, *keys: str) -> None:
        """The read barrier for these keys: after this no older holder can write them any more."""
        if not keys and not self._keys:
            raise ValueError(
                f"name the keys to protect, here or with {type(self).__name__}(keys=…)"
            )
        for key in keys or self._keys:  # one by one: they may be in different slots
            await AsyncRedisGuard.run(self, _RAISE, [key], [], lease)


class RedisGuard(BaseRedisGuard):
    """Writes to Redis unless a newer holder has. It takes a redis-py client, also a `RedisCluster`.

    `keys` are the keys that `raise_fence` protects if the call names none.
    """

    set = blocking(AsyncRedisGuard.set)
    hset = blocking(AsyncRedisGuard.hset)
    delete = blocking(AsyncRedisGuard.delete)
    run = blocking(AsyncRedisGuard.run)
    raise_fence = blocking(AsyncRedisGuard.raise_fence)


def _raise_if_stale(error: Exception, lease: LeaseLike) -> None:
    """Turn the refusal of check.lua into `StaleFence`."""
    word, _, newest = str(error).partition(" ")
    if word == "STALEFENCE":
        raise refused("redis", lease, int(newest.split()[0])) from error


@cache
def _checked(lua: str) -> str:
    check = (files(__package__) / "lua" / "check.lua").read_text("utf-8")
    return check + lua
