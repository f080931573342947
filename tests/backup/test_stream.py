"""What is in the blocks of a cut: keys with their records, marks, values, actors; and what is not."""

from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.backup.format import Kind, decode_block
from epoxy.backup.stream import BackupStream, Here
from epoxy.codec import wire
from epoxy.codec.home_records import encode, home_key, reservation_key
from epoxy.codec.tuple import pack
from epoxy.model.actors import RESERVATION_KEYS, ActorName, make_id
from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.homes import HomeRecord, datacenter_key, state_key
from epoxy.model.marks import OWNED
from epoxy.model.members import ActorRow
from epoxy.model.records import KeyState
from epoxy.model.transactions import OrderedValue
from epoxy.node.backup.gathering import ActorSpool
from epoxy.store.cut import ViewCut, at_once
from epoxy.store.keyspace import Keyspace
from epoxy.store.memory import MemoryStore
from epoxy.store.txn_rows import OrderedSpace
from tests.protocol.keys.harness import prop

ME = 1
HERE = Here(replica=ME, datacenters={1: "west", 2: "east", 3: "north"})


class Desk:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.keyspace = Keyspace(ME)
        self.spool = ActorSpool()

    def commit(self, key: bytes, value: bytes, *, mutable: bool = False) -> None:
        committed = KeyState(committed=prop(value, mutable=mutable))
        self.store.transact(lambda tx: self.keyspace.save(tx, key, KeyState(), committed))

    def value(self, key: bytes, value: bytes) -> None:
        self.store.transact(lambda tx: OrderedSpace(ME).set_held(tx, key, OrderedValue(value=value, version=1)))

    def stream(self, absent: tuple[int, ...] = ()) -> BackupStream:
        return BackupStream(HERE, ViewCut(self.store.view(), at_once), self.spool, absent)


def drained(stream: BackupStream) -> dict[Kind, list[Any]]:
    found: dict[Kind, list[Any]] = {}
    taken: list[bytes | None] = []
    while not taken or taken[-1] is not None:
        stream.next(taken.append, lambda error: pytest.fail(repr(error)))
    for data in taken[:-1]:
        assert data is not None
        block = decode_block(data)
        found.setdefault(block.kind, []).extend(block.records)
    return found


def test_keys_are_passed_on_as_they_are_stored_without_the_clusters_own() -> None:
    desk = Desk()
    for key in (b"b", b"a\x00", b"a", CONFIG_KEY):
        desk.commit(key, b"v-" + key)
    found = drained(desk.stream())
    assert [key for key, _ in found[Kind.KEYS]] == [b"a", b"a\x00", b"b"]
    assert wire.decode_committed_record(found[Kind.KEYS][2][1]).committed == prop(b"v-b")
    assert set(found) == {Kind.KEYS}


def test_a_value_whose_mark_is_not_learned_here_yet_gets_one() -> None:
    desk = Desk()
    for key in (b"a", b"c", b"m", b"z"):
        desk.value(key, b"7")
    desk.commit(b"b", b"plain")
    desk.commit(b"m", OWNED)
    desk.commit(b"z", b"as it was", mutable=True)
    name = OrderedValue(value=b"ada", version=2, immutable=True)
    desk.store.transact(lambda tx: OrderedSpace(ME).set_held(tx, b"name", name))
    found = drained(desk.stream())
    marked = {key: wire.decode_committed_record(record).committed.value for key, record in found[Kind.KEYS]}
    assert marked == {b"a": OWNED, b"b": b"plain", b"c": OWNED, b"m": OWNED, b"name": b"ada", b"z": OWNED}
    assert list(marked) == sorted(marked)
    held = {key: wire.decode_ordered_value(record) for key, record in found[Kind.VALUES]}
    seven = OrderedValue(value=b"7", version=1)
    assert held == {**dict.fromkeys((b"a", b"c", b"m", b"z"), seven), b"name": name}


def test_values_of_the_first_layout_get_a_record() -> None:
    desk = Desk()
    desk.store.put({pack((1, ME, 0, b"old", 0)): b"v"}, None)
    desk.commit(b"new", b"w")
    found = drained(desk.stream())
    records = {key: wire.decode_committed_record(record).committed for key, record in found[Kind.KEYS]}
    assert {key: (each.value, each.version) for key, each in records.items()} == {b"new": (b"w", 1), b"old": (b"v", 0)}


def test_actors_of_all_datacenters_in_their_order() -> None:
    desk = Desk()
    desk.store.put({pack((4, 0, b"x")): b"mine", pack((3, b"an envoy")): b"not this"}, None)
    desk.spool.add(3, (ActorRow(b"r1", b"1"),), begins=True)
    desk.spool.add(3, (ActorRow(b"r2", b"2"),), begins=False)
    desk.spool.add(2, (ActorRow(b"r0", b"0"),), begins=True)
    stream = desk.stream()
    assert drained(stream)[Kind.ACTORS] == [
        (b"east", b"r0", b"0"),
        (b"north", b"r1", b"1"),
        (b"north", b"r2", b"2"),
        (b"west", pack((4, 0, b"x")), b"mine"),
    ]
    stream.close()


def test_an_absent_datacenter_is_missing_only_if_it_owns_a_name() -> None:
    desk = Desk()
    desk.commit(RESERVATION_KEYS + pack(("ns", "room", "lobby")), make_id(1, 2, 3))
    stream = desk.stream(absent=(2, 3))
    assert len(drained(stream)[Kind.KEYS]) == 1
    assert stream.missing == ("north",)


def test_an_absent_datacenter_whose_names_were_all_taken_over_misses_nothing() -> None:
    desk = Desk()
    name = ActorName("ns", "room", "lobby")
    first = HomeRecord(actor_id=make_id(1, 2, 3), label=3, lease=bytes(16))
    desk.commit(reservation_key(name), encode(first))
    desk.commit(home_key(name), encode(replace(first, label=2, epoch=1)), mutable=True)
    desk.commit(state_key(first.actor_id), b"its state", mutable=True)
    desk.commit(datacenter_key(3), b"a lease", mutable=True)
    for absent, missing in (((3,), ()), ((2, 3), ("east",))):
        stream = desk.stream(absent=absent)
        kept = [key for key, _ in drained(stream)[Kind.KEYS]]
        assert kept == [reservation_key(name), home_key(name), state_key(first.actor_id)]
        assert stream.missing == missing


def test_blocks_hold_about_a_mebibyte_and_are_counted() -> None:
    desk = Desk()
    for number in range(30):
        desk.commit(b"%02d" % number, bytes(100_000))
    stream = desk.stream()
    assert len(drained(stream)[Kind.KEYS]) == 30
    assert stream.totals[Kind.KEYS].records == 30
    assert 3_000_000 < stream.totals[Kind.KEYS].bytes < 3_010_000
