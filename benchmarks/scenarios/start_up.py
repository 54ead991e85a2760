"""Start-up: what an import and a command line cost. For information only."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.rounds import Table, interleave
from benchmarks.setting import Setting, scenario

COMMAND = "fencelock --version"
NOTHING = "python -c pass"
COMMANDS = {
    "import fencelock": ("-c", "import fencelock"),
    COMMAND: (str(Path(sys.executable).parent / "fencelock"), "--version"),
    "import redis": ("-c", "import redis"),
    "import filelock": ("-c", "import filelock"),
    NOTHING: ("-c", "pass"),
}


@scenario("start-up")
def start_up(setting: Setting) -> Iterator[Table]:
    contestants = {label: _timed(words) for label, words in COMMANDS.items()}
    notes: list[str] = []
    # The first run writes the bytecode.
    samples = interleave(contestants, setting.rounds(15, 3), notes, warm=True)
    command_line = {label: samples[label] for label in (COMMAND, NOTHING)}
    imports = {label: times for label, times in samples.items() if label != COMMAND}
    yield Table("Start-up of `import fencelock`", "ms", "lower", imports, notes=notes)
    yield Table("Start-up of `fencelock --version`", "ms", "lower", command_line)


def _timed(words: tuple[str, ...]) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter() - start) * 1e3

    return run
