"""The live view: keys and reports go in, pictures come out. Only this file brings all the parts together."""

from __future__ import annotations

import queue
import signal
from typing import TYPE_CHECKING

from fencelock.cli import exits
from fencelock.cli.top.keys import Keys
from fencelock.cli.top.model import Look, Order, Poll, Trouble
from fencelock.cli.top.poller import Crash, Poller, Report, Stop
from fencelock.cli.top.screen import HungUp, Screen
from fencelock.cli.top.state import Page, State
from fencelock.cli.top.view import picture
from fencelock.io.clock import now

if TYPE_CHECKING:
    from fencelock.client import Client

_TICK = 1.0
"""Seconds between two pictures if nothing happens: the picture says how old it is."""

_ESCAPE_TIME = 0.05
"""Seconds after which an ESC is the Esc key, and not the beginning of another key."""

_GOODBYE = 0.5
"""Seconds that a request under way gets at the end. After that, the end of the program ends it."""


def watch(client: Client, where: str, pattern: str, interval: float, order: Order) -> int:
    """Show the live view until the user quits. Returns the exit code."""
    reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
    state = State(where, order)
    screen = Screen()

    def tell(report: Report) -> None:
        reports.put(report)
        screen.wake()

    poller = Poller(client, pattern, interval, tell)
    try:
        with screen:
            poller.start()
            code = _run(screen, state, poller, reports)
    except HungUp:
        code = exits.SIGNALLED + signal.SIGHUP
    # If the engine does not answer now, the user should not wait for it.
    if poller.stop(_GOODBYE):
        client.close()
    return code


def _run(screen: Screen, state: State, poller: Poller, reports: queue.SimpleQueue[Report]) -> int:
    keys = Keys()
    while True:
        _take_all(state, reports)
        state.asking_since = poller.asking_since
        screen.draw(picture(state, *screen.size(), now()))
        poller.wish = state.wish
        typed = screen.wait(_ESCAPE_TIME if keys.unfinished else _TICK)
        if screen.ended_by is not None:
            return exits.SIGNALLED + screen.ended_by
        for key in keys.feed(typed) if typed else keys.flush():
            page = state.page
            request = state.press(key)
            if isinstance(request, Stop):
                return 0
            if request is not None:
                poller.ask(request)
            if state.page is Page.BREAK and page is not Page.BREAK:
                break  # what was typed blindly is no answer to a question that was not seen


def _take_all(state: State, reports: queue.SimpleQueue[Report]) -> None:
    while not reports.empty():
        match reports.get():
            case Poll() as poll:
                state.model.take(poll)
            case Trouble() as trouble:
                state.model.fail(trouble)
            case Look() as look:
                state.model.look(look)
            case Crash(error):
                raise error
            case message:
                state.message = message
