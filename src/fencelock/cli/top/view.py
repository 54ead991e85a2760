"""The picture: a state and a size become lines.

There are never more lines than the terminal has, and no line is wider than the terminal.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from rich.cells import cell_len
from rich.text import Text

from fencelock.cli.listing import duration
from fencelock.cli.messages import printable
from fencelock.cli.top.pages import break_page, help_page, name_page
from fencelock.cli.top.parts import at_least, brief, fit, wrapped
from fencelock.cli.top.state import Page, State
from fencelock.cli.top.table import table

_KEYS = {
    Page.LIST: "↑↓ select  Enter open  s sort  / filter  b break  r now  ? help  q quit",
    Page.NAME: "↑↓ scroll  Esc back  b break  r now  ? help  q quit",
    Page.HELP: "↑↓ scroll  q quit  any other key: back",
}

_PAGES = {Page.NAME: name_page, Page.HELP: help_page, Page.BREAK: break_page}

_SLOW = 2.0
"""Seconds after which we say that the engine has not answered yet."""


def picture(state: State, width: int, height: int, now: float) -> list[Text]:
    """The lines to show at a moment of our clock."""
    trouble = _trouble(state, now)
    warning = wrapped(trouble, width, "bold white on red")[: max(1, height // 8)]
    head = _head(state, width, now)
    top = [head, *warning, _status(state)] if height > 5 else [*warning, head]
    top = top[: max(0, height - 2)]
    bottom = _foot(state, width)[: max(1, height // 8)]
    if height == 1 and not state.prompting:
        bottom = []
    room = height - len(top) - len(bottom)
    if state.page is Page.LIST:
        body = table(state, width, room, faded=bool(trouble))
    else:
        body = _scrolled(state, _PAGES[state.page](state, width), room)
    lines = [*top, *body[:room], *(Text() for _ in range(room - len(body))), *bottom]
    for line in lines:
        line.truncate(width)
    return lines


def _scrolled(state: State, lines: list[Text], room: int) -> list[Text]:
    state.room = max(1, room)
    state.scrolled = max(0, min(state.scrolled, len(lines) - room))
    return lines[state.scrolled :]


def _head(state: State, width: int, now: float) -> Text:
    model = state.model
    title, facts = f"fencelock top  {state.where}", []
    if model.last is not None:
        facts = [_count(len(model.names) + model.last.more), _clock(model.last.at, now)]
        if model.rate:
            facts.insert(1, f"{at_least(model.rate)} hand-offs")
    while facts and cell_len("  ".join(facts)) > width - len("fencelock top  "):
        facts.pop()
    right = "  ".join(("", *facts))
    left = fit(title, max(0, width - cell_len(right)))
    return Text.assemble((left[:13], "bold"), left[13:], right)


def _status(state: State) -> Text:
    model = state.model
    if model.last is None:
        return Text("waiting for the engine …", "dim")
    facts = [f"sorted by {state.order}", f"every {brief(model.last.took + model.last.pause)}"]
    if state.filter and not state.typing:
        facts.append(f"filter {printable(state.filter)}: {_count(len(state.rows()))}")
    if model.last.more:
        facts.append(f"{model.last.more:,} not shown: use --pattern")
    if model.looked < len(model.names):
        facts.append(f"{model.looked:,} looked at")
    if any(row.seen and row.seen.abandoned for row in state.rows()):
        facts.append("! abandoned")
    return Text("  ".join(facts), "dim")


def _trouble(state: State, now: float) -> str:
    """Why the picture may not be true any more. Empty: there is no trouble."""
    model = state.model
    asking = now - state.asking_since if state.asking_since is not None else 0.0
    if asking > _SLOW:
        again, reason = "", f"the engine has not answered for {duration(asking)}"
    elif model.trouble is not None:
        left = max(0.0, model.trouble.next_try - now)
        again = " (trying again now)" if left < 0.5 else f" (next try in {left:.0f} s)"
        reason = model.trouble.reason.removeprefix(f"{state.where}: ")
    else:
        return ""
    if model.last is None:
        return f"NO ANSWER YET{again}: {reason}"
    since = f"{_clock(model.last.at, now)}, {duration(now - model.last.at)} ago"
    return f"STALE: what you see is from {since}{again}: {reason}"


def _foot(state: State, width: int) -> list[Text]:
    if state.page is Page.BREAK:
        assert state.question is not None
        fences = ", ".join(str(each.fence) for each in state.question.holders)
        question = f"Break fence {fences}? Type yes and Enter, or Esc:"
        return [_prompt(question, state.answer, width)]
    if state.typing:
        return [_prompt("Filter (Enter, Esc):", state.filter, width)]
    if state.message:
        return wrapped(state.message, width, "bold")
    return [Text(_KEYS[state.page], "dim")]


def _prompt(question: str, typed: str, width: int) -> Text:
    """A question, and the end of what was typed. What was typed is more important than the question."""
    typed = printable(typed)
    while cell_len(typed) > max(0, width - 3):
        typed = typed[1:]
    question = fit(question, min(cell_len(question), max(0, width - cell_len(typed) - 2)))
    return Text.assemble((question, "bold"), " ", typed, ("_", "blink"))


def _count(names: int) -> str:
    return f"{names:,} name{'s' * (names != 1)}"


def _clock(at: float, now: float) -> str:
    """A moment of our clock as the time of day."""
    return f"{datetime.now() - timedelta(seconds=now - at):%H:%M:%S}"
