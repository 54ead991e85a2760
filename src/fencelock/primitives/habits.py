"""What people write who come from another library, and what it is called here.

A wrong name is an `AttributeError` or a `TypeError` in any case. Only then are these tables looked at, and
the message has the right name, too. Type checkers see nothing of this: for them no wrong name exists.
"""

from __future__ import annotations

from collections.abc import Mapping

_LEASE = "a lock holds nothing. `lease = lock.acquire()` returns the lease"
_RENEWED = "a lease is renewed in the background as long as it is held"

OF_LOCKS = {
    **dict.fromkeys(
        ("release", "unlock"), f"{_LEASE}: release that, with lease.release() or a `with` block"
    ),
    **dict.fromkeys(
        ("extend", "renew", "reacquire", "refresh"),
        f"{_LEASE}, and {_RENEWED}; lease.renew() does it now",
    ),
    **dict.fromkeys(
        ("owned", "is_owned", "is_acquired", "held"),
        f"{_LEASE}: `if lease:` says whether you hold it, lock.locked() whether anybody does",
    ),
    **dict.fromkeys(("is_locked", "is_held"), "lock.locked() says whether anybody holds it"),
    **dict.fromkeys(
        ("check", "fence", "id", "lost", "owner", "remaining", "state", "ttl"),
        f"{_LEASE}, which has it",
    ),
    **dict.fromkeys(("token", "get_owner_id"), f"{_LEASE}: lease.id is its secret"),
    **dict.fromkeys(
        ("contenders", "lease_holders", "get_lock_holder"),
        "client.inspect(name) says who holds and who waits",
    ),
    **dict.fromkeys(
        ("reset", "force_release", "force_unlock"),
        "client.break_lock(name) takes a lock from its holder",
    ),
    "lock": "lock.acquire() waits for it, lock.try_acquire() does not wait",
    "cancel": "lock.acquire(timeout=…) stops to wait by itself; in asyncio, cancel the task",
}

OF_LEASES = {
    **dict.fromkeys(("unlock", "close", "free"), "lease.release() gives the lock back"),
    **dict.fromkeys(
        ("extend", "reacquire", "refresh", "keep_alive"),
        f"{_RENEWED}; lease.renew() does it now, lease.renew(ttl=…) also changes its ttl",
    ),
    **dict.fromkeys(
        ("owned", "is_owned", "is_acquired", "is_held", "is_locked", "locked", "held", "valid"),
        "`if lease:` says whether it is held now, lease.check() raises LeaseLost if it is not",
    ),
    **dict.fromkeys(
        ("is_lost", "expired", "is_expired"), "`if lease.lost:` says whether it is lost"
    ),
    **dict.fromkeys(("token", "value"), "lease.id is its secret, lease.fence is for the storage"),
    **dict.fromkeys(("fencing_token", "sequencer", "epoch"), "lease.fence is for the storage"),
    **dict.fromkeys(("key", "resource"), "lease.name is what it protects"),
    **dict.fromkeys(
        ("get_ttl", "expires_in", "expires_at", "validity"),
        "lease.remaining() says how long it lives unless it is renewed",
    ),
    "acquire": "a lease is held already; lock.acquire() makes another one",
}

OF_RATES = {
    "release": "nobody releases a permit of a rate: it expires",
    **dict.fromkeys(("limit", "hit", "consume", "wait"), "rate.acquire() waits for a permit"),
    **dict.fromkeys(
        ("test", "allow", "try_hit"), "rate.try_acquire() takes a permit if one is free"
    ),
}

OF_CLIENTS = {
    **dict.fromkeys(
        ("Lock", "acquire", "create_lock", "get_lock", "mutex"),
        "client.lock(name) makes a lock, client.lock(name).acquire() holds it",
    ),
    **dict.fromkeys(("release", "unlock", "extend", "renew"), "this is a method of the lease"),
    **dict.fromkeys(("RLock", "rlock"), "client.lock(name, reentrant=True) may be entered again"),
    **dict.fromkeys(
        ("ReadLock", "WriteLock", "read_lock", "write_lock", "read_write_lock"),
        "client.rwlock(name).read() and .write() are locks",
    ),
    **dict.fromkeys(("Semaphore", "BoundedSemaphore"), "client.semaphore(name, permits)"),
    **dict.fromkeys(("Election", "leader_election"), "client.election(name)"),
    **dict.fromkeys(("rate_limit", "limiter", "throttle"), "client.rate(name, limit, per=60)"),
    **dict.fromkeys(("keys", "locks", "list"), "client.names(pattern) lists what is held"),
    **dict.fromkeys(("force_unlock", "force_release"), "client.break_lock(name)"),
    **dict.fromkeys(("multi_lock", "MultiLock", "lock_many"), "client.lock_all(names)"),
    **dict.fromkeys(("aclose", "disconnect", "shutdown", "stop"), "client.close()"),
}

OF_OPTIONS = {
    "blocking": "timeout=0 does not wait, and lock.try_acquire() returns None if it is not free",
    **dict.fromkeys(
        ("blocking_timeout", "acquire_timeout", "wait_timeout", "wait", "max_wait", "poll_timeout"),
        "timeout=… is how long to wait",
    ),
    **dict.fromkeys(
        (
            *("expire", "expiry", "ex", "px", "lease_time", "lease_duration", "lock_timeout"),
            *("lock_ttl", "expires", "expiration", "auto_release_time", "at_most_for"),
        ),
        "ttl=… is how long the lock stays taken if its holder dies",
    ),
    **dict.fromkeys(("auto_renewal", "auto_renew", "auto_extend", "keep_alive"), _RENEWED),
    **dict.fromkeys(
        ("sleep", "retry_interval", "retry_delay", "check_interval", "poll_interval"),
        "waiters don't poll: the engine wakes them",
    ),
    **dict.fromkeys(
        ("thread_local", "is_singleton"), "all state is in the lease, none in the lock"
    ),
    **dict.fromkeys(("identifier", "owner", "token", "id"), "label=… says in listings who you are"),
    **dict.fromkeys(("cancel", "ephemeral"), "it is not needed"),
}


def unknown(thing: object, name: str, habits: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that does not exist, with the one to use."""
    message = f"{type(thing).__name__!r} object has no attribute {name!r}"
    if name in habits:
        return AttributeError(f"{message}: {habits[name]}")
    return AttributeError(message, name=name, obj=thing)  # Python may know a similar one


def in_our_words(option: str) -> str:
    """What stands in a message before the options that there are."""
    return f"{OF_OPTIONS[option]}; " if option in OF_OPTIONS else ""
