"""What the other replicas have seen. They are asked all at once, with the token of whoever asks here.

A peer that is away, hangs, or answers something else is shown as not reached, with the reason. It never makes
the whole answer fail.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace
from yarl import URL

from fencelock.service.live.history import MOST_ENTRIES
from fencelock.service.live.wire import Entry, Figures, Points, Replica, ReplicaFigures

TIMEOUT = 1.0
"""Seconds in which a peer must have answered."""

_SHARED_FOR = 1.0
"""Seconds for which an answer is good for the same question of the same caller."""

_MOST_QUESTIONS = 100
"""The number of different questions in that time. Each may have a large answer."""

_MOST_CONNECTIONS = 16
"""To one peer. So one that hangs does not keep the others waiting."""

MOST_BYTES = 2**20
"""The longest answer that is read."""

_ROUNDED_TO = 60.0
"""Seconds. Pages ask for the figures since their last sample, and these moments differ. Rounded they are one
question."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}

T = TypeVar("T")


class _Told(NamedTuple, Generic[T]):
    """What a peer has answered; None if it was not reached."""

    url: str
    answer: T | None
    detail: str = ""
    """Why it was not reached."""


class _Local(Struct):
    """What is read of the details of a name that a peer alone has seen."""

    replicas: list[Replica]
    history: list[Entry] = []


class Peers:
    """The other replicas, as the setting `peers` names them."""

    def __init__(self, urls: Sequence[str], replica: str) -> None:
        self._urls = urls
        self._replica = replica
        """Our own id: the setting may be the same everywhere, so it may name us, too."""
        self._session: aiohttp.ClientSession | None = None
        self._asked: dict[tuple[str, str | None], asyncio.Task[list[_Told[Any]]]] = {}

    async def histories(
        self, name: str, authorization: str | None
    ) -> list[tuple[Replica, list[Entry]]]:
        """What each other replica has seen of a name."""
        path = f"/v1/live/names/{quote(name, safe='')}?local=true"
        found: list[tuple[Replica, list[Entry]]] = []
        for url, told, detail in await self._ask(path, authorization, _Local):
            if told is None:
                found.append((Replica(url=url, detail=detail), []))
            else:
                about = replace(told.replicas[0], url=url, reached=True)
                found.append((about, told.history[:MOST_ENTRIES]))
        return found

    async def figures(self, since: float, authorization: str | None) -> list[ReplicaFigures]:
        """The samples of each other replica that were taken after this moment."""
        rounded = max(0.0, since // _ROUNDED_TO * _ROUNDED_TO)
        path = f"/v1/live/figures?local=true&since={rounded:.0f}"
        found: list[ReplicaFigures] = []
        for url, told, detail in await self._ask(path, authorization, Figures):
            if told is None:
                found.append(ReplicaFigures(url=url, detail=detail))
            else:
                points = _newer(told.replicas[0].points, since)
                found.append(replace(told.replicas[0], url=url, reached=True, points=points))
        return found

    async def close(self) -> None:
        """End what is under way."""
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    # --- asking

    async def _ask(self, path: str, authorization: str | None, shape: type[T]) -> list[_Told[T]]:
        """Ask every peer. Those that turn out to be ourselves, or to be there twice, are left out."""
        question = path, authorization
        if question not in self._asked:
            if len(self._asked) >= _MOST_QUESTIONS:
                detail = "this replica asks the others too much at the moment"
                return [_Told(url, None, detail) for url in self._urls]
            everybody = self._ask_everybody(path, authorization, shape)
            self._asked[question] = asyncio.create_task(everybody)
            asyncio.get_running_loop().call_later(_SHARED_FOR, self._asked.pop, question, None)
        # Shielded: one that goes away must not end it for the others.
        return await asyncio.shield(self._asked[question])

    async def _ask_everybody(
        self, path: str, authorization: str | None, shape: type[Any]
    ) -> list[_Told[Any]]:
        told = await asyncio.gather(
            *(self._ask_one(url, path, authorization, shape) for url in self._urls)
        )
        known, found = {self._replica}, []
        for each in told:
            replica = each.answer.replicas[0].replica if each.answer is not None else ""
            if replica not in known:
                found.append(each)
            if replica:
                known.add(replica)
        return found

    async def _ask_one(
        self, url: str, path: str, authorization: str | None, shape: type[T]
    ) -> _Told[T]:
        try:
            status, body = await self._get(url + path, authorization)
        except TimeoutError:
            return _Told(url, None, f"it did not answer within {TIMEOUT:g} s")
        except (
            aiohttp.ClientError,
            OSError,
            ValueError,
        ) as error:  # ValueError: of the host's name
            return _Told(url, None, _reason(error))
        if status != 200:
            return _Told(url, None, _STATUSES.get(status, f"it answered with the status {status}"))
        if len(body) > MOST_BYTES:
            return _Told(url, None, f"its answer has more than {MOST_BYTES} bytes")
        try:
            answer: Any = msgspec.json.decode(body, type=shape)
            _check(answer)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return _Told(url, None, "its answer makes no sense here: is it the same version?")
        return _Told(url, answer)

    async def _get(self, url: str, authorization: str | None) -> tuple[int, bytes]:
        """The status and the body of an answer. A body that is too long is cut."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=_MOST_CONNECTIONS)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=TIMEOUT),
                headers=_HEADERS,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # a short answer must not become a long one
            )
        headers = {} if authorization is None else {"Authorization": authorization}
        # A redirect would take the token to somebody else.
        where = URL(url, encoded=True)
        async with self._session.get(where, headers=headers, allow_redirects=False) as response:
            try:
                return response.status, await response.content.readexactly(MOST_BYTES + 1)
            except asyncio.IncompleteReadError as whole:
                return response.status, whole.partial


_STATUSES = {
    401: "it does not know this token",
    403: "this token may not read that there",
    404: "it has no live page: is it the same version?",
}


def _reason(error: Exception) -> str:
    """Why a request failed, for people. The texts of libraries are full of internals."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not trusted here"
        case aiohttp.ClientConnectorSSLError():
            return "it does not speak TLS"
        case aiohttp.ClientConnectorDNSError():
            return "its host is unknown"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int(number))):
            return f"it can't be reached: {os.strerror(number)}"
        case aiohttp.ClientConnectorError():
            return "it can't be reached"
        case ValueError():
            return "it can't be asked"
    return "the connection ended before the answer"


