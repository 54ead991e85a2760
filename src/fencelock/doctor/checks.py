"""What a check is, and how a rule makes one from facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from fencelock.engines.contract import Traits
from fencelock.engines.diagnosis import NotTold, Server

Status = Literal["ok", "advice", "unknown", "bad"]
"""What a check found. "unknown" means that it could not be made."""

Verdict = Literal["not safe", "efficiency", "correctness"]
"""What a lock on this set-up is good for."""

STATUSES: tuple[Status, ...] = ("ok", "advice", "unknown", "bad")
"""From the best to the worst."""

VERDICTS: tuple[Verdict, ...] = ("not safe", "efficiency", "correctness")
"""From the weakest to the strongest."""


class Check(NamedTuple):
    """One thing that was looked at, and what it means for a lock."""

    id: str
    status: Status
    detail: str
    """What was found."""
    why: str
    """Why it matters for a lock, in one sentence."""
    mend: str
    """The command or setting that mends it, or whom to ask. Empty if all is well."""
    servers: tuple[str, ...] = ()
    """The servers where it was found, if it concerns single servers."""
    leaves: Verdict | None = None
    """The most that a lock here is good for while this is bad. None: it does not change the verdict. If the
    check could not be made, this is what it would have left at the worst."""


class Finding(NamedTuple):
    """What a rule found. Make it with `ok`, `advice` or `bad`."""

    status: Status
    detail: str
    mend: str = ""
    """If it is mended otherwise than the rule says."""
    leaves: Verdict | None = None
    """If it leaves something else than the rule says."""


def ok(detail: str) -> Finding:
    """All is well."""
    return Finding("ok", detail)


def advice(detail: str, mend: str = "") -> Finding:
    """It could be better, but it breaks no promise."""
    return Finding("advice", detail, mend)


def bad(detail: str, mend: str = "", leaves: Verdict | None = None) -> Finding:
    """It is wrong for a lock."""
    return Finding("bad", detail, mend, leaves)


class Probe(NamedTuple):
    """How it went to take a lock and to hand it over."""

    handed_over_after: float = 0.0
    """Seconds from the beginning of the release until the waiter had the lock."""
    fences: tuple[int, int] = (0, 0)
    """Of the first holder and of the second one."""
    failure: str = ""
    """Why it did not work, if it did not."""


class Setup(NamedTuple):
    """All that is known about what stands behind one engine."""

    label: str
    """The kind of engine: "redis" and so on."""
    traits: Traits
    servers: Sequence[Server]
    ttl: float
    """The ttl for which it is examined, in seconds."""
    probe: Probe | None = None
    """None if no lock was taken."""

    def answering(self, *roles: str) -> list[Server]:
        """The servers that could be examined, of these roles or of all."""
        return [
            server
            for server in self.servers
            if not server.failure and (not roles or server.role in roles)
        ]


Judge = Callable[[Setup], "tuple[Finding, tuple[str, ...]] | None"]
"""From the facts to a finding and the servers where it was found. None if the rule does not apply here."""


class Rule(NamedTuple):
    """A check before it is made. A pure function of the facts, and the words that go with it."""

    id: str
    why: str
    mend: str
    ask: str
    """What to ask the provider if the server does not tell. Empty if it always tells."""
    leaves: Verdict | None
    judge: Judge

    def check(self, setup: Setup) -> Check | None:
        """Judge a set-up. None if the rule does not apply to it."""
        try:
            judged = self.judge(setup)
        except NotTold as why:
            judged = Finding("unknown", str(why)), ()
        if judged is None:
            return None
        finding, servers = judged
        mend = finding.mend or (self.ask if finding.status == "unknown" else self.mend)
        return Check(
            self.id,
            finding.status,
            finding.detail,
            self.why,
            "" if finding.status == "ok" else mend,
            servers,
            None if finding.status in ("ok", "advice") else finding.leaves or self.leaves,
        )


def whole_setup(
    id: str, *, why: str, mend: str, ask: str = "", leaves: Verdict | None = None
) -> Callable[[Callable[[Setup], Finding | None]], Rule]:
    """Make a rule from a function that judges a set-up. It returns None where it does not apply."""

    def make(judge: Callable[[Setup], Finding | None]) -> Rule:
        def judged(setup: Setup) -> tuple[Finding, tuple[str, ...]] | None:
            finding = judge(setup)
            return None if finding is None else (finding, ())

        return Rule(id, why, mend, ask, leaves, judged)

    return make


def each_server(
    id: str,
    *roles: str,
    why: str,
    mend: str,
    ask: str = "",
    leaves: Verdict | None = None,
) -> Callable[[Callable[[Server], Finding | None]], Rule]:
    """Make a rule from a function that judges one server, for all servers of these roles.

    The worst finding counts. The rule does not apply to a set-up without such servers.
    """

    def make(judge: Callable[[Server], Finding | None]) -> Rule:
        def judged(setup: Setup) -> tuple[Finding, tuple[str, ...]] | None:
            return _worst((server, _judged(judge, server)) for server in setup.answering(*roles))

        return Rule(id, why, mend, ask, leaves, judged)

    return make


def _judged(judge: Callable[[Server], Finding | None], server: Server) -> Finding | None:
    try:
        return judge(server)
    except NotTold as why:
        return Finding("unknown", str(why))


def _worst(
    judged: Iterable[tuple[Server, Finding | None]],
) -> tuple[Finding, tuple[str, ...]] | None:
    """The worst finding, with what was found at each server that has it."""
    found = [(server.where, finding) for server, finding in judged if finding is not None]
    if not found:
        return None
    worst = max((finding for _, finding in found), key=lambda each: STATUSES.index(each.status))
    those = [(where, each.detail) for where, each in found if each.status == worst.status]
    details = {detail for _, detail in those}
    if len(details) == 1 and len(those) == len(found):
        return worst, tuple(where for where, _ in those)
    text = "; ".join(f"{where}: {detail}" for where, detail in those)
    return worst._replace(detail=text), tuple(where for where, _ in those)
