"""What is made of the answers of nodes that don't agree."""

from typing import Any

import pytest

from fencelock.core.ticket import Owner
from fencelock.engines.redlock.inspection import inspection_of

OWNER = Owner("host", 1).pack().encode()


def node(fence: int) -> list[Any]:
    """A node that has the lock for the one ticket there is, under this fence."""
    return [fence, 0, 0, 1, 0, [], b"id", OWNER, 0, 1000]


@pytest.mark.parametrize(
    "fences",
    [
        (7, 7, 9),  # a node was past the fence that the others had agreed upon
        (9, 7, 7),
        (7, 7, 5),  # a node has missed the second phase
        (5, 7, 7),
        (7, 7),
    ],
)
def test_a_holders_fence_is_the_one_that_most_nodes_know(fences: tuple[int, ...]) -> None:
    seen = inspection_of("name", [node(fence) for fence in fences], enough=2, limit=0)
    assert [holder.fence for holder in seen.holders] == [7]
    assert seen.fence == max(fences)


def test_of_two_fences_that_as_many_nodes_know_the_higher_one_counts() -> None:
    """A bid that is not decided yet would settle on that."""
    seen = inspection_of("name", [node(5), node(7)], enough=2, limit=0)
    assert [holder.fence for holder in seen.holders] == [7]
