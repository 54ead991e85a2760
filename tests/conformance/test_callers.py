"""The same caller twice, re-entry, hand-over to another caller, and what a fork does.

Here are the tests that third parties do not run: they need a second process.
"""

import pytest

from fencelock.testing.conformance.test_callers import *  # noqa: F403
from tests.child import Child
from tests.conformance.cells import Cell, lasting


async def test_a_client_works_in_a_forked_child_and_the_parents_lease_is_unharmed(
    cell: Cell,
) -> None:
    client = cell.client()
    if not client.traits.cross_process:
        pytest.skip("trait cross_process=False: a child process can't meet this engine")
    with Child(cell.face, cell.url) as parent:
        held = parent.call("acquire", name=cell.name, **lasting(client, 30))
        for _ in range(2):  # the second child is forked by a parent that has gone on working
            seen = parent.call("fork", name=cell.name)
            for refusal in seen.pop("lease"):
                assert "FencelockError" in refusal
                assert "can't be used in its child" in refusal
            if (cell.engine, cell.face) == ("etcd", "async"):
                # gRPC's asyncio side does not survive a fork: a clear error instead of a hang.
                assert "Unsupported" in seen["error"]
                assert "fork before the first use" in seen["error"]
            else:
                assert seen == {"held": True, "parent's": True}
            assert parent.call("check")["fence"] == held["fence"]
        assert parent.call("release")["fence"] == held["fence"]
