"""A WSGI program with a client at module level: `gunicorn --preload` imports it and then forks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import fencelock

client = fencelock.Client(label="gunicorn")
with client.lock("gunicorn:import"):
    parents = client.lock("gunicorn:parent", ttl=3600).acquire()


@client.locked("gunicorn:request")
def answer(lease: fencelock.Lease) -> dict[str, Any]:
    try:
        parents.check()
        refusal = ""
    except fencelock.FencelockError as error:
        refusal = str(error)
    return {"pid": os.getpid(), "owner": lease.owner.pid, "refusal": refusal}


def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    said = json.dumps(answer()).encode()
    start("200 OK", [("Content-Length", str(len(said)))])
    return [said]
