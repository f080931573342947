"""How far a scrub has come, as a row."""

import pytest

from epoxy.codec.tuple import pack
from epoxy.store.memory import MemoryStore
from epoxy.store.scrub_rows import NEVER, ScrubProgress, ScrubSpace, decode, encode
from epoxy_sim.disk.rot import RottingStore

PROGRESS = ScrubProgress(after=b"\x00row\xff", rows=3, bytes=4 << 40, begun_ms=5, ended_ms=6, last_rows=7)


def test_it_is_found_again() -> None:
    space, store = ScrubSpace(1), MemoryStore()
    assert space.load(store.newest()) == NEVER
    store.remember(space.rows(PROGRESS))
    assert space.load(store.newest()) == PROGRESS
    assert ScrubSpace(2).load(store.newest()) == NEVER
    assert (PROGRESS.is_under_way, NEVER.is_under_way) == (True, False)


def test_a_rotten_one_is_as_good_as_none() -> None:
    space = ScrubSpace(1)
    store = RottingStore(MemoryStore(), set())
    store.remember(space.rows(PROGRESS))
    store.rot([space.row])
    assert space.load(store.newest()) == NEVER


@pytest.mark.parametrize("value", [b"", b"\x01", pack((2, b"", 1, 2, 3, 4, 5)), encode(PROGRESS)[:-1]], ids=repr)
def test_so_is_one_of_another_format(value: bytes) -> None:
    space, store = ScrubSpace(1), MemoryStore()
    store.remember({space.row: value})
    assert space.load(store.newest()) == NEVER


def test_encoding_is_exact() -> None:
    assert decode(encode(PROGRESS)) == PROGRESS
