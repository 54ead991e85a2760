"""An ASGI program with a client at module level."""

from __future__ import annotations

import json
import os
from typing import Any

import fencelock

client = fencelock.AsyncClient(label="uvicorn")


@client.locked("uvicorn:request")
async def answer(lease: fencelock.AsyncLease) -> dict[str, Any]:
    lease.check()
    return {"pid": os.getpid(), "owner": lease.owner.pid, "fence": lease.fence}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await client.close()
        await send({"type": "lifespan.shutdown.complete"})
        return
    said = json.dumps(await answer()).encode()
    length = (b"content-length", str(len(said)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": said})
