"""The log: what is written, and when it is durable."""

import fcntl
import os
from pathlib import Path

import pytest

from epoxy.store.embedded.files import SYSTEM_FILES, SystemFiles, write_all
from epoxy.store.embedded.log import (
    CRC,
    FRAME_HEADER_BYTES,
    FRAMES_AT,
    SEGMENT_HEADER,
    LogPosition,
    Segment,
    WriteAheadLog,
    segment_path,
)
from epoxy.store.embedded.recovery import recover

BEGUN = LogPosition()


def test_dropped_generations_are_gone(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, BEGUN, 512)
    reached = [log.rotate() for _ in range(3)]
    log.drop(reached[1].generation)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n:016d}.log" for n in (3, 4)]
    log.close()


def test_the_next_generation_begins_in_the_room_that_was_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WriteAheadLog(tmp_path, BEGUN, 512)
    log.prepare()
    log.prepare()
    room = (tmp_path / "next").stat()
    assert room.st_size == FRAMES_AT + 512

    def allocates(*_: object) -> None:
        raise AssertionError("there is room")

    with monkeypatch.context() as patch:
        patch.setattr(SystemFiles, "allocate", allocates)
        log.rotate()
    assert segment_path(tmp_path, 2).stat().st_ino == room.st_ino
    log.write(log.frame(1, {b"a": b"v"}))
    log.rotate()
    log.close()
    assert recover(tmp_path, BEGUN)[0] == {b"a": b"v"}


def test_room_that_was_prepared_is_left_by_a_crash_and_made_anew(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, BEGUN, 512)
    log.prepare()
    (tmp_path / "next").write_bytes(b"EPXF of another life")
    log.close()
    rows, reached = recover(tmp_path, BEGUN)
    assert (rows, reached.generation) == ({}, 1)
    WriteAheadLog(tmp_path, reached, 512).close()
    data = segment_path(tmp_path, 2).read_bytes()
    assert not any(data[FRAMES_AT:])


def test_room_that_cannot_be_made_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    log = WriteAheadLog(tmp_path, BEGUN, 512)
    with monkeypatch.context() as patch:
        patch.setattr(SystemFiles, "allocate", full)
        with pytest.raises(OSError, match="No space left"):
            log.prepare()
    log.rotate()
    log.close()
    assert segment_path(tmp_path, 2).stat().st_size == FRAMES_AT + 512


def test_every_write_is_a_sync(tmp_path: Path) -> None:
    """The one thing about durability that no test here can break and see: it takes a power cut."""
    segment = Segment.create(tmp_path, 1, 1, 512)
    assert fcntl.fcntl(segment._file, fcntl.F_GETFL) & os.O_DSYNC
    segment.close()


def test_a_segment_is_not_seen_before_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        Segment.create(tmp_path, 1, 1, 512)
    assert [path.name for path in tmp_path.iterdir()] == ["next"]
    assert recover(tmp_path, None) == ({}, BEGUN)


def test_a_short_write_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:7], offset))
    log = WriteAheadLog(tmp_path, BEGUN, 512)
    log.write(log.frame(1, {b"a": bytes(100)}))
    log.close()
    assert recover(tmp_path, BEGUN)[0] == {b"a": bytes(100)}


def test_a_write_that_fails_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def full(_file: int, _data: bytes, offset: int) -> int:
        calls.append(offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        write_all(SYSTEM_FILES, 0, b"data", 0)
    assert calls == [0]


def test_a_segment_grows_by_whole_allocations_and_says_so_before_the_frame_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def spied(name: str) -> None:
        real = getattr(SystemFiles, name)

        def spy(*given: object) -> object:
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(SystemFiles, name, spy)

    for name in ("allocate", "sync", "write"):
        spied(name)
    log = WriteAheadLog(tmp_path, BEGUN, 100)
    calls.clear()
    log.write(log.frame(1, {b"a": b"v"}))
    assert calls == ["write"], "as long as there is room"
    log.write(log.frame(2, {b"a": bytes(250)}))
    assert calls[1:] == ["allocate", "write", "sync", "write", "write"], "zeros, then the header, then the frame"
    log.close()
    assert segment_path(tmp_path, 1).stat().st_size == FRAMES_AT + 400


def test_the_header_is_where_it_is_said_to_be() -> None:
    """These sizes are the format: another number would not read what is on disks."""
    assert (SEGMENT_HEADER.size + CRC.size, FRAMES_AT, FRAME_HEADER_BYTES) == (44, 512, 25)