def _check(answer: _Local | Figures) -> None:
    """Raises `ValueError` if something is missing that its type can't require."""
    if len(answer.replicas) != 1 or not answer.replicas[0].replica:
        raise ValueError("this is not the answer of one replica")
    if isinstance(answer, Figures):
        points = asdict(answer.replicas[0].points)
        if len({len(values) for values in points.values()}) != 1:
            raise ValueError("the samples are not complete")


def _newer(points: Points, since: float) -> Points:
    first = bisect_right(points.time, since)
    return Points(**{field: values[first:] for field, values in asdict(points).items()})


def merged(histories: Iterable[list[Entry]]) -> list[Entry]:
    """What several replicas have seen of a name, newest first.

    A request that got no answer is repeated at another replica. Then both have seen the same grant. And where
    the ticket was first, it becomes silent, although the other replica has seen its end.
    """
    every = sorted((entry for each in histories for entry in each), key=lambda entry: entry.time)
    ended = {(each.fence, each.owner) for each in every if each.event in ("released", "lost")}
    granted: set[Any] = set()
    found: list[Entry] = []
    for entry in every:
        ticket = entry.fence, entry.owner
        if entry.event == "granted":
            if ticket in granted:
                continue
            granted.add(ticket)
        if entry.event != "silent" or ticket not in ended:
            found.append(entry)
    return found[: -MOST_ENTRIES - 1 : -1]
