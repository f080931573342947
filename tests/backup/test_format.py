"""Blocks: what goes in comes out, in order, and nothing else is accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.backup.format import (
    BLOCK_BYTES,
    COLUMNS,
    Block,
    BlockOrder,
    Kind,
    blocks,
    check_block,
    decode_block,
    encode_block,
    is_carried,
)
from epoxy.model.access import ACCESS_KEY, USAGE_KEYS
from epoxy.model.actors import RESERVATION_KEYS
from epoxy.model.cluster import CHANGE_REQUEST_KEY, CONFIG_KEY
from epoxy.model.errors import BackupError
from epoxy.model.homes import HOME_KEYS, STATE_KEYS, datacenter_key
from epoxy.model.instances import end_key
from epoxy.model.sessions import session_key

CONTENT = (Kind.KEYS, Kind.VALUES, Kind.ACTORS)


def records_of(kind: Kind) -> st.SearchStrategy[list[tuple[bytes, ...]]]:
    return st.lists(st.tuples(*[st.binary(max_size=40)] * COLUMNS[kind]), min_size=1, max_size=20)


@given(st.sampled_from(CONTENT).flatmap(lambda kind: st.tuples(st.just(kind), records_of(kind))))
def test_a_block_holds_its_records(given: tuple[Kind, list[tuple[bytes, ...]]]) -> None:
    kind, records = given
    block = encode_block(kind, records)
    assert decode_block(block) == Block(kind, records, sum(len(field) for record in records for field in record))
    assert check_block(block) == (kind, len(records))


def test_every_changed_or_missing_byte_of_a_block_is_found() -> None:
    block = encode_block(Kind.ACTORS, [(b"eu", b"row 1", b"x"), (b"eu", b"row 2", b"")])
    for place in range(len(block)):
        with pytest.raises(BackupError):
            decode_block(block[:place])
        with pytest.raises(BackupError):
            decode_block(block[:place] + bytes([block[place] ^ 1]) + block[place + 1 :])
    with pytest.raises(BackupError):
        decode_block(block + b"\x00")


@given(st.integers(0, 30_000), st.integers(1, 30_000))
def test_long_records_make_more_blocks(short: int, long: int) -> None:
    records = [(b"%08d" % number, bytes(size)) for number, size in enumerate([short, long] * 30)]
    made = [decode_block(block) for block in blocks(Kind.KEYS, records)]
    assert [record for block in made for record in block.records] == records
    assert all(block.size < BLOCK_BYTES + 8 + max(short, long) for block in made)
    assert all(block.size >= BLOCK_BYTES for block in made[:-1])


def test_no_records_make_no_block() -> None:
    assert list(blocks(Kind.VALUES, [])) == []


def taken(*given: tuple[Kind, list[bytes]]) -> BlockOrder:
    order = BlockOrder()
    for kind, names in given:
        fields = [(b"eu", name, b"v") if kind is Kind.ACTORS else (name, b"v") for name in names]
        order.take(decode_block(encode_block(kind, fields)))
    return order


def test_kinds_and_records_come_in_order_and_are_counted() -> None:
    order = taken((Kind.KEYS, [b"a", b"b"]), (Kind.KEYS, [b"c"]), (Kind.VALUES, [b"a"]), (Kind.ACTORS, [b"a"]))
    end = order.end(("us",), "d1")
    assert [(total.records, total.bytes) for total in (end.keys, end.values, end.actors)] == [(3, 6), (1, 2), (1, 4)]
    assert (end.missing, end.digest) == (("us",), "d1")


@pytest.mark.parametrize(
    "given",
    [
        [(Kind.KEYS, [b"b", b"a"])],
        [(Kind.KEYS, [b"a", b"a"])],
        [(Kind.KEYS, [b"b"]), (Kind.KEYS, [b"a"])],
        [(Kind.KEYS, [b"a"]), (Kind.KEYS, [b"a"])],
        [(Kind.VALUES, [b"a"]), (Kind.KEYS, [b"b"])],
        [(Kind.ACTORS, [b"a"]), (Kind.VALUES, [b"b"])],
    ],
)
def test_another_order_is_refused(given: list[tuple[Kind, list[bytes]]]) -> None:
    with pytest.raises(BackupError, match=r"in order|after one of"):
        taken(*given)


@pytest.mark.parametrize("kind", [Kind.HEADER, Kind.END])
def test_a_second_header_or_an_early_end_is_no_content(kind: Kind) -> None:
    with pytest.raises(BackupError, match="a block of"):
        BlockOrder().take(decode_block(encode_block(kind, [(b"{}",)])))


def test_of_the_clusters_own_keys_those_of_actors_and_sessions_are_carried() -> None:
    assert is_carried(b"a")
    assert is_carried(b"\xfe\xff")
    assert all(is_carried(each + b"x") for each in (RESERVATION_KEYS, HOME_KEYS, STATE_KEYS))
    assert not is_carried(datacenter_key(1)), "its lease"
    assert is_carried(session_key(bytes(16)))
    assert not any(map(is_carried, (CONFIG_KEY, CHANGE_REQUEST_KEY, end_key(0), ACCESS_KEY, USAGE_KEYS + b"1")))
