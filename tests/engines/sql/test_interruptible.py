"""Interruptible waits: an interruption ends them, is not mistaken for input, and does nothing once closed."""

import socket
import threading

from fencelock.engines.sql.interruptible import InterruptibleWait


def test_an_interruption_ends_a_wait_for_a_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wait = InterruptibleWait(ours.fileno())
        assert not wait.wait(0)
        timer = threading.Timer(0.01, wait.interrupt)
        timer.start()
        assert not wait.wait(60)
        timer.join()
        assert not wait.wait(0), "it interrupts one wait only"
        theirs.send(b"input")
        wait.interrupt()
        assert wait.wait(60)
        wait.close()


def test_to_interrupt_never_blocks() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wait = InterruptibleWait(ours.fileno())
        assert not wait.wait(0)
        for _ in range(10_000):
            wait.interrupt()
        wait.close()
        wait.interrupt()
