"""The real disk behind `Files`."""

import fcntl
import os
from pathlib import Path

import pytest

from epoxy.store.embedded.files import READ_AHEAD_BYTES, SYSTEM_FILES, ZEROS_BYTES, sync_parents, write_whole


def test_a_file_that_was_created_is_synced_by_every_write(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"old contents")
    file = SYSTEM_FILES.create(tmp_path / "log")
    assert fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DSYNC
    SYSTEM_FILES.allocate(file, 0, 8)
    assert SYSTEM_FILES.write(file, b"new", 2) == 3
    SYSTEM_FILES.close(file)
    assert SYSTEM_FILES.read_synced(tmp_path / "log") == b"\x00\x00new\x00\x00\x00"
    assert SYSTEM_FILES.size(tmp_path / "log") == 8


def test_room_is_written_and_not_only_allocated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the sync of each frame would wait for the file's metadata, too."""
    written: list[tuple[int, int]] = []
    pwrite = os.pwrite

    def spy(file: int, data: bytes, offset: int) -> int:
        written.append((offset, len(data)))
        return pwrite(file, data, offset)

    file = SYSTEM_FILES.create(tmp_path / "log")
    SYSTEM_FILES.write(file, b"kept", 0)
    monkeypatch.setattr(os, "pwrite", spy)
    SYSTEM_FILES.allocate(file, 4, ZEROS_BYTES + 100)
    SYSTEM_FILES.close(file)
    assert written == [(4, ZEROS_BYTES), (4 + ZEROS_BYTES, 100)]
    assert SYSTEM_FILES.read(tmp_path / "log") == b"kept" + bytes(ZEROS_BYTES + 100)


def test_a_folder_goes_with_its_files(tmp_path: Path) -> None:
    SYSTEM_FILES.make_folder(tmp_path / "tree")
    SYSTEM_FILES.make_folder(tmp_path / "tree")
    (tmp_path / "tree" / "data.mdb").touch()
    assert SYSTEM_FILES.names(tmp_path) == ["tree"]
    SYSTEM_FILES.remove_folder(tmp_path / "tree")
    assert SYSTEM_FILES.names(tmp_path) == []


@pytest.mark.parametrize("name", ["folder", "file"])
def test_a_lock_is_held_by_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    held = SYSTEM_FILES.lock(tmp_path / name)
    assert held is not None
    assert SYSTEM_FILES.lock(tmp_path / name) is None
    SYSTEM_FILES.close(held)
    again = SYSTEM_FILES.lock(tmp_path / name)
    assert again is not None
    SYSTEM_FILES.close(again)


def test_a_whole_file_is_the_old_one_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    write_whole(SYSTEM_FILES, tmp_path / "format", b"a longer one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output error"):
            write_whole(SYSTEM_FILES, tmp_path / "format", b"new")
    assert SYSTEM_FILES.read(tmp_path / "format") == b"a longer one"
    write_whole(SYSTEM_FILES, tmp_path / "format", b"new")
    assert SYSTEM_FILES.read(tmp_path / "format") == b"new"


def test_folders_that_cannot_be_opened_are_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []

    def opens_some(_: object, folder: Path) -> None:
        if folder == Path("/"):
            raise PermissionError(13, "Permission denied")
        synced.append(folder)

    monkeypatch.setattr(type(SYSTEM_FILES), "sync_folder", opens_some)
    sync_parents(SYSTEM_FILES, tmp_path)
    assert synced == list(tmp_path.parents)[:-1]


def test_reading_ahead_asks_for_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, offset, length, __: asked.append((offset, length)))
    with (tmp_path / "data.mdb").open("wb") as data:
        data.truncate(2 * READ_AHEAD_BYTES + 1)
    SYSTEM_FILES.read_ahead(tmp_path / "data.mdb")
    assert asked == [(offset, READ_AHEAD_BYTES) for offset in (0, READ_AHEAD_BYTES, 2 * READ_AHEAD_BYTES)]
