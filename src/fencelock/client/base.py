"""What both clients share: from a URL to an engine, and from options to locks."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from fencelock.client.options import ClientOptions, KnowsOptions, RateOptions
from fencelock.core.durations import Duration, check_per, check_positive
from fencelock.core.errors import FencelockError, UnsafeEngine, Unsupported
from fencelock.core.names import check_name, check_namespace, full_name
from fencelock.core.ticket import ALONE, Owner, Share
from fencelock.core.url import Credentials, Url
from fencelock.engines.contract import NO_RATES, NO_SHARING, UNSAFE, Engine, Guarantee, Traits
from fencelock.engines.registry import opener_of
from fencelock.io.contract import IO
from fencelock.observe.audience import Audience
from fencelock.observe.observer import Observer
from fencelock.primitives.context import Context
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.lock import BaseLock
from fencelock.primitives.options import UNGUARDED, LockOptions
from fencelock.primitives.rwlock import ReadWriteLock

if TYPE_CHECKING:
    from fencelock.engines.routing import Routes
    from fencelock.primitives.rate import BaseRate

K = TypeVar("K", bound=BaseLock[Any])
R = TypeVar("R", bound="BaseRate")


def default_url() -> str:
    """`FENCELOCK_URL`, or a file in the user's state folder: one per user and machine."""
    url = os.environ.get("FENCELOCK_URL")
    if url:
        return url
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"sqlite:///{os.path.join(state, 'fencelock', 'locks.db')}"


