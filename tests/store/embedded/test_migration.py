"""Format 4 becomes format 5: every row is there, an interruption leaves the old store or the new one, and until the
first write there is a way back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from epoxy.model.errors import StoreRefused
from epoxy.store.embedded import migration
from epoxy.store.embedded import store as embedded
from epoxy.store.embedded.datadir import FORMAT, DataDir, return_to_previous
from epoxy.store.embedded.files import SYSTEM_FILES, Files, SystemFiles
from epoxy.store.embedded.log import LogPosition
from epoxy.store.embedded.migration import PREVIOUS, OldTree, can_go_back, plan
from epoxy.store.embedded.recovery import UNMARKED_FORMAT, recover
from epoxy.store.embedded.store import EmbeddedStore
from tests.store.conformance import put, rows
from tests.store.format4 import make_format4, make_segment
from tests.store.hand import SteppedIoThread

REPLICA = 7
LONG = b"long" * 300
REACHED = LogPosition(generation=4, frame=20, sequence=50)
IN_TREE: dict[bytes, bytes | None] = {
    **{b"%04d" % number: b"value %d" % number for number in range(300)},
    LONG + b"1": b"l1",
    LONG + b"2": b"l2",
}
IN_LOG: list[dict[bytes, bytes | None]] = [{b"0007": None, LONG + b"3": b"l3"}, {b"0008": b"new", LONG + b"1": None}]
EXPECTED = {
    **{key: value for key, value in IN_TREE.items() if key not in (b"0007", LONG + b"1")},
    b"0008": b"new",
    LONG + b"3": b"l3",
}


def old_directory(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    make_format4(path, replica=REPLICA, rows=IN_TREE, frames=IN_LOG, reached=REACHED)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return old_directory(tmp_path / "data")


def opened(path: Path, files: Files = SYSTEM_FILES) -> DataDir:
    return DataDir.open(path, replica=REPLICA, name="test", files=files)


def started(path: Path) -> EmbeddedStore:
    return EmbeddedStore(path, post=ignore, schedule=ignore, on_failure=ignore, io_thread=SteppedIoThread)


def ignore(_: object) -> None: ...


def contents(path: Path) -> tuple[dict[bytes, bytes], int, int]:
    store = started(path)
    found = dict(rows(store.begin())), store.position(), store.newest_stamp()
    store.close()
    return found


def old_files(path: Path) -> dict[str, bytes]:
    """What the version before reads."""
    names = [path / "format", path / "tree" / "data.mdb", *(path / "log").glob("*.log")]
    return {file.name: file.read_bytes() for file in names}


def test_all_rows_and_the_position_are_there(path: Path) -> None:
    before, told = old_files(path), list[tuple[int, int]]()
    DataDir.open(path, replica=REPLICA, name="test", tell=lambda *done: told.append(done)).close()
    assert (path / "format").read_bytes() == b'{"format":%d,"replica":7}' % FORMAT
    assert contents(path) == (EXPECTED, REACHED.frame + len(IN_LOG), 72)
    assert told[-1][0] == told[-1][1] > len(IN_TREE)
    assert old_files(path / PREVIOUS) == before
    opened(path).close()
    assert contents(path)[0] == EXPECTED


def test_the_cluster_and_the_replica_are_kept_and_checked(path: Path) -> None:
    (path / "format").write_bytes(b'{"format":4,"replica":7,"cluster":"c1"}')
    with pytest.raises(StoreRefused, match="belongs to replica 7, this is replica 8"):
        DataDir.open(path, replica=8, name="test")
    assert b'"format":4' in (path / "format").read_bytes()
    with opened(path) as found:
        assert found.cluster == "c1"


def test_a_last_frame_that_a_crash_cut_is_left_out(path: Path) -> None:
    segment = make_segment(path / "log", IN_LOG, REACHED)
    data = segment.read_bytes().rstrip(b"\x00")
    segment.write_bytes(data[:-5])
    opened(path).close()
    assert contents(path)[1] == REACHED.frame + 1


@pytest.mark.parametrize("damage", ["log", "tree"])
def test_a_damaged_directory_is_refused_and_left_as_it_is(path: Path, damage: str) -> None:
    file = path / "tree" / "data.mdb" if damage == "tree" else next((path / "log").glob("*.log"))
    data = bytearray(file.read_bytes())
    data[16 if damage == "tree" else 70] ^= 1
    if damage == "tree":
        data[4096 + 16] ^= 1
    file.write_bytes(data)
    before = old_files(path)
    with pytest.raises(StoreRefused):
        opened(path)
    assert old_files(path) == before


def test_a_disk_without_room_is_refused_before_anything_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemFiles, "free_bytes", lambda *_: 1 << 20)
    with pytest.raises(StoreRefused, match=r"to migrate it from format 4, \d+ MiB must be free, and 1 MiB are"):
        opened(path)
    assert sorted(entry.name for entry in path.iterdir()) == ["format", "lock", "log", "tree"]


def test_the_plan_counts_and_changes_nothing(path: Path) -> None:
    before = old_files(path)
    planned = plan(path, SYSTEM_FILES)
    assert planned.rows > len(IN_TREE)
    assert planned.needed_bytes > planned.tree_bytes == len(before["data.mdb"])
    assert old_files(path) == before


# Interruptions.


class Crash(BaseException): ...


CHANGES = ("create", "write", "sync", "rename", "remove", "remove_folder", "make_folder", "sync_folder")


def crashing(after: int) -> Files:
    """A process that ends before its n-th change of the disk."""
    left = after

    def dying(name: str) -> Callable[..., object]:
        def call(*given: object) -> object:
            nonlocal left
            if not left:
                raise Crash
            left -= 1
            return getattr(SystemFiles, name)(*given)

        return call

    return type("Dying", (SystemFiles,), {name: dying(name) for name in CHANGES})()  # type: ignore[no-any-return]


def test_a_migration_that_is_interrupted_anywhere_leaves_the_old_store_or_the_new_one(tmp_path: Path) -> None:
    before, formats = old_files(old_directory(tmp_path / "before")), set[bytes]()
    for after in range(500):
        path = old_directory(tmp_path / f"{after}")
        try:
            opened(path, crashing(after)).close()
        except Crash:
            formats.add((path / "format").read_bytes())
            if b'"format":4' in (path / "format").read_bytes():
                assert old_files(path) == before
        else:
            break
        opened(path).close()
        assert contents(path)[0] == EXPECTED, after
    assert len(formats) == 2
    assert after > 20


def test_a_migration_that_switches_too_early_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = migration.build

    def early(path: Path, files: Files, tell: migration.Tell) -> None:
        (path / "format").write_bytes(b'{"format":5,"replica":7}')
        real(path, files, tell)

    monkeypatch.setattr("epoxy.store.embedded.datadir.build", early)
    with pytest.raises((AssertionError, StoreRefused, FileNotFoundError)):
        test_a_migration_that_is_interrupted_anywhere_leaves_the_old_store_or_the_new_one(tmp_path)


# The way back.


def test_the_way_back_brings_the_old_files(path: Path) -> None:
    before = old_files(path)
    opened(path).close()
    contents(path)
    return_to_previous(path, SYSTEM_FILES)
    assert old_files(path) == before
    assert sorted(entry.name for entry in path.iterdir()) == ["format", "lock", "log", "tree"]
    with OldTree(path / "tree", SYSTEM_FILES) as old:
        assert recover(path / "log", old.position(), SYSTEM_FILES, UNMARKED_FORMAT)[1].frame == 22
    opened(path).close()
    assert contents(path)[0] == EXPECTED


def test_the_way_back_that_is_interrupted_is_gone_again(tmp_path: Path) -> None:
    before = old_files(old_directory(tmp_path / "before"))
    for after in range(100):
        path = old_directory(tmp_path / f"{after}")
        opened(path).close()
        try:
            return_to_previous(path, crashing(after))
        except Crash:
            if b'"format":5' in (path / "format").read_bytes():
                try_to_start(path)
        else:
            break
        if can_go_back(path, SYSTEM_FILES):
            return_to_previous(path, SYSTEM_FILES)
        assert old_files(path) == before, after
    assert after > 10


def try_to_start(path: Path) -> None:
    """It starts with everything, or not at all."""
    if (path / "discarded").exists():
        with pytest.raises(StoreRefused, match="`epoxy store back` was interrupted here; run it again"):
            opened(path)
    else:
        opened(path).close()
        assert contents(path)[0] == EXPECTED


def written(path: Path) -> None:
    """A commit that was acknowledged."""
    ticks: list[Callable[[], None]] = []
    store = EmbeddedStore(
        path, post=ignore, schedule=ticks.append, on_failure=ignore, io_thread=lambda *_: SteppedIoThread()
    )
    writer = store._writer
    assert isinstance(writer, SteppedIoThread)
    told: list[bool] = []
    put(store, b"after")
    store.when_durable(lambda: told.append(True))
    ticks.pop()()
    writer.work()
    writer.report()
    assert told
    store.close()


def test_the_first_write_closes_the_way_back(path: Path) -> None:
    opened(path).close()
    assert can_go_back(path, SYSTEM_FILES)
    written(path)
    assert not (path / PREVIOUS).exists()
    with pytest.raises(StoreRefused, match="no way back"):
        return_to_previous(path, SYSTEM_FILES)
    assert contents(path)[0] == {**EXPECTED, b"after": b"v"}


@pytest.mark.pure("replaces a function that the store calls")
def test_a_store_that_keeps_the_old_one_would_lose_a_write_on_the_way_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "forget_previous", lambda *_: None)
    opened(path).close()
    written(path)
    return_to_previous(path, SYSTEM_FILES)
    opened(path).close()
    assert b"after" not in contents(path)[0]


def test_without_a_migration_there_is_no_way_back(tmp_path: Path) -> None:
    opened(tmp_path / "new").close()
    with pytest.raises(StoreRefused, match="no way back"):
        return_to_previous(tmp_path / "new", SYSTEM_FILES)
