"""How fast the engine is: from the figures of `fencelock bench`, or as typed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from fencelock.cli.bench.figures import Figure
from fencelock.planning.model import EngineSpeed


def speed_of(figures: Mapping[str, Figure]) -> EngineSpeed:
    """What the model needs of the figures of `fencelock bench`."""
    pair = figures["pair"]
    # It is missing if no process of the benchmark had to wait.
    hand_off = figures.get("hand-off", pair)
    most = max(figures[key].per_second or 0.0 for key in ("processes", "tasks"))
    return EngineSpeed(
        pair.p50,
        pair.p99,
        hand_off.p50,
        most or math.inf,
        figures["renewals"].per_second,
    )


def read_speed(file: IO[str]) -> tuple[str, EngineSpeed]:
    """The engine and its speed, from a file that `fencelock bench --json` has written."""
    try:
        found = json.load(file)
        figures = {each["key"]: Figure(**each) for each in found["figures"]}
        speed = speed_of(figures)
        if not all(each is None or each > 0 for each in speed):
            raise ValueError
        return str(found["engine"]), speed
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{file.name!r} does not have the figures of an engine: write it with "
            "`fencelock bench --json`"
        ) from error


def typed_speed(measured: EngineSpeed | None, typed: Mapping[str, Any]) -> EngineSpeed:
    """The measured speed with the typed figures in it, or the typed figures alone."""
    given = {key: value for key, value in typed.items() if value is not None}
    if measured is not None:
        return measured._replace(**given)
    if "pair" not in given:
        raise ValueError(
            "say how fast the engine is: --from FILE with the output of `fencelock bench --json`, "
            "--url URL to measure it now, or --pair 300us"
        )
    pair = given["pair"]
    return EngineSpeed(**({"pair_p99": pair, "hand_off": pair} | given))