class BaseClient:
    """What both clients share. The helpers take the class of the lock that they make."""

    _new_io: Callable[[], IO]

    def __init__(
        self,
        url: str | Url | Routes | None = None,
        *,
        ttl: Duration | None = None,
        label: str = "",
        purpose: Guarantee = "efficiency",
        observers: Iterable[Observer] = (),
        warn_after: Duration | None = None,
        diagnose: bool = False,
        namespace: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        owner = _owner(label)
        url = default_url() if url is None else url
        if isinstance(url, str):
            url = Url.parse(url)
        if credentials is not None:
            url = _with_credentials(url, credentials)
        self._namespace = _namespace_of(url, namespace)
        self._full = partial(full_name, self._namespace) if self._namespace else check_name
        opener = self._opener(url)
        self._audience = Audience(observers)
        self._diagnosed = diagnose
        self._contexts = Contexts(
            partial(_new_context, opener, self._new_io, self._audience, diagnose)
        )
        self._check_ttl = self.traits.check_ttl
        self._defaults = LockOptions(
            owner,
            None if ttl is None else self._check_ttl(ttl),
            warn_after=_checked_warn_after(warn_after),
        )
        """The options of a lock for which the caller gives none."""
        self._allow(purpose)
        self._purpose = purpose
        if purpose == "correctness":
            self._defaults = self._defaults._replace(guard=UNGUARDED)

    @classmethod
    def from_redis(cls, client: Any, **options: Unpack[ClientOptions]) -> Self:
        """A client for the server of a redis-py client, plain or asyncio, also of a `Sentinel` or a Cluster.

        It takes over the address, user and password or credential provider, and TLS. It opens connections of
        its own. The options are those of the class."""
        from fencelock.client.brought import url_of_redis  # few programs need it

        return cls(url_of_redis(client), **options)

    @classmethod
    def from_psycopg(cls, connection: Any, **options: Unpack[ClientOptions]) -> Self:
        """A client for the database of a psycopg connection, as `from_redis`."""
        from fencelock.client.brought import url_of_psycopg

        return cls(url_of_psycopg(connection), **options)

    @classmethod
    def from_sqlalchemy(cls, engine: Any, **options: Unpack[ClientOptions]) -> Self:
        """A client for the database of an engine of SQLAlchemy, as `from_redis`. For SQLite it keeps its
        locks in a file beside the database."""
        from fencelock.client.brought import url_of_sqlalchemy

        return cls(url_of_sqlalchemy(engine), **options)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            from fencelock.primitives.habits import OF_CLIENTS, unknown  # only mistakes need it

            raise unknown(self, name, OF_CLIENTS)

    def _opener(self, url: Url | Routes) -> Callable[[IO], Engine]:
        """What opens the engine of this client, once for each context."""
        return _opener_of(url, self.namespace)

    @property
    def traits(self) -> Traits:
        """What the engine behind this client can and can't promise."""
        return self._contexts.traits

    @property
    def namespace(self) -> str | None:
        """What all names of this client begin with, before a '/'. None: they are as given."""
        return self._namespace

    @property
    def _context(self) -> Context:
        """What this client has in this process and event loop."""
        return self._contexts.here()

    def release_on_sigterm(self) -> None:
        """Let SIGTERM end this program in order: `with` blocks end, and all that is held is released.

        By default SIGTERM ends a program at once, and its locks become free only when their ttl has passed.
        After this call it raises `SystemExit(143)` in the main thread. With `asyncio.run` that cancels all
        tasks. It concerns the whole program, with all its clients.

        If the program has its own handler of SIGTERM, or ignores it, nothing changes: that handler decides
        when the program ends. A handler that the program sets later replaces this one. Call it in the main
        thread; a second call does nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            raise FencelockError(
                "release_on_sigterm() can only be called in the main thread, because Python sets signal "
                "handlers only there: call it where the program starts"
            )
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _end_program)
            # Runs before all that is held is released: another SIGTERM must not cut that short.
            atexit.register(_ignore_sigterm)

    def _allow(self, purpose: Guarantee) -> None:
        if purpose not in ("efficiency", "correctness"):
            raise ValueError(f"purpose must be 'efficiency' or 'correctness', not {purpose!r}")
        if purpose == "correctness":
            weaker = self.traits.guarantee != "correctness"
            if weaker and not self.traits.provisional:
                raise UnsafeEngine(UNSAFE)
            if weaker or self._diagnosed:  # only the servers can tell
                self._contexts.require(purpose)

    def _options(self, known: KnowsOptions, given: Mapping[str, Any]) -> LockOptions:
        """What the caller gave, checked, and this client's defaults for everything else.

        `known` declares the options that may be given. A program without a type checker needs this check.
        """
        names = known.__optional_keys__
        if not given:
            default = self._defaults
            # What has no such option needs none: a permit or an office protects no data.
            return (
                default._replace(guard=None) if default.guard and "guard" not in names else default
            )
        if not given.keys() <= names:
            from fencelock.primitives.habits import in_our_words  # only mistakes need it

            wrong = min(given.keys() - names)
            raise TypeError(
                f"there is no option {wrong!r} here: {in_our_words(wrong)}the options are "
                f"{', '.join(sorted(names))}"
            )
        take = given.get
        purpose = take("purpose")
        if purpose is None:
            purpose = self._purpose
        else:
            self._allow(purpose)
        label, ttl, default = take("label"), take("ttl"), self._defaults
        warn_after, max_hold = take("warn_after"), take("max_hold")
        return LockOptions(
            default.owner if label is None else _owner(label),
            default.ttl if ttl is None else self._check_ttl(ttl),
            take("timeout"),
            take("reentrant", False),
            take("on_lost"),
            take("guard", UNGUARDED if purpose == "correctness" and "guard" in names else None),
            self._checked_renew(given["renew"]) if "renew" in given else True,
            None if max_hold is None else check_positive("max_hold", max_hold),
            default.warn_after if warn_after is None else _checked_warn_after(warn_after),
        )

    def _checked_renew(self, renew: bool) -> bool:
        if type(renew) is not bool:
            raise TypeError(f"renew must be True or False, not {renew!r}")
        if not (renew or self.traits.leases_expire):
            raise Unsupported(
                "locks of this engine last as long as their connection, so there is no ttl that could be "
                "left to run out: use max_hold=…, or postgresql:// or mysql://, whose leases expire"
            )
        return renew

    def _rwlock(self, kind: type[K], name: str, writing: LockOptions) -> ReadWriteLock[K]:
        self._require_sharing()
        # Readers don't write, and they may come to the storage in another order than their fences.
        reading = writing if writing.guard is None else writing._replace(guard=None)

        def make(share: Share) -> K:
            return kind(
                self._contexts, self._full(name), reading if share.group else writing, share
            )

        return ReadWriteLock(make(ALONE).name, make)

    def _semaphore(
        self, kind: type[K], name: str, permits: int, weight: int, options: LockOptions
    ) -> K:
        self._require_sharing()
        _check_numbers("permits", permits, weight)
        return kind(self._contexts, self._full(name), options, Share.of(permits, weight))

    def _rate(self, kind: type[R], name: str, limit: int, per: Duration, given: RateOptions) -> R:
        if not self.traits.supports_rates:
            raise Unsupported(NO_RATES)
        weight = given.get("weight", 1)
        _check_numbers("limit", limit, weight)
        share = Share.rate(limit, check_per(per), weight)
        options = self._options(RateOptions, given)
        return kind(self._contexts, self._full(name), share, options)

    def _each(self, kind: type[K], names: Iterable[str], options: LockOptions) -> dict[str, K]:
        if isinstance(names, str):
            raise TypeError("lock_all takes several names: for one there is lock()")
        given = list(names)
        locks = {name: kind(self._contexts, self._full(name), options) for name in given}
        if not locks:
            raise ValueError("lock_all needs at least one name")
        if len({lock.name for lock in locks.values()}) < len(given):
            raise ValueError("lock_all needs each name once: nobody can hold a lock twice")
        return locks

    def _for_leader(self, known: KnowsOptions, given: Mapping[str, Any]) -> LockOptions:
        """The options of an election's lock. A leader holds it for long: only its own `warn_after` counts."""
        made = self._options(known, given)
        return made if given.get("warn_after") else made._replace(warn_after=None)

    def _with_data(self, kind: type[K], options: LockOptions) -> Callable[[str, str], K]:
        """Makes a lock from its name and the data that its tickets carry."""
        return lambda name, data: kind(self._contexts, self._full(name), options, ALONE, data)

    def _require_sharing(self) -> None:
        if not self.traits.supports_sharing:
            raise Unsupported(NO_SHARING)


def _check_numbers(what: str, permits: int, weight: int) -> None:
    for what_is, number in ((what, permits), ("weight", weight)):
        if type(number) is not int or not 0 < number < 2**31:
            raise ValueError(f"{what_is} must be a whole number, one or more, not {number!r}")
    if weight > permits:
        raise ValueError(f"weight is {weight}, but there are only {permits} permits")


def _end_program(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _ignore_sigterm() -> None:
    if signal.getsignal(signal.SIGTERM) is _end_program:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _with_credentials(url: Url | Routes, credentials: Credentials) -> Url:
    if not isinstance(url, Url):
        raise ValueError("credentials are for one engine, not for a table of routes")
    if not (callable(credentials) or hasattr(credentials, "get_credentials")):
        raise TypeError(
            "credentials must be a function, or an object with get_credentials() as redis-py has them"
        )
    return url._replace(credentials=credentials)


def _namespace_of(url: Url | Routes, given: str | None) -> str | None:
    """The namespace that was given, or else that of the URL."""
    own = url.namespace if isinstance(url, Url) else None
    found = own if given is None else given
    if own not in (None, found):
        raise ValueError(f"the client's namespace is {given!r}, but that in its URL is {own!r}")
    return None if found is None else check_namespace(found)


def _opener_of(url: Url | Routes, namespace: str | None) -> Callable[[IO], Engine]:
    if isinstance(url, Url):
        return opener_of(url)
    from fencelock.engines.routing import routed_opener_of  # few programs need it

    return routed_opener_of(url, namespace)


def _new_context(
    opener: Callable[[IO], Engine], new_io: Callable[[], IO], audience: Audience, diagnose: bool
) -> Context:
    io = new_io()
    engine = opener(io)
    if diagnose:
        from fencelock.doctor.gate import examine_first  # few programs need it

        for part in engine.parts():
            examine_first(part, io)
    return Context(engine, io, audience)


def _checked_warn_after(given: Duration | None) -> float | None:
    return None if given is None else check_positive("warn_after", given)


def _owner(label: str) -> Owner:
    if not isinstance(label, str):
        raise TypeError(f"a label must be a str, not {type(label).__name__}")
    if not label.isprintable() or len(label) > 200:
        raise ValueError("a label must be at most 200 printable characters")
    return Owner(os.uname().nodename.replace(" ", "-") or "localhost", os.getpid(), label)
