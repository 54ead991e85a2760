"""The bell: it wakes, it is not mistaken for something to read, and it rings nowhere once closed."""

import socket
import threading

from fencelock.engines.sql.bell import Bell


def test_it_wakes_one_who_waits_for_a_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        bell = Bell(ours.fileno())
        ringer = threading.Timer(0.01, bell.ring)
        ringer.start()
        assert not bell.wait(60)
        ringer.join()
        assert not bell.wait(0), "it has been heard"
        theirs.send(b"news")
        bell.ring()
        assert bell.wait(60)
        bell.close()


def test_it_never_blocks() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        bell = Bell(ours.fileno())
        for _ in range(10_000):
            bell.ring()
        bell.close()
        bell.ring()
