"""The verdict: what a lock on a set-up is good for, and what to mend for a better one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from fencelock.core.errors import UnsafeEngine
from fencelock.doctor.checks import VERDICTS, Check, Verdict
from fencelock.doctor.measures import ClockOffset, Latency
from fencelock.engines.contract import Guarantee

T = TypeVar("T")

MEANING: dict[Verdict, str] = {
    "not safe": "two holders are to be expected, or no lock works at all",
    "efficiency": "now and then a lock may have two holders",
    "correctness": "only a paused holder may still believe that it holds",
}

_BEYOND = (
    "let your storage check the fence. For correctness use another engine: no setting gives more"
)


class Report(NamedTuple):
    """What the doctor found."""

    engine: str
    """The kind of engine: "redis" and so on."""
    promise: Guarantee
    """What this kind of engine gives at best."""
    condition: str
    """What *correctness* depends on, besides what was checked. Empty for *efficiency*."""
    verdict: Verdict
    """What this set-up gives."""
    checks: tuple[Check, ...]
    latency: Latency | None
    clocks: tuple[ClockOffset, ...]
    ttl: float | None
    """The shortest sensible ttl from here, in seconds. None for locks that have no ttl."""
    names: tuple[str, ...] = ("*",)
    """The patterns of the names that this is about."""
    parts: tuple[Report, ...] = ()
    """The reports of the single engines, if a client has routes to several; or of a service's engine."""
    identity: str = ""
    """Of the place where the locks are kept, whoever examines it. Empty if the servers don't tell it."""

    @property
    def in_the_way(self) -> tuple[Check, ...]:
        """The bad checks that stand between this verdict and the next better one."""
        return self._blocking(self.verdict)

    @property
    def next(self) -> str:
        """What to do for a better verdict, or what this one depends on."""
        if self.in_the_way:
            better = VERDICTS[VERDICTS.index(self.verdict) + 1]
            return f"for {better} mend: {', '.join(check.id for check in self.in_the_way)}"
        if self.verdict != "correctness":
            return _BEYOND
        return f"as long as {self.condition}" if self.condition else ""

    def unknown(self, required: Verdict) -> tuple[Check, ...]:
        """The checks that could not be made, and that could leave less than is required."""
        return tuple(
            check
            for check in self.all_checks
            if check.status == "unknown" and check.leaves and is_below(check.leaves, required)
        )

    def accepting(self, ids: Collection[str]) -> Report:
        """The same report, if these checks don't count because somebody has decided so."""
        checks = tuple(check for check in self.checks if check.id not in ids)
        parts = tuple(part.accepting(ids) for part in self.parts)
        verdict = weakest([judge(self.promise, checks), *(part.verdict for part in parts)])
        return self._replace(checks=checks, parts=parts, verdict=verdict)

    def require(self, required: Verdict) -> None:
        """Raise `UnsafeEngine` if this set-up gives less."""
        if is_below(self.verdict, required):
            found = "; ".join(f"{check.detail}: {check.mend}" for check in self.in_the_way)
            raise UnsafeEngine(
                f"this set-up gives {self.verdict} and not {required}: {found or self.next} "
                "(fencelock doctor shows more)"
            )

    def as_json(self) -> dict[str, Any]:
        """The report as JSON. docs/doctor.md documents the keys, so they stay."""
        return {
            "engine": self.engine,
            "names": list(self.names),
            "verdict": self.verdict,
            "promise": self.promise,
            "condition": self.condition,
            "next": self.next,
            "in_the_way": [check.id for check in self.in_the_way],
            "checks": [
                {**check._asdict(), "servers": list(check.servers)} for check in self.checks
            ],
            "latency": self.latency._asdict() if self.latency else None,
            "clocks": [clock._asdict() for clock in self.clocks],
            "ttl": self.ttl,
            "parts": [part.as_json() for part in self.parts],
            "identity": self.identity,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Report:
        """A report from its JSON."""
        latency, checks = found["latency"], found["checks"]
        return cls(
            found["engine"],
            found["promise"],
            found["condition"],
            found["verdict"],
            tuple(_of_json(Check, {**each, "servers": tuple(each["servers"])}) for each in checks),
            _of_json(Latency, latency) if latency else None,
            tuple(_of_json(ClockOffset, each) for each in found["clocks"]),
            found["ttl"],
            tuple(found["names"]),
            tuple(map(cls.of_json, found["parts"])),
            found["identity"],
        )

    def _blocking(self, verdict: Verdict) -> tuple[Check, ...]:
        """The checks that leave only this verdict, where the engine promises more."""
        more = is_below(verdict, self.promise)
        own = [each for each in self.checks if each.status == "bad" and each.leaves == verdict]
        parts = (check for part in self.parts for check in part._blocking(verdict))
        return (*(own if more else ()), *parts)

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """The checks of this report and of its parts."""
        return (*self.checks, *(check for part in self.parts for check in part.all_checks))


def _of_json(kind: type[T], found: Mapping[str, Any]) -> T:
    """A tuple from its JSON. A newer version may have more fields."""
    return kind(**{field: found[field] for field in kind._fields})  # type: ignore[attr-defined]


def judge(promise: Guarantee, checks: Sequence[Check]) -> Verdict:
    """What is left of an engine's promise."""
    return weakest([promise, *(c.leaves for c in checks if c.status == "bad" and c.leaves)])


def weakest(verdicts: Sequence[Verdict]) -> Verdict:
    """The weakest of several verdicts."""
    return min(verdicts, key=VERDICTS.index)


def is_below(verdict: Verdict, required: Verdict) -> bool:
    """Whether a verdict is less than what is required."""
    return VERDICTS.index(verdict) < VERDICTS.index(required)
