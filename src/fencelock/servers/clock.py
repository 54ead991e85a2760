"""Servers whose wall clock is wrong: `shifted_clock.c` is loaded into them."""

from __future__ import annotations

import struct
from pathlib import Path

from fencelock.servers.process import run

_SOURCE = Path(__file__).with_name("shifted_clock.c")


class ShiftedClock:
    """A wall clock that is `set` forward and back, for servers that are started with its `environment`.

    The account that runs a server must be able to read the folder. Servers written in Go (etcd) ask the
    kernel for the time themselves, so they keep the right clock.
    """

    def __init__(self, folder: Path) -> None:
        library, self._shift = folder / "shifted_clock.so", folder / "shift"
        run(
            "cc", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl", "-lm", package="gcc libc6-dev"
        )
        self._shift.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(self._shift)}

    def set(self, seconds: float) -> None:
        """Move the clock by this much from the right time, also in the servers that run."""
        with self._shift.open("r+b") as file:  # they have mapped this file into their memory
            file.write(struct.pack("d", seconds))
