"""From a request to its principal; and how failures are slowed down."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from functools import lru_cache
from urllib.parse import urlsplit

from aiohttp import web

from fencelock.service.addresses import client_of, network_of, parse_address
from fencelock.service.principals import EVERYBODY, Principal
from fencelock.service.problems import Refused
from fencelock.service.settings import Settings
from fencelock.service.tokens import Credential, Keys

_REMEMBERED = 4096
"""The addresses with failed logins that are remembered at most: those that failed last."""
_FORGIVEN_AFTER = 60.0
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 0.8
"""Seconds. A client of ours waits for 2 s, and must still hear that its token is wrong."""


class Identity:
    """Knows the tokens and certificates. Without `keys`, everybody may do everything."""

    def __init__(self, keys: Keys | None, settings: Settings) -> None:
        self.keys = keys
        self.failures = Failures()
        self._hosts = frozenset(parse_address(each).host for each in settings.listen)
        self._insecure = settings.insecure

    def identify(self, request: web.Request) -> Principal:
        """Who asks. Raises `Refused`, always with the same words: they tell a stranger nothing."""
        address = client_of(request.transport and request.transport.get_extra_info("peername"))
        if self.keys is None:
            self._refuse_browsers(request)
            return Principal(EVERYBODY.name, EVERYBODY.rights, address)
        found = self._credential(request, self.keys)
        if found is None or found.expires <= time.time():
            raise Refused("unauthorized", "the token or certificate is missing, unknown or expired")
        return _principal(found, address)

    def _credential(self, request: web.Request, keys: Keys) -> Credential | None:
        header = request.headers.get("Authorization")
        if header is not None:
            scheme, _, token = header.partition(" ")
            return keys.of_token(token.strip()) if scheme.lower() == "bearer" else None
        if request.transport is None:
            return None
        certificate = request.transport.get_extra_info("peercert")
        return keys.of_certificate(certificate) if certificate else None

    def _refuse_browsers(self, request: web.Request) -> None:
        """Without tokens, a page on the web must not use the browser of this machine to break locks.

        A browser names the page's host as `Origin`. And the page may have given its own host our address:
        then that host is in `Host`.
        """
        origin, host = request.headers.get("Origin"), request.headers.get("Host", "")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refused("forbidden", "a page of another host may not use this service")
        if not self._insecure and not _is_address(host, self._hosts):
            raise Refused("forbidden", "without tokens, ask this service by its address")

    def again(self, principal: Principal) -> Principal | None:
        """The same principal after the tokens were read again. None if it may not ask any more."""
        if self.keys is None:
            return principal
        found = self.keys.still(principal.credential)
        if found is None or found.expires <= time.time():
            return None
        return _principal(found, principal.address)


@lru_cache(maxsize=100)
def _is_address(host: str, known: frozenset[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:  # for example, a bracket is missing
        return False
    if not name or name == "localhost" or name in known:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _principal(found: Credential, address: str) -> Principal:
    return Principal(found.name, found.rights, address, found.label, found.expires)


class Failures:
    """Counts failed logins, and says how long the answer to the next one should take.

    Only answers to failures are delayed. Someone who has a token behind the same address, for example
    behind the same load balancer, is not.
    """

    def __init__(self) -> None:
        self.count = 0
        """All failed logins."""
        self._recent: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def delay(self, address: str) -> float:
        """Note a failure of this address. Returns the seconds to wait before the answer."""
        self.count += 1
        now = time.monotonic()
        key = network_of(address)
        times, last = self._recent.pop(key, (0, -math.inf))
        times = times + 1 if now < last + _FORGIVEN_AFTER else 1
        self._recent[key] = times, now
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return min(_FIRST_DELAY * 2.0 ** min(times - 1, 10), _LONGEST_DELAY)
