"""Expiry by observation."""

from fencelock.core.observed_expiry import ObservedTickets


def test_a_ticket_expires_a_ttl_after_it_was_first_seen_unchanged() -> None:
    observed = ObservedTickets()
    assert observed.left("a", 1, ttl=10, now=100) >= 10
    assert 0 < observed.left("a", 1, ttl=10, now=109) < 1.1
    assert observed.left("a", 1, ttl=10, now=110.1) <= 0


def test_a_change_starts_anew() -> None:
    observed = ObservedTickets()
    observed.left("a", 1, ttl=10, now=100)
    assert observed.left("a", 2, ttl=10, now=109) >= 10
    assert observed.left("b", 1, ttl=10, now=111) >= 10


def test_a_forgotten_ticket_is_seen_for_the_first_time_again() -> None:
    observed = ObservedTickets()
    observed.left("a", 1, ttl=10, now=100)
    observed.forget("a")
    observed.forget("never seen")
    assert observed.left("a", 1, ttl=10, now=111) >= 10


def test_it_counts_from_when_it_is_known_to_be_unchanged() -> None:
    observed = ObservedTickets()
    assert 0 < observed.left("a", 1, ttl=10, now=109, since=100) < 1.1
    assert observed.left("a", 1, ttl=10, now=111, since=110) <= 0
    assert 8 < observed.left("a", 2, ttl=10, now=112, since=111) < 9.1
