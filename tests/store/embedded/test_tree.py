"""The tree: keys of every length, in order, in both directions."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import Any

import lmdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epoxy.model.errors import RottenRow, StoreFailed, StoreRefused
from epoxy.store.embedded.checksums import ROTTEN, seal
from epoxy.store.embedded.files import READ_AHEAD_BYTES, SystemFiles, TreeTransaction
from epoxy.store.embedded.log import LogPosition
from epoxy.store.embedded.tree import (
    POSITION_ROW,
    SAMPLED,
    SORTED_ROWS,
    STEM_BYTES,
    DamageReports,
    Tree,
    TreeView,
    clear,
    encoder,
    in_order,
    put,
    sorted_out,
)
from epoxy.store.limits import MAX_ROW_KEY_BYTES
from tests.store.rot import rot

LAST = b"\xff"
START = LogPosition()

# Runs that end around every place where a key is cut: the 511th byte, and every 501 bytes from there on.
RUNS = st.sampled_from([1, 2, 498, 499, 500, 501, 502, 509, 510, 511, 512, 513, 1010, 1012, 1013, 1014, 1512, 1513])
PIECES = st.tuples(st.sampled_from([b"\x00", b"a", b"b", b"\xfe"]), RUNS).map(lambda piece: piece[0] * piece[1])
KEYS = st.lists(PIECES, min_size=1, max_size=3).map(lambda pieces: b"".join(pieces)[:MAX_ROW_KEY_BYTES])
EFFECTS = st.dictionaries(KEYS, st.none() | st.binary(max_size=3), max_size=12)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    yield tree
    tree.close()


def environment_of(tree: Tree) -> lmdb.Environment:
    environment = tree._environment
    assert isinstance(environment, lmdb.Environment)
    return environment


def rows_in(tree: Tree) -> int:
    """All of LMDB's rows, stems and our own notes too."""
    return int(environment_of(tree).stat()["entries"])


def wipe(tree: Tree) -> None:
    tree.apply(dict.fromkeys(key for key, _ in tree.view().rows(b"", LAST, False)), START)


@given(st.lists(EFFECTS, max_size=4), KEYS, KEYS | st.just(LAST))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_tree_is_a_sorted_dict(
    tree: Tree, commits: list[dict[bytes, bytes | None]], begin: bytes, end: bytes
) -> None:
    wipe(tree)
    model: dict[bytes, bytes] = {}
    for commit in commits:
        tree.apply(commit, START)
        model.update({key: value for key, value in commit.items() if value is not None})
        for key in [key for key, value in commit.items() if value is None]:
            model.pop(key, None)
    view = tree.view()
    everything = sorted(model.items())
    assert list(view.rows(b"", LAST, False)) == everything
    assert list(view.rows(b"", LAST, True)) == everything[::-1]
    inside = [row for row in everything if begin <= row[0] < end]
    assert list(view.rows(begin, end, False)) == inside
    assert list(view.rows(begin, end, True)) == inside[::-1]
    for key in {begin, end, *model, *(key for commit in commits for key in commit)}:
        assert view.get(key) == model.get(key)
        cut = [row for row in everything if row[0] >= key]
        assert list(view.rows(key, LAST, False)) == cut
        assert list(view.rows(b"", key, True)) == [row for row in everything if row[0] < key][::-1]


def test_nothing_is_left_of_long_keys_that_are_cleared(tree: Tree) -> None:
    keys = [b"k" * length + tail for length in (510, 511, 1011, 1012, 2000) for tail in (b"", b"x", b"y" * 40)]
    tree.apply(dict.fromkeys(keys, b"v"), START)
    assert rows_in(tree) > len(keys)
    tree.apply(dict.fromkeys(keys[1:]), START)
    assert list(tree.view().rows(b"", LAST, False)) == [(keys[0], b"v")]
    tree.apply({keys[0]: None, b"never" * 300: None}, START)
    assert rows_in(tree) == 3, "the position, the length of the file, and the number of the last branch"


