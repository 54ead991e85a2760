"""A pytest plugin: runs tests in an order that a seed decides, until the time is over, and skips the rest."""

from __future__ import annotations

import random
import time

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-seconds", type=float, default=60.0)
    parser.addoption("--soak-seed", type=int, default=0)


class Soaking:
    def __init__(self, seconds: float, seed: int) -> None:
        self._seconds = seconds
        self._seed = seed
        self._end = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # The tests of a file stay together, so that a server that they share starts only once.
        chance = random.Random(self._seed)
        files = sorted({_file(item) for item in items})
        chance.shuffle(files)
        places = {file: place for place, file in enumerate(files)}
        items.sort(key=lambda item: item.nodeid)  # all workers must get the same order
        chance.shuffle(items)
        items.sort(key=lambda item: places[_file(item)])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        # The time begins with the first test, because collecting takes long on a busy machine.
        self._end = self._end or time.monotonic() + self._seconds
        if time.monotonic() > self._end:
            pytest.skip("the time of this soak is over")


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(
        Soaking(config.getoption("--soak-seconds"), config.getoption("--soak-seed"))
    )
