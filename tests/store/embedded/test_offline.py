"""A directory whose node does not run: all that is durable is read, and nothing is changed."""

import os
from pathlib import Path

import pytest

from epoxy.model.errors import StoreRefused
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.log import segments
from epoxy.store.embedded.offline import StoppedStore
from epoxy.store.embedded.store import LOG_BYTES, open_folder
from tests.store.embedded.test_bulk import build
from tests.store.embedded.test_migration import EXPECTED, old_directory

TREE = {b"a": b"1", b"b": b"2", b"c": b"3"}


def made(path: Path) -> Path:
    """Rows in the tree, and later ones in the log."""
    build(path, TREE)
    tree, log, _, _ = open_folder(path, LOG_BYTES)
    log.write(log.frame(1, {b"b": b"9", b"c": None, b"d": b"4"}))
    log.close()
    tree.close()
    return path


def image(path: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def test_the_log_counts_above_the_tree_and_nothing_is_changed(tmp_path: Path) -> None:
    path = made(tmp_path / "data")
    before = image(path)
    with StoppedStore(path) as store:
        assert list(store.scan(b"", b"\xff")) == [(b"a", b"1"), (b"b", b"9"), (b"d", b"4")]
        assert (store.rows.get(b"b"), store.rows.get(b"c")) == (b"9", None)
        assert (store.description.replica, store.description.cluster, store.frame) == (7, "00000000000000aa", 1)
    assert image(path) == before


def test_the_directory_of_a_node_that_was_killed_is_read(tmp_path: Path) -> None:
    path = made(tmp_path / "data")
    with DataDir.open(path, replica=7, name="eu", cluster="00000000000000aa") as killed:
        assert killed.mark()
    with StoppedStore(path) as store:
        assert store.rows.get(b"d") == b"4"


def test_a_disk_that_is_read_only_is_enough(tmp_path: Path) -> None:
    path = made(tmp_path / "data")
    (path / "lock").unlink()
    for each in (path, *path.rglob("*")):
        each.chmod(0o500 if each.is_dir() else 0o400)
    with StoppedStore(path) as store:
        assert store.rows.get(b"a") == b"1"
    assert not (path / "lock").exists()
    for each in (path, *path.rglob("*")):
        each.chmod(0o700)


def test_a_node_and_its_reader_exclude_each_other(tmp_path: Path) -> None:
    path = made(tmp_path / "data")
    with DataDir.open(path, replica=7, name="eu"), pytest.raises(StoreRefused, match=r"in use by eu .*; stop it first"):
        StoppedStore(path)
    with StoppedStore(path), pytest.raises(StoreRefused, match="in use by"):
        DataDir.open(path, replica=7, name="eu")
    DataDir.open(path, replica=7, name="eu").close()


def test_a_rotten_row_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    path = made(tmp_path / "data")
    file = path / "tree" / "data.mdb"
    data = file.read_bytes()
    with StoppedStore(path) as store:
        sealed = store._tree._environment.begin().get(b"a")
    assert sealed is not None
    place = data.index(sealed)
    file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with StoppedStore(path) as store:
        assert list(store.scan(b"", b"b")) == [(b"a", None)]
        assert list(store.scan(b"b", b"c")) == [(b"b", b"9")], "beside it"
        assert list(store.scan(b"", b"a")) == []


@pytest.mark.parametrize("lost", ["format", "tree/data.mdb", "log"])
def test_what_is_no_whole_directory_is_refused(tmp_path: Path, lost: str) -> None:
    path = made(tmp_path / "data")
    victims = [path / lost] if lost != "log" else [segment for _, segment in segments(path / "log")]
    for victim in victims:
        os.unlink(victim)
    with pytest.raises(StoreRefused):
        StoppedStore(path)
    with pytest.raises(StoreRefused, match="it has no file `format`"):
        StoppedStore(tmp_path / "nothing")


def test_a_directory_of_format_4_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    path = old_directory(tmp_path / "data")
    before = image(path)
    with StoppedStore(path) as store:
        assert dict(store.scan(b"", b"\xff")) == EXPECTED
        assert {key: store.rows.get(key) for key in EXPECTED} == EXPECTED
        assert store.description.format == 4
    assert image(path) == before


def test_a_migration_that_was_interrupted_is_finished_by_a_start(tmp_path: Path) -> None:
    path = made(tmp_path / "data")
    (path / "migrating").mkdir()
    with pytest.raises(StoreRefused, match="was interrupted; start its node once"):
        StoppedStore(path)


def test_another_format_is_named(tmp_path: Path) -> None:
    path = made(tmp_path / "data")
    (path / "format").write_text('{"format": 99, "replica": 7}')
    with pytest.raises(StoreRefused, match="format 99"):
        StoppedStore(path)
