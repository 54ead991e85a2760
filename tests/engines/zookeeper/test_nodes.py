"""Names become nodes and tickets stay in order, whatever the names and the counter."""

from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol.serialization import GetChildren, int_struct, write_string

from fencelock.core.ticket import Owner, Ticket
from fencelock.engines.zookeeper.nodes import (
    HolderRecord,
    TicketData,
    escaped,
    in_order,
    node_prefix,
    sequence,
    unescaped,
)
from fencelock.engines.zookeeper.requests import children

NAMES = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from("./% "), min_size=1)


@given(NAMES, NAMES)
def test_no_two_names_share_a_node(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)
    assert unescaped(escaped(one)) == one


@given(NAMES)
def test_nothing_in_a_node_is_special(name: str) -> None:
    node = escaped(name)
    assert node.isascii()
    assert "/" not in node
    assert node not in (".", "..", "")


@given(st.integers(-(2**31), 2**31 - 1), st.permutations(range(6)))
def test_the_order_survives_the_counter_wrapping_around(start: int, shuffled: list[int]) -> None:
    def node(number: int) -> str:
        wrapped = (start + number + 2**31) % 2**32 - 2**31
        return f"x.{number}.{wrapped:010d}"

    assert in_order(map(node, shuffled)) == [node(number) for number in range(6)]


def test_what_is_not_a_ticket_is_not_listed() -> None:
    nodes = ["x.ab.0000000002", "other", "x.ab", "y.ab.0000000001", "x.cd.0000000001"]
    assert in_order(nodes) == ["x.cd.0000000001", "x.ab.0000000002"]


@given(st.lists(NAMES | st.text("0123456789abcdef", min_size=120, max_size=140)))
def test_a_list_is_read_as_kazoo_reads_it(names: list[str]) -> None:
    written = [int_struct.pack(len(names)), *(write_string(name) for name in names)]
    answer = b"header" + b"".join(map(bytes, written))
    assert children("/").deserialize(answer, 6) == GetChildren.deserialize(answer, 6) == names


def test_a_node_does_not_show_the_id() -> None:
    ticket = Ticket("order:42", "5ecre7", 30.0, Owner("host", 1, "a label"))
    node = node_prefix(ticket) + "0000000007"
    assert "5ecre7" not in node
    assert sequence(node) == 7


def test_what_is_written_can_be_read() -> None:
    data = TicketData(1.5, Owner("host", 1, "a label"))
    assert TicketData.unpack(data.pack()) == data
    for record in (HolderRecord(7, True), HolderRecord(-3, False)):
        assert HolderRecord.unpack(record.pack()) == record
    assert HolderRecord.unpack(b"") == HolderRecord(None, False)