def test_a_view_stays_as_it_was(tree: Tree) -> None:
    tree.apply({b"a": b"1"}, START)
    before = tree.view()
    tree.apply({b"a": b"2", b"b": b"2"}, START)
    assert list(before.rows(b"", LAST, False)) == [(b"a", b"1")]
    assert list(tree.view().rows(b"", LAST, False)) == [(b"a", b"2"), (b"b", b"2")]


def test_rows_of_the_store_itself_are_in_no_range(tree: Tree) -> None:
    tree.apply({b"a": b"v", b"k" * 600: b"v"}, START)
    for reverse in (False, True):
        assert len(list(tree.view().rows(b"", LAST * 3, reverse))) == 2
        assert list(tree.view().rows(LAST, LAST * 3, reverse)) == []


def test_the_position_comes_with_the_rows(tree: Tree, tmp_path: Path) -> None:
    assert tree.position() is None
    reached = LogPosition(generation=3, frame=14, sequence=15)
    tree.apply({b"a": b"v"}, reached)
    tree.close()
    again = Tree(tmp_path)
    assert again.position() == reached
    assert again.view().get(b"a") == b"v"
    again.close()


def test_views_that_are_dropped_hold_nothing(tree: Tree) -> None:
    """LMDB has room for 126 readers, and keeps every page that one of them may look at."""
    for number in range(300):
        tree.apply({b"a": b"%d" % number, b"b" * 600: b"v"}, START)
        view = tree.view()
        assert view.get(b"a") == b"%d" % number
        next(view.rows(b"", LAST, True))
    assert len(environment_of(tree).readers().splitlines()) <= 4
    assert environment_of(tree).info()["last_pgno"] < 50


def test_a_position_that_cannot_be_read_is_refused(tree: Tree) -> None:
    with tree._environment.begin(write=True) as transaction:
        put(transaction, POSITION_ROW, b"somewhere")
    with pytest.raises(StoreRefused, match="the tree's position cannot be read"):
        tree.position()


def test_a_damaged_position_is_refused(tree: Tree, tmp_path: Path) -> None:
    tree.apply({}, LogPosition(generation=9, frame=77))
    rot(tmp_path, encoder.encode(LogPosition(generation=9, frame=77)))
    with pytest.raises(StoreRefused, match="the tree's position cannot be read"):
        tree.position()


