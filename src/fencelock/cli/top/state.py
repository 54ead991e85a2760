"""What the user has chosen to see, and what each key does. Pure: no terminal, no engine, no clock."""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from fencelock.cli.top import keys
from fencelock.cli.top.model import ORDERS, Model, Order, Row, matching
from fencelock.cli.top.poller import Break, Open, Refresh, Request, Stop, Wish
from fencelock.core.ticket import Holder


class Page(Enum):
    LIST = auto()
    NAME = auto()
    """One name and its queue."""
    HELP = auto()
    BREAK = auto()
    """The question whether to break a lock."""


class Question(NamedTuple):
    """Whether to break a lock. The answer is about these holders only."""

    name: str
    holders: tuple[Holder, ...]
    back: Page


_STEPS = {
    keys.UP: -1,
    "k": -1,
    keys.DOWN: 1,
    "j": 1,
}
_ENDS = {keys.HOME, "g", keys.END, "G"}


class State:
    """The view's state: the page, the order, the filter, the selected name."""

    def __init__(self, where: str, order: Order = "waiting") -> None:
        self.where = where
        """The engine's URL without its password."""
        self.model = Model()
        self.order = order
        self.filter = ""
        self.page = Page.LIST
        self.typing = False
        """Whether keys go to the filter."""
        self.answer = ""
        """What was typed as the answer to the question."""
        self.question: Question | None = None
        self.opened = ""
        self.message = ""
        """What came of a key. It stays until the next one."""
        self.asking_since: float | None = None
        self.room = 1
        """How many rows the page had when it was last drawn."""
        self.first = 0
        """The first row of the list that is on the screen."""
        self.scrolled = 0
        """How many rows of another page are above the screen."""
        self._selected: str | None = None
        """None: the row at the top, whichever that is."""
        self._index = 0
        self._filter_before = ""
        self._cached: tuple[object, list[Row]] = (None, [])

    # --- what there is to see

    def rows(self) -> list[Row]:
        """The rows of the list."""
        key = (self.model.version, self.order, self.filter)
        if self._cached[0] != key:
            self._cached = key, self.model.rows(self.order, self.filter)
        return self._cached[1]

    def index(self) -> int:
        """The place of the selected row in the list. The selection stays with its name."""
        if self._selected is None:
            self._index = 0
            return 0
        rows = self.rows()
        if self._index >= len(rows) or rows[self._index].name != self._selected:
            places = (place for place, row in enumerate(rows) if row.name == self._selected)
            # If its name is gone, the selection stays where it is on the screen.
            self._index = next(places, max(0, min(self._index, len(rows) - 1)))
            self._selected = rows[self._index].name if rows else None
        return self._index

    def shown(self, room: int) -> list[Row]:
        """The rows of the list that are on a screen with so many lines for them."""
        self.room = room
        rows, index = self.rows(), self.index()
        self.first = max(min(self.first, index, len(rows) - room), index - room + 1, 0)
        return rows[self.first : self.first + room]

    @property
    def prompting(self) -> bool:
        """Whether keys are text: the filter, or an answer."""
        return self.typing or self.page is Page.BREAK

    @property
    def wish(self) -> Wish:
        """What the next poll should look at first."""
        opened = self.opened if self.page in (Page.NAME, Page.BREAK) else None
        visible = tuple(row.name for row in self.rows()[self.first : self.first + self.room])
        preferred = partial(matching, filter=self.filter)
        return Wish((opened, *visible) if opened else visible, opened, preferred)

    # --- keys

    def press(self, key: str) -> Request | None:
        """Do what a key stands for. Returns what the engine must be asked for then."""
        if self.page is Page.BREAK:
            return self._answer(key)
        if self.typing:
            return self._type(key)
        self.message = ""
        match key:
            case "q":
                return Stop()
            case "r":
                return Refresh()
            case "?":
                self._back, self.page, self.scrolled = self.page, Page.HELP, 0
                return None
        return {Page.LIST: self._list, Page.NAME: self._name, Page.HELP: self._help}[self.page](key)

    def _list(self, key: str) -> Request | None:
        rows = self.rows()
        row = rows[self.index()] if rows else None
        match key:
            case "s":
                self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
            case "/":
                self.typing, self._filter_before = True, self.filter
            case keys.ESCAPE:
                self.filter = ""
            case keys.ENTER if row:
                self.opened, self.page, self.scrolled = row.name, Page.NAME, 0
                return Open(row.name)
            case "b" if row:
                self._ask(row)
            case _ if rows and (place := self._moved(key, self.index(), len(rows) - 1)) is not None:
                self._selected, self._index = rows[place].name if place else None, place
        return None

    def _name(self, key: str) -> Request | None:
        match key:
            case keys.ESCAPE | keys.ENTER | keys.BACKSPACE:
                self.page = Page.LIST
            case "b":
                self._ask(self.model.row(self.opened))
            case _:
                self._scroll(key)
        return None

    def _help(self, key: str) -> Request | None:
        if not self._scroll(key):
            self.page, self.scrolled = self._back, 0
        return None

    def _type(self, key: str) -> Request | None:
        match key:
            case keys.ENTER:
                self.typing = False
            case keys.ESCAPE:
                self.typing, self.filter = False, self._filter_before
            case _:
                self.filter = _edited(self.filter, key)
        return None

    def _ask(self, row: Row) -> None:
        if row.seen is None or not row.seen.holders:
            self.message = f"nobody holds {row.name!r}"
            return
        self.question = Question(row.name, row.seen.holders, self.page)
        self.page, self.answer, self.scrolled = Page.BREAK, "", 0

    def _answer(self, key: str) -> Request | None:
        assert self.question is not None
        name, holders, back = self.question
        if key not in (keys.ENTER, keys.ESCAPE):
            self.answer = _edited(self.answer, key)
            return None
        self.page = back
        if key == keys.ENTER and self.answer == "yes":
            self.message = f"breaking {name!r} …"
            return Break(name, holders)
        self.message = f"{name!r} was not broken"
        return None

    def _scroll(self, key: str) -> bool:
        place = self._moved(key, self.scrolled, self.scrolled + self.room)
        if place is not None:
            self.scrolled = place  # the page stops it at its end
        return place is not None

    def _moved(self, key: str, place: int, last: int) -> int | None:
        """The place to which a key moves. None: it is no key for moving."""
        steps = {**_STEPS, keys.PAGE_UP: -self.room, keys.PAGE_DOWN: self.room}
        if key in _ENDS:
            return 0 if key in (keys.HOME, "g") else last
        return max(0, min(place + steps[key], last)) if key in steps else None


def _edited(text: str, key: str) -> str:
    match key:
        case keys.BACKSPACE:
            return text[:-1]
        case keys.CLEAR:
            return ""
    return text + key if len(key) == 1 else text
