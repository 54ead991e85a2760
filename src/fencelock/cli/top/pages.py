"""The other pages: one name with its queue, the question before a lock is broken, the help."""

from __future__ import annotations

from rich.text import Text

from fencelock.cli.listing import duration, owner_text
from fencelock.cli.top.model import WINDOW
from fencelock.cli.top.parts import at_least, brief, fit, folded, tail, wrapped
from fencelock.cli.top.poller import SHARE
from fencelock.cli.top.state import State
from fencelock.core.ticket import Contender, Inspection, Waiter

_FENCE = 16
_NARROW = 60

_HELP = f"""\
Enter    open a name: its holders and its queue, in order
s        sort by waiting, by held, by name
/        filter: a part of a name, or a pattern such as order:*; Esc clears it
b        break the selected lock; it asks first
r        poll soon
↑ ↓      select, or scroll; also j and k, Page Up and Page Down, Home and End
q        quit

NAME     what is locked. +2 before the holder: there are two more holders
FENCE    the fence of the holder; on a narrow terminal only its end
HELD     how long it has been held
TTL      the time until the holder expires unless it renews. The bar compares it with the longest time that \
was seen of this holder. A holder that renews in time stays above 60 %
WAIT     how many wait for it
HANDOFFS how often it got a new holder, over about {WINDOW:g} s. Only holders that were seen in a poll are \
counted, so in truth it may be more (≥)
!        abandoned: the previous holder did not release it, so its work may be half done

One poll lists all names, but looks only at some hundreds of them: those on the screen first, then those \
that it has not seen for the longest. Polls take at most {SHARE:.0%} of the time: if a poll takes long, the \
next one comes later."""

_CONSEQUENCES = (
    "The next waiter gets the lock at once, with a higher fence. The old holder notices at its next "
    "renewal. Until then both believe that they hold the lock, and only storage that checks fences is "
    "safe.",
    "If the lock has another holder when you answer, it is not broken. But this is checked a moment "
    "before: a holder that comes in that moment loses the lock, too.",
)


def name_page(state: State, width: int) -> list[Text]:
    """One name: who holds it, and who waits for how long."""
    row = state.model.row(state.opened)
    lines = folded(state.opened, width, "bold")
    seen = row.seen
    if seen is None:
        return [*lines, Text("Nobody holds it or waits for it.", "dim")]
    facts = [f"newest fence {seen.fence}", f"{seen.waiting:,} waiting"]
    if row.rate:
        facts.append(f"{at_least(row.rate)} hand-offs seen")
    lines += wrapped(", ".join(facts), width)
    if seen.abandoned:
        text = "abandoned: the previous holder did not release it: its work may be half done"
        lines += wrapped(text, width, "bold red")
    lines += [Text(), *_queue(seen, width)]
    more = seen.waiting - len(seen.waiters)
    if more > 0:
        lines.append(Text(f"and {more:,} more" if seen.waiters else "…", "dim"))
    return lines


def _queue(seen: Inspection, width: int) -> list[Text]:
    """Holders and waiters as a table, in the order of the queue."""
    fence = 8 if width < _NARROW else min(_FENCE, max(5, len(str(seen.fence))))
    owner = max(6, width - 6 - fence - 5 - 7 - 4)

    def line(*cells: str) -> str:
        place, text, number, age, left = cells
        return " ".join(
            (
                fit(place, 6),
                fit(text, owner),
                fit(tail(number, fence), fence, right=True),
                fit(age, 5, right=True),
                fit(left, 7, right=True),
            )
        )

    def row(place: str, each: Contender) -> str:
        age = each.waiting_for if isinstance(each, Waiter) else each.held_for
        number = str(each.fence) if each.fence else "-"
        return line(place, owner_text(each), number, brief(age), brief(each.expires_in))

    return [
        Text(line("", "OWNER", "FENCE", "FOR", "EXPIRES"), "bold"),
        *(Text(row("holds", each), "green") for each in seen.holders),
        *(Text(row(str(place), each)) for place, each in enumerate(seen.waiters, start=1)),
    ]


def break_page(state: State, width: int) -> list[Text]:
    """What will be broken, and what that means."""
    assert state.question is not None
    name, holders, _ = state.question
    lines = [Text("Break this lock?", "bold red"), *folded(name, width, "bold"), Text()]
    for each in holders:
        held = f"held by {owner_text(each)} for {duration(each.held_for)}, fence {each.fence}"
        lines += wrapped(held, width)
    for text in _CONSEQUENCES:
        lines += [Text(), *wrapped(text, width)]
    return lines


def help_page(state: State, width: int) -> list[Text]:
    """What the keys and the columns mean."""
    lines: list[Text] = []
    for line in _HELP.splitlines():
        key, text = line[:9], line[9:]
        if not line or line[8] != " ":
            lines += wrapped(line, width) or [Text()]
        elif width < _NARROW:
            lines += wrapped(f"{key.strip()}: {text}", width)
        else:
            for number, part in enumerate(wrapped(text, width - 9)):
                lines.append(Text.assemble((fit("" if number else key, 9), "bold"), part))
    return lines
