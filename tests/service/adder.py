"""One process of the soak: adds one to a guarded number, under a lock of the service, until told to stop."""

from __future__ import annotations

import json
import logging
import random
import sys
import threading
import time

from fencelock import Client, EngineError, LeaseLost, StaleFence
from tests.guards.adder import obey
from tests.guards.stores import STORES


def main(url: str, where: str, name: str, ttl: str) -> None:
    store = STORES["sqlite"](where, name)
    counts = dict.fromkeys(("acknowledged", "refused", "lost", "failed"), 0)
    longest, errors = 0.0, list[str]()
    stop = threading.Event()
    threading.Thread(target=obey, args=(stop,), daemon=True).start()
    logging.getLogger("fencelock").addHandler(logging.NullHandler())
    with Client(url, ttl=float(ttl)) as client:
        lock = client.lock(name, timeout=60, guard=store)
        wanted_at: float | None = None
        while not stop.is_set():
            if wanted_at is None:
                wanted_at = time.monotonic()
            try:
                with lock as lease:
                    longest = max(longest, time.monotonic() - wanted_at)
                    wanted_at = None
                    value = store.read()
                    time.sleep(random.uniform(0, 0.01))  # a bit of work
                    store.write(value + 1, lease)
                    counts["acknowledged"] += 1
            except StaleFence:
                counts["refused"] += 1
            except LeaseLost:
                counts["lost"] += 1
            except EngineError:
                counts["failed"] += (
                    1  # if it has no lease yet, it still wants one, since the same moment
                )
            except Exception as error:
                errors.append(repr(error))
    print(json.dumps({**counts, "longest": longest, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
