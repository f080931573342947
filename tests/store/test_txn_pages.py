"""Values of the ordered engine in pages: whatever a newcomer holds, after a pass it holds what its source does."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec import wire
from epoxy.model.members import MAX_PAGE_BYTES, Pair, ValuesPage, ValuesRead
from epoxy.model.transactions import OrderedValue
from epoxy.protocol.members.mirror import differing_spans
from epoxy.store.memory import MemoryStore
from epoxy.store.txn_pages import ValueSpace
from epoxy.store.txn_rows import OrderedSpace

SOURCE, READER = 1, 2


def store_with(values: Mapping[bytes, bytes], replica_id: int) -> MemoryStore:
    store, space = MemoryStore(), OrderedSpace(replica_id)
    for key, value in values.items():
        store.transact(lambda tx, key=key, value=value: space.set_held(tx, key, OrderedValue(value=value, version=1)))  # type: ignore[misc]
    return store


def space_of(replica_id: int, stretch_rows: int = 2, page_rows: int = 4) -> ValueSpace:
    space = ValueSpace(replica_id)
    space.stretch_rows, space.page_rows, space.most_rows = stretch_rows, page_rows, 2 * page_rows
    return space


class Pass:
    """Page by page, as the flow does it."""

    def __init__(self, source: MemoryStore, reader: MemoryStore, *, epoch: int = 0, blind: bool = False) -> None:
        self.pages: list[ValuesPage] = []
        self.news = 0
        theirs, mine = space_of(SOURCE), space_of(READER)
        after: bytes | None = None
        while True:
            held = () if blind else mine.stretches(reader.newest(), after, 2 if not epoch else 4)
            page = theirs.page(source.newest(), ValuesRead(epoch=epoch, after=after, held=held))
            spans = differing_spans(after, held, page)
            self.news += len(reader.transact(lambda tx, s=spans, p=page: mine.replace(tx, s, p.pairs)))  # type: ignore[misc]
            self.pages.append(page)
            if page.through is None:
                return
            assert after is None or page.through > after, "it goes on"
            after = page.through


def held(store: MemoryStore, replica_id: int) -> dict[bytes, bytes]:
    return {pair.key: value_of(pair.value) for pair in ValueSpace(replica_id).held(store.newest(), None, None)}


def record_of(value: bytes) -> bytes:
    return wire.encode_ordered_value(OrderedValue(value=value, version=1))


def value_of(record: bytes) -> bytes:
    value = wire.decode_ordered_value(record).value
    assert value is not None
    return value


keys = st.binary(min_size=1, max_size=2)
contents = st.dictionaries(keys, st.sampled_from([b"", b"v", b"w"]), max_size=20)


@given(theirs=contents, mine=contents, epoch=st.sampled_from([0, 3]), blind=st.booleans())
def test_after_a_pass_both_hold_the_same(
    theirs: dict[bytes, bytes], mine: dict[bytes, bytes], epoch: int, blind: bool
) -> None:
    source, reader = store_with(theirs, SOURCE), store_with(mine, READER)
    first = Pass(source, reader, epoch=epoch, blind=blind)
    assert held(reader, READER) == held(source, SOURCE) == theirs
    changed = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    assert first.news == len(changed)
    again = Pass(source, reader, epoch=epoch)
    assert [page.pairs for page in again.pages] == [()] * len(again.pages), "what is the same does not travel"


def test_a_page_has_only_the_stretches_that_differ() -> None:
    values = {b"%d" % i: b"v" for i in range(8)}
    source, reader = store_with(values | {b"2": b"w", b"7": b"w"}, SOURCE), store_with(values, READER)
    (page,) = Pass(source, reader, epoch=3).pages
    assert page.differing == (1, 3)
    assert page.pairs == tuple(Pair(b"%d" % i, record_of(b"w" if i in (2, 7) else b"v")) for i in (2, 3, 6, 7))


def test_what_was_deleted_there_is_deleted_here() -> None:
    values = {b"%d" % i: b"v" for i in range(8)}
    reader = store_with(values, READER)
    run = Pass(MemoryStore(), reader)
    assert held(reader, READER) == {}
    assert run.news == 8


def test_a_page_ends_where_it_is_full_and_is_never_too_long() -> None:
    """Eight rows are its limit in a joint epoch; one that holds nothing has looked through one stretch, to the end."""
    source = store_with({b"%02d" % i: b"v" for i in range(19)}, SOURCE)
    pages = Pass(source, MemoryStore(), epoch=3).pages
    assert [len(page.pairs) for page in pages] == [8, 8, 3]
    assert [page.through for page in pages] == [b"07", b"15", None]
    between = {b"%02d" % i: b"old" for i in range(0, 19, 3)}
    sizes = [len(page.pairs) for page in Pass(source, store_with(between, READER), epoch=3).pages]
    assert sum(sizes) == 19
    assert max(sizes) <= 8


@pytest.mark.parametrize("epoch", [0, 3])
def test_large_values_make_short_pages(epoch: int) -> None:
    large = bytes(MAX_PAGE_BYTES // 2)
    source = store_with({b"a": large, b"b": large, b"c": large, b"d": b"v"}, SOURCE)
    reader = MemoryStore()
    assert [len(page.pairs) for page in Pass(source, reader, epoch=epoch, blind=True).pages] == [2, 2]
    assert Pass(source, reader, epoch=epoch).news == 0


def test_a_raw_value_and_a_record_of_it_are_the_same() -> None:
    """A newcomer holds the record where its source has the raw value of an earlier release."""
    source, reader = MemoryStore(contents={OrderedSpace(SOURCE).raw_row(b"k"): b"v"}), MemoryStore()
    assert Pass(source, reader).news == 1
    assert OrderedSpace(READER).held(reader.newest(), b"k") == OrderedValue(value=b"v")
    assert Pass(source, reader).news == 0
    raw = MemoryStore(contents={OrderedSpace(READER).raw_row(b"k"): b"v"})
    assert Pass(source, raw).news == 0


def test_other_rows_and_other_replicas_are_no_values() -> None:
    store = store_with({b"k": b"v"}, SOURCE)
    store.transact(lambda tx: OrderedSpace(READER).set_held(tx, b"k", OrderedValue(value=b"w", version=1)))
    assert held(store, SOURCE) == {b"k": b"v"}
    assert held(store, READER) == {b"k": b"w"}
