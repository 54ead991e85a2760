"""An API that allows three requests at a time, and twelve workers that use it.

The semaphore has as many permits as the API allows. On a shared engine, all processes together have that
many. A heavy request takes two permits at once (`weight`), never one after the other: two workers that each
hold one of the last two permits would wait for each other for ever.

Run it: python examples/semaphore_api.py
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import fencelock

ALLOWED = 3
WORKERS = 12
REQUESTS = 24


class Api:
    """The service: it counts the requests in progress, and refuses too many."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._load = 0
        self.busiest = 0

    def request(self, load: int) -> bool:
        with self._mutex:
            if self._load + load > ALLOWED:
                return False
            self._load += load
            self.busiest = max(self.busiest, self._load)
        time.sleep(0.02)
        with self._mutex:
            self._load -= load
        return True


def use(api: Api, client: fencelock.Client | None) -> str:
    """Let the workers make their requests, every fourth of them heavy."""

    def work(number: int) -> bool:
        load = 2 if number % 4 == 0 else 1
        permit: Any = nullcontext()
        if client is not None:
            permit = client.semaphore("api", permits=ALLOWED, weight=load)
        with permit:
            return api.request(load)

    with ThreadPoolExecutor(WORKERS) as workers:
        answers = list(workers.map(work, range(REQUESTS)))
    return f"{sum(answers)} answered, {answers.count(False)} refused"


def main() -> None:
    print("without the semaphore:", use(Api(), None))
    api = Api()
    with fencelock.Client("memory://") as client:
        print("with the semaphore:   ", use(api, client))
    print(f"at most {api.busiest} at a time")


if __name__ == "__main__":
    main()