def test_a_file_that_was_cut_short_has_failed(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    length = 0
    for _ in range(6):
        length = (tmp_path / "data.mdb").stat().st_size
        tree.apply({b"%04d" % number: bytes(1000) for number in range(500)}, START)
    tree.close()
    os.truncate(tmp_path / "data.mdb", length - 4096)
    again = Tree(tmp_path)
    try:
        cut = again.position
        with pytest.raises(StoreFailed, match=r"bytes, but it had .*: the file was cut short"):
            cut()
    finally:
        again.close()


LONG_STEM = b"s" * STEM_BYTES


ROWS: dict[bytes, bytes] = {
    b"a": b"first",
    b"b": b"second",
    b"c": b"third",
    LONG_STEM + b"1": b"l1",
    LONG_STEM + b"2": b"l2",
}


@pytest.mark.parametrize(
    ("place", "key"),
    [(b"second", b"b"), (b"l2", LONG_STEM + b"2"), (seal(LONG_STEM, bytes(7) + b"\x01"), LONG_STEM + b"2")],
)
def test_a_rotten_row_is_never_returned(tmp_path: Path, place: bytes, key: bytes) -> None:
    """In a value, in the value of a long key, and in the number of its branch."""
    reported: list[bytes] = []
    tree = Tree(tmp_path, reports=DamageReports(reported.append))
    tree.apply(dict(ROWS), START)
    rot(tmp_path, place)
    view = tree.view()
    with pytest.raises(RottenRow) as raised:
        view.get(key)
    assert (raised.value.key, reported) == (key, [key])
    assert view.get(b"a") == b"first"
    for reverse in (False, True):
        found: dict[bytes, bytes] = {}
        with suppress(RottenRow):
            found = dict(view.rows(b"", LAST, reverse))
        assert all(value is ROTTEN or ROWS[each] == value for each, value in found.items())
        assert found == {} or found.get(key) is ROTTEN
    tree.close()


def test_a_range_does_not_end_at_a_damaged_key(tmp_path: Path) -> None:
    """Its first bytes changed, it is out of place: the rows behind it are in the range."""
    tree = Tree(tmp_path)
    tree.apply({b"keys/1": b"one", b"keys/2": b"two", b"keys/3": b"three"}, START)
    rot(tmp_path, b"keys/2", bit=7)
    for reverse in (False, True):
        with suppress(RottenRow):
            assert ROTTEN in dict(tree.view().rows(b"keys/", b"keys0", reverse)).values()
    tree.close()


def test_nothing_is_written_below_a_rotten_stem(tree: Tree, tmp_path: Path) -> None:
    tree.apply(dict(ROWS), START)
    rot(tmp_path, seal(LONG_STEM, bytes(7) + b"\x01"))
    for value in (b"new", None):
        with pytest.raises(StoreFailed, match="the tree is damaged, and this node must be replaced"):
            tree.apply({LONG_STEM + b"3": value}, LogPosition(generation=1))
    assert tree.position() == START


def test_a_tree_without_checksums_would_return_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.store.embedded.tree.unseal", lambda _, sealed: sealed[8:])
    tree = Tree(tmp_path)
    tree.apply(dict(ROWS), START)
    rot(tmp_path, b"second")
    assert tree.view().get(b"b") != b"second"
    tree.close()


@pytest.mark.parametrize("error", [lmdb.CorruptedError, lmdb.PageNotFoundError])
def test_pages_that_lmdb_knows_to_be_damaged_end_the_store(tree: Tree, error: type[lmdb.Error]) -> None:
    told: list[StoreFailed] = []
    view = TreeView(tree._environment.begin(), DamageReports(on_damage=told.append))
    failure = view.failed(error("mdb_get", -30796))
    assert "the tree is damaged" in str(failure)
    assert told == [failure]
    assert "cannot be read" in str(view.failed(lmdb.ReadersFullError("mdb_txn_begin", -30790)))
    assert told == [failure]


def test_a_damaged_page_of_the_position_ends_the_store(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere else in the tree: it is no wrong setting."""

    def damaged(*_: object) -> None:
        raise lmdb.CorruptedError("mdb_get: MDB_CORRUPTED")

    monkeypatch.setattr("epoxy.store.embedded.tree.checked", damaged)
    with pytest.raises(StoreFailed, match="the tree is damaged, and this node must be replaced"):
        tree.position()


def test_an_empty_key_is_absent(tree: Tree) -> None:
    assert tree.view().get(b"") is None


@pytest.mark.parametrize("count", [0, 1, SAMPLED, SORTED_ROWS - 1, SORTED_ROWS, SORTED_ROWS + 1, 10_007])
def test_keys_are_in_order_and_sorted_a_few_at_a_time(count: int) -> None:
    keys = [b"%08d" % (number * 7919 % 10_007) for number in range(count)]
    taken = list(in_order(keys))
    assert [key for some in taken for key in some] == sorted(keys)
    assert max(map(len, taken)) <= 2 * SORTED_ROWS


@pytest.mark.parametrize("rows", [0, 1, SORTED_ROWS, 2 * SORTED_ROWS + 1])
def test_what_is_written_and_what_is_cleared_are_apart(rows: int) -> None:
    effects: dict[bytes, bytes | None] = {b"%d" % number: b"" if number % 3 else None for number in range(rows)}
    written, cleared = sorted_out(effects)
    assert written == [key for key, value in effects.items() if value is not None]
    assert cleared == [key for key, value in effects.items() if value is None]


VOTES = [b"vote/%04d" % number for number in range(0, 2000, 2)]


class Deletions:
    """Counts them."""

    def __init__(self, transaction: TreeTransaction) -> None:
        self.keys: list[bytes] = []
        self.cursor = transaction.cursor
        self._delete = transaction.delete

    def delete(self, key: bytes) -> bool:
        self.keys.append(key)
        return self._delete(key)


@pytest.mark.parametrize("kept", [[], VOTES[:1], VOTES[-1:], VOTES[300:500], VOTES[::7], VOTES])
def test_rows_that_are_not_in_the_tree_are_not_looked_for_one_by_one(tree: Tree, kept: list[bytes]) -> None:
    others = [b"a", b"vote/", b"vote/0003", b"vote/1501x", b"z"]
    tree.apply(dict.fromkeys([*kept, *others], b"v"), START)
    gaps = 1 + sum(one in kept and other not in kept for one, other in pairwise(VOTES))
    with tree._environment.begin(write=True) as transaction:
        deletions: Any = Deletions(transaction)
        clear(deletions, VOTES)
    assert len(deletions.keys) <= len(kept) + gaps + len(others)
    assert [key for key, _ in tree.view().rows(b"", LAST, False)] == others


@pytest.mark.parametrize("bit", range(8))
def test_a_damaged_key_hides_no_other_row_from_being_cleared(tmp_path: Path, bit: int) -> None:
    """Wherever it seems to stand. All that deletions one by one would find are found."""
    rows = [b"%c/row" % number for number in range(0x21, 0x61, 3)]
    wanted = sorted([*rows, *(b"%c/absent" % number for number in range(0x21, 0x61))])
    for damaged in rows:
        left: list[list[bytes]] = []
        for how in (clear, one_by_one):
            folder = tmp_path / f"{damaged.hex()}-{how.__name__}"
            folder.mkdir()
            tree = Tree(folder)
            tree.apply(dict.fromkeys(rows, b"v"), START)
            rot(folder, damaged, bit)
            with tree._environment.begin(write=True) as transaction:
                how(transaction, wanted)
                cursor = transaction.cursor()
                cursor.set_range(b"\x00")
                left.append([row for row, _ in cursor.iternext()])
            tree.close()
        assert left[0] == left[1]


def one_by_one(transaction: TreeTransaction, keys: list[bytes]) -> None:
    for key in keys:
        transaction.delete(key)


def test_the_longest_key_of_lmdb_is_as_long_as_we_think(tree: Tree) -> None:
    assert environment_of(tree).max_key_size() == STEM_BYTES


def test_a_file_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"not a tree at all" * 1000)
    with pytest.raises(StoreRefused, match=str(tmp_path)):
        Tree(tmp_path)


def test_a_tree_that_cannot_be_written_has_failed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise lmdb.MapFullError("mdb_put", -30792)

    monkeypatch.setattr("epoxy.store.embedded.tree.write", full)
    with pytest.raises(StoreFailed, match="the tree cannot be written"):
        tree.apply({b"a": b"v"}, START)
    assert tree.position() is None


def test_a_tree_that_is_closed_cannot_be_read(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    view = tree.view()
    tree.close()
    with pytest.raises(StoreFailed, match="the tree cannot be read"):
        view.get(b"a")
    with pytest.raises(StoreFailed, match="the tree cannot be read"):
        list(view.rows(b"", LAST, False))


@pytest.mark.parametrize(("memory_bytes", "is_warmed"), [(1 << 40, True), (READ_AHEAD_BYTES, False)])
def test_only_a_tree_that_fits_is_brought_into_memory(
    tmp_path: Path, memory_bytes: int, is_warmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[Path] = []
    monkeypatch.setattr(SystemFiles, "read_ahead", lambda _, file: warmed.append(file))
    monkeypatch.setattr("epoxy.store.embedded.tree.memory_of_the_machine", lambda: memory_bytes)
    tree = Tree(tmp_path)
    tree.apply({b"%04d" % number: bytes(1 << 16) for number in range(200)}, START)
    tree.close()
    assert warmed == []
    Tree(tmp_path).close()
    for thread in [thread for thread in enumerate_threads() if thread.name == "epoxy-warm"]:
        thread.join()
    assert warmed == ([tmp_path / "data.mdb"] if is_warmed else [])
