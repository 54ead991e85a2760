"""Expiry by observation."""

from fencelock.core.sightings import Sightings


def test_a_ticket_expires_a_ttl_after_it_was_first_seen_unchanged() -> None:
    sightings = Sightings()
    assert sightings.left("a", 1, ttl=10, now=100) >= 10
    assert 0 < sightings.left("a", 1, ttl=10, now=109) < 1.1
    assert sightings.left("a", 1, ttl=10, now=110.1) <= 0


def test_a_change_starts_anew() -> None:
    sightings = Sightings()
    sightings.left("a", 1, ttl=10, now=100)
    assert sightings.left("a", 2, ttl=10, now=109) >= 10
    assert sightings.left("b", 1, ttl=10, now=111) >= 10


def test_who_was_forgotten_is_seen_for_the_first_time_again() -> None:
    sightings = Sightings()
    sightings.left("a", 1, ttl=10, now=100)
    sightings.forget("a")
    sightings.forget("never seen")
    assert sightings.left("a", 1, ttl=10, now=111) >= 10


def test_it_counts_from_when_it_is_known_to_be_unchanged() -> None:
    sightings = Sightings()
    assert 0 < sightings.left("a", 1, ttl=10, now=109, since=100) < 1.1
    assert sightings.left("a", 1, ttl=10, now=111, since=110) <= 0
    assert 8 < sightings.left("a", 2, ttl=10, now=112, since=111) < 9.1
