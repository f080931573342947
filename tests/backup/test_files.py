"""Backup files: one that can be read is the whole one that was written; every other is refused, with the place."""

import errno
import io
import os
import secrets
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.backup import files
from epoxy.backup.files import BackupReader, BackupWriter
from epoxy.backup.format import (
    FRAME,
    PREAMBLE,
    BackupEnd,
    BackupHeader,
    BackupMember,
    Kind,
    KindTotal,
    blocks,
    encode_block,
)
from epoxy.model.errors import BackupError

HEADER = BackupHeader(
    made_at="2026-11-16T11:00:00Z",
    replica=1,
    datacenter="eu",
    epoch=3,
    members=(BackupMember(id=1, datacenter="eu", url="http://10.0.0.1:7800"),),
    quorum_policy="optimal",
    version="2.0",
)
KEYS = [(b"key %d" % number, b"value") for number in range(6)]


def write(path: Path, keys: list[tuple[bytes, bytes]] = KEYS, *, in_one: int = 2) -> BackupEnd:
    with BackupWriter(path, HEADER) as writer:
        for first in range(0, len(keys), in_one):
            writer.write(encode_block(Kind.KEYS, keys[first : first + in_one]))
        writer.write(encode_block(Kind.VALUES, [(b"both", b"1")]))
        writer.write(encode_block(Kind.ACTORS, [(b"eu", b"row", b"2")]))
        return writer.finish(missing=("us",))


def read(path: Path) -> list[tuple[Kind, tuple[bytes, ...]]]:
    with BackupReader(path) as reader:
        found = [(block.kind, record) for block in reader.blocks() for record in block.records]
        assert reader.end is not None
        return found


def refused(path: Path) -> str:
    with pytest.raises(BackupError) as caught, BackupReader(path) as reader:
        reader.verify()
    assert str(caught.value).startswith(str(path))
    return str(caught.value).removeprefix(f"{path}: ")


def frames(data: bytes) -> list[bytes]:
    found, place = [], PREAMBLE.size
    while place < len(data):
        length, _ = FRAME.unpack_from(data, place)
        found.append(data[place : place + FRAME.size + length + 8])
        place += len(found[-1])
    return found


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "all.backup"
    end = write(path)
    assert read(path) == [
        *[(Kind.KEYS, record) for record in KEYS],
        (Kind.VALUES, (b"both", b"1")),
        (Kind.ACTORS, (b"eu", b"row", b"2")),
    ]
    with BackupReader(path) as reader:
        assert reader.header == HEADER
        told: list[tuple[int, int]] = []
        assert reader.verify(lambda read, size: told.append((read, size))) == end
    assert end.keys == KindTotal(records=6, bytes=60)
    assert end.missing == ("us",)
    assert [size for _, size in told] == [path.stat().st_size] * 5
    assert sorted(told) == told
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["all.backup"]


@settings(max_examples=20)
@given(st.dictionaries(st.binary(min_size=1, max_size=8), st.binary(max_size=30), min_size=1), st.integers(1, 5))
def test_any_keys_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, given: dict[bytes, bytes], n: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "b"
    write(path, sorted(given.items()), in_one=n)
    assert [record for kind, record in read(path) if kind is Kind.KEYS] == sorted(given.items())


def test_two_files_of_equal_content_have_different_digests(tmp_path: Path) -> None:
    assert write(tmp_path / "1").digest != write(tmp_path / "2").digest


