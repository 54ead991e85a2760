"""One process of the soak: adds one to the number, under the lock and with a guard, until told to stop."""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import threading
import time
from pathlib import Path

from fencelock import Client, EngineError, LeaseLost, StaleFence
from tests.guards.stores import STORES


def main(url: str, storage: str, where: str, name: str, ttl: str, journal: str) -> None:
    store = STORES[storage](where, name)
    acknowledged = refused = lost = 0
    errors: list[str] = []
    stop = threading.Event()
    threading.Thread(target=obey, args=(stop,), daemon=True).start()
    logging.getLogger("fencelock").addHandler(logging.NullHandler())
    with Client(url, ttl=float(ttl)) as client:
        lock = client.lock(name, timeout=5, guard=store)
        while not stop.is_set():
            try:
                with lock as lease:
                    value = store.read()
                    time.sleep(
                        random.uniform(0, 0.01)
                    )  # a bit of work, in which one may be stopped
                    store.write(value + 1, lease)
                    acknowledged += 1
            except StaleFence:
                refused += 1
                (Path(journal) / str(os.getpid())).touch()
            except LeaseLost:
                lost += 1
            except (EngineError, TimeoutError):
                pass  # somebody was stopped while keeping others out: try again
            except Exception as error:
                errors.append(repr(error))
    print(
        json.dumps(
            {"acknowledged": acknowledged, "refused": refused, "lost": lost, "errors": errors}
        )
    )


def obey(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
