"""A FastAPI program that uses locks in every way. uvicorn runs it: see test_fastapi.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.applications import Starlette
from starlette.routing import Route

import fencelock
from fencelock.integrations.fastapi import held
from fencelock.integrations.starlette import answer_errors

client = fencelock.AsyncClient(ttl=3600)
blocking_client = fencelock.Client(ttl=3600)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with client:
        yield
    blocking_client.close()
    print("closed", flush=True)


app = FastAPI(lifespan=lifespan)
answer_errors(app, retry_after=3)


def order_lock(order_id: int) -> str:
    return f"order:{order_id}"


OrderLease = Annotated[fencelock.AsyncLease, held(client, order_lock, timeout=0)]
StreamLease = Annotated[fencelock.AsyncLease, held(client, order_lock, timeout=0, scope="request")]
ShortLease = Annotated[
    fencelock.AsyncLease, held(client, order_lock, ttl=0.6, on_lost="cancel", timeout=0)
]


@app.get("/held/{order_id}")
async def with_dependency(order_id: int, lease: OrderLease) -> dict[str, Any]:
    return {"name": lease.name, "fence": lease.fence, "state": lease.state.value}


@app.get("/threads/{order_id}")
def in_a_thread(order_id: int, lease: OrderLease) -> dict[str, Any]:
    return {"name": lease.name, "fence": lease.fence}


@app.get("/decorated/{order_id}")
@client.locked("order:{order_id}", timeout=0)
async def decorated(lease: fencelock.AsyncLease, order_id: int, note: str = "none") -> list[str]:
    lease.check()
    return [lease.name, note]


@app.get("/blocking/{order_id}")
@blocking_client.locked("order:{order_id}", timeout=0)
def decorated_and_blocking(order_id: int, lease: fencelock.Lease) -> list[str]:
    lease.check()
    return [lease.name]


@app.get("/unused/{order_id}", dependencies=[held(client, order_lock, timeout=0)])
async def without_the_lease(order_id: int) -> str:
    return (await client.names("order:*"))[0]


@app.get("/slow/{order_id}")
async def slow(order_id: int, lease: OrderLease) -> str:
    """Ends when the lock `gate` is free."""
    async with client.lock(f"gate:{order_id}"):
        print(f"slow {order_id} ends", flush=True)
        return "ended"


@app.get("/short/{order_id}")
async def short(order_id: int, lease: ShortLease) -> str:
    """Ends only if its lease is lost."""
    await lease.lost.wait()
    await lease.lost.wait(3600)
    return "ended"


@app.get("/stream/{order_id}")
async def stream(order_id: int, lease: StreamLease) -> StreamingResponse:
    """Sends a byte, and another one when the lock `gate` is free."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"a"
        async with client.lock(f"gate:{order_id}"):
            yield b"b"

    return StreamingResponse(parts())


away = fencelock.AsyncClient("redis://:secret@127.0.0.1:1")  # nothing listens there


@app.get("/away")
async def without_engine(
    lease: Annotated[fencelock.AsyncLease, held(away, "x", timeout=0)],
) -> None: ...


@app.get("/stale")
async def stale(_: Request) -> Response:
    """Behaves like a guard that has seen a newer holder."""
    raise fencelock.StaleFence("x", given=1, newest=2)


plain = Starlette(routes=[Route("/stale", stale)])
answer_errors(plain)
app.mount("/starlette", plain)
