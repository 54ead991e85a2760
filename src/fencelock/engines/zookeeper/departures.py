"""How a queue is left: by oneself, by one that was to be admitted at once, and by force."""

from __future__ import annotations

from typing import Any

from fencelock.core.ticket import Departure, Place, Standing
from fencelock.engines.zookeeper import requests as ask
from fencelock.engines.zookeeper.admission import Line
from fencelock.engines.zookeeper.advice import rejection
from fencelock.engines.zookeeper.nodes import Mark, sequence
from fencelock.engines.zookeeper.own import Own
from fencelock.engines.zookeeper.queue import GONE, Queues, value
from fencelock.engines.zookeeper.removals import parting, removal

_TICKET = -2
"""Where it is taken out, in the transactions with which one leaves."""


async def leave(queues: Queues, own: Own, departure: Departure, until: float) -> bool:
    """Take a ticket out; False if it was not there.

    One that holds without knowing it comes to know it first, because of what it has to write down then.
    """
    unknown = own.turning or (not own.holds and (own.short or not own.blockers))
    if unknown and await queues.look(own, until, listen=False) == GONE:
        return False
    while True:
        if own.share.group and (own.holds or own.short):
            request = removal(own.parent, own.node, own.turn)
        elif own.holds:
            abandoned = departure.abandoned(own.abandoned)
            request = parting(queues.root, own, abandoned, queues.acl, aloud=queues.aloud)
        else:
            request = ask.withdraw(own.path, own.paths[-1])
        (left,) = await queues.ask(until, request)
        if _is_out(left) or ask.gone(left) or ask.missing(left, _TICKET):
            return _is_out(left)
        if own.holds and queues.aloud and ask.forbidden(left, _TICKET):
            queues.aloud = False  # the next one finds out by itself
            continue
        if own.holds:
            raise rejection(left)
        # The one ahead is gone: perhaps this is the holder by now.
        if await queues.look(own, until, listen=False) == GONE:
            return False


async def refuse(queues: Queues, own: Own, until: float) -> Standing:
    """Take out a ticket that was to be admitted at once or not at all, unless it is by now.

    GONE: it was taken out, but so was one ahead that has expired: worth another attempt.
    """
    while True:
        if not own.blockers:  # it was evicted at once
            return GONE
        seen, left = await queues.ask(
            until, ask.get(own.paths[-1]), ask.withdraw(own.path, own.paths[-1])
        )
        if ask.done(left):
            return await _refused(queues, own, seen, until)
        if ask.missing(left):
            return GONE
        standing = await queues.look(own, until, listen=False)
        if standing.place is not Place.WAITING:
            return standing


async def _refused(queues: Queues, own: Own, seen: Any, until: float) -> Standing:
    """Whether the one that was in the way has expired."""
    if ask.gone(seen):
        return Standing(Place.REFUSED)
    node = own.blockers[-1]
    queues.watches.saw(own, node, value(seen))
    if node not in queues.watches.expired(own):
        return Standing(Place.REFUSED)
    line = Line.of(value((await queues.ask(until, ask.children(own.parent)))[0]))
    if node in line.nodes:
        await queues.expire(own.parent, line, node, seen[1].version, until)
    return GONE


async def evict(queues: Queues, name: str, until: float) -> bool:
    """Take out all who hold, whoever they are."""
    parent = queues.path_of(name)
    while True:
        sync, children, get = ask.sync(parent), ask.children(parent), ask.get(parent)
        _, listing, container = await queues.ask(until, sync, children, get)
        line = Line.of([] if ask.gone(listing) else value(listing))
        holders = line.holders()
        if not holders:
            return False
        if line.share(holders[0]).group:
            removals = [removal(parent, node, line.turn_of(node)) for node in holders]
            note = _noted_for(parent, value(container))
        else:
            mark = Mark(sequence(holders[0]), abandoned=True)
            removals = [ask.depart(f"{parent}/{holders[0]}", parent, mark.pack())]
            note = []
        replies = (await queues.ask(until, *note, *removals))[len(note) :]
        if any(map(_is_out, replies)):
            return True
        for reply in replies:
            if not ask.gone(reply) and not ask.missing(reply):
                raise rejection(reply)


def _noted_for(parent: str, container: Any) -> list[Any]:
    """What the first of those who share would write down, if it does not know yet that it holds."""
    data, stat = container
    mark = Mark.unpack(data)
    if mark.state == "shared":
        return []
    noted = Mark(None, mark.abandoned or mark.state == "held", "shared")
    return [ask.touch(parent, noted.pack(), stat.version)]


def _is_out(reply: Any) -> bool:
    """Whether a ticket was taken out, alone or together with something else."""
    return reply is True or ask.done(reply)
