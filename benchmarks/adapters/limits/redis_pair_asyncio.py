"""The two round trips of `RawPair` on a bare asyncio protocol."""

from __future__ import annotations

import asyncio
from typing import Self

from benchmarks.adapters.contract import TTL_SECONDS, AsyncTurns
from benchmarks.adapters.limits.redis_wire import (
    COMPARE_AND_DELETE,
    RawConnection,
    address_of,
    pack,
)


class _Answers(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._buffer = bytearray(4096)
        self.answer: asyncio.Future[bytes]

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.answer.set_result(bytes(self._buffer[:size]))


class AsyncRawPair(AsyncTurns):
    """One request at a time."""

    label = "limit: raw asyncio protocol"

    def __init__(
        self, transport: asyncio.Transport, answers: _Answers, name: str, sha: str
    ) -> None:
        self._transport = transport
        self._answers = answers
        self._loop = asyncio.get_running_loop()
        self._set = pack("SET", name, "me", "NX", "PX", TTL_SECONDS * 1000)
        self._delete = pack("EVALSHA", sha, 1, name, "me")

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        loading = RawConnection(url)
        sha = loading.load(COMPARE_AND_DELETE)
        loading.close()
        loop = asyncio.get_running_loop()
        transport, answers = await loop.create_connection(_Answers, *address_of(url))
        return cls(transport, answers, name, sha)

    async def acquire(self) -> None:
        assert await self.ask_to_set() == b"+OK\r\n"

    async def release(self) -> None:
        assert await self.ask_to_delete() == b":1\r\n"

    def ask_to_set(self) -> asyncio.Future[bytes]:
        return self._ask(self._set)

    def ask_to_delete(self) -> asyncio.Future[bytes]:
        return self._ask(self._delete)

    async def close(self) -> None:
        self._transport.close()

    def _ask(self, request: bytes) -> asyncio.Future[bytes]:
        answer = self._answers.answer = self._loop.create_future()
        self._transport.write(request)
        return answer