# Planted damage


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "b"
    write(path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        reason = refused(path)
        assert "block" in reason or place < PREAMBLE.size, (place, reason)


def test_every_shortened_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "b"
    write(path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert "incomplete" in refused(path) or length == 0


def test_the_place_of_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "b"
    write(path)
    whole = path.read_bytes()
    second = PREAMBLE.size + len(frames(whole)[0]) + len(frames(whole)[1])
    path.write_bytes(whole[: second + 30] + b"?" + whole[second + 31 :])
    assert refused(path).startswith(f"block 2, at byte {second:,}: damaged")


def test_blocks_that_are_missing_moved_repeated_or_of_another_file_are_found(tmp_path: Path) -> None:
    path, other = tmp_path / "b", tmp_path / "c"
    write(path)
    write(other)
    whole = path.read_bytes()
    head, mine, theirs = whole[: PREAMBLE.size], frames(whole), frames(other.read_bytes())
    for number in range(len(mine)):
        for changed in (
            mine[:number] + mine[number + 1 :],
            [*mine[:number], mine[number], *mine[number:]],
            [*mine[:number], theirs[number], *mine[number + 1 :]],
            [*mine[:number], mine[number - 1], *mine[number + 1 :]],
        ):
            path.write_bytes(head + b"".join(changed))
            refused(path)
    path.write_bytes(whole + b"\n")
    assert "something follows the end" in refused(path)


def test_a_block_is_bound_to_its_file_by_the_nonce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: with the same nonce in all files, a block of another one would be taken."""
    monkeypatch.setattr(secrets, "randbits", lambda _: 7)
    path, other = tmp_path / "b", tmp_path / "c"
    write(path)
    write(other, [(key, b"VALUE") for key, _ in KEYS])
    mine, theirs = frames(path.read_bytes()), frames(other.read_bytes())
    mixed = [mine[0], theirs[1], *mine[2:]]
    path.write_bytes(path.read_bytes()[: PREAMBLE.size] + b"".join(mixed))
    assert "not those that its end counts" in refused(path)  # the digest still finds it, at the end


def test_another_version_and_another_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "b"
    write(path)
    whole = bytearray(path.read_bytes())
    whole[13] = 9
    path.write_bytes(whole)
    assert refused(path) == "a backup in format 9; this version of Epoxy reads 1"
    path.write_bytes(b"#!/bin/sh\n")
    assert refused(path) == "not a backup of Epoxy"
    path.write_bytes(b"")
    assert refused(path) == "not a backup of Epoxy"
    path.unlink()
    assert refused(path) == "No such file or directory"
    assert refused(tmp_path) == "Is a directory"


# Writing


def test_nothing_is_left_without_finish(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "b", HEADER) as writer:
        writer.write(encode_block(Kind.KEYS, KEYS))
        assert os.listdir(tmp_path) == ["b.partial"]
    assert os.listdir(tmp_path) == []


def test_what_an_interrupted_run_left_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "b.partial").write_bytes(bytes(10_000))
    write(tmp_path / "b")
    assert len(read(tmp_path / "b")) == 8
    assert os.listdir(tmp_path) == ["b"]


def test_a_backup_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("precious")
    with pytest.raises(BackupError, match="exists"):
        BackupWriter(tmp_path / "b", HEADER)
    with BackupWriter(tmp_path / "c", HEADER) as writer:
        (tmp_path / "c").write_text("made meanwhile")
        with pytest.raises(BackupError, match="exists"):
            writer.finish()
    assert (tmp_path / "c").read_text() == "made meanwhile"


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "b", HEADER), pytest.raises(BackupError, match="by another process"):
        BackupWriter(tmp_path / "b", HEADER)


def test_a_damaged_block_and_one_out_of_order_are_not_written(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "b", HEADER) as writer:
        first, second = (next(blocks(Kind.KEYS, [(key, b"")])) for key in (b"a", b"b"))
        writer.write(second)
        with pytest.raises(BackupError, match="not in order"):
            writer.write(first)
        with pytest.raises(BackupError, match="checksum"):
            writer.write(first[:-1] + b"?")
        writer.finish()
    assert read(tmp_path / "b") == [(Kind.KEYS, (b"b", b""))]


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_disk_that_fails_leaves_no_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(BackupError, match="No space left"):
        write(tmp_path / "b")
    assert os.listdir(tmp_path) == []


class FullDisk(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("buffered", [10, 1 << 20])
def test_a_full_disk_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffered: int) -> None:
    """At the first write or at the last; what is still buffered is not the next error."""
    monkeypatch.setattr(files, "open_partial", lambda _: io.BufferedWriter(FullDisk(), buffered))
    with pytest.raises(BackupError, match="No space left"):
        write(tmp_path / "b")
