"""Recovery: what a crash may leave is cut off, everything else that is not as it was written is refused."""

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from epoxy.model.errors import StoreRefused
from epoxy.store.embedded import log as log_module
from epoxy.store.embedded.files import SystemFiles
from epoxy.store.embedded.log import (
    CRC,
    FRAMES_AT,
    SECTOR_BYTES,
    SEGMENT_HEADER,
    Header,
    LogPosition,
    WriteAheadLog,
    encode_frame,
    encoder,
    marked,
    segment_path,
)
from epoxy.store.embedded.recovery import frame_at, marks, read_segment, recover, unmarked

HEADER_BYTES = SEGMENT_HEADER.size + CRC.size

BEGUN = LogPosition()
"""Where a tree stands that was made and never checkpointed."""

Effects = dict[bytes, bytes | None]
COMMITS: list[Effects] = [{b"a": b"1", b"b": b"1"}, {b"b": None, b"c": b"2"}, {b"a": b"3"}]


def written(folder: Path, *commits: Effects, segment_bytes: int = 1024) -> Path:
    """The segment of a log with a frame for each of these."""
    log = WriteAheadLog(folder, BEGUN, segment_bytes)
    for sequence, effects in enumerate(commits, start=10):
        log.write(log.frame(sequence, effects))
    log.close()
    return segment_path(folder, 1)


def bounds(path: Path) -> list[int]:
    """Where the frames begin, and where the last one ends."""
    segment = read_segment(path)
    found = [FRAMES_AT]
    while (frame := frame_at(segment, found[-1])) is not None:
        found.append(frame.end)
    return found


def after(*commits: Effects) -> Effects:
    effects: Effects = {}
    for commit in commits:
        effects.update(commit)
    return effects


def test_what_was_written_is_read(tmp_path: Path) -> None:
    written(tmp_path, *COMMITS)
    assert recover(tmp_path, BEGUN) == (after(*COMMITS), LogPosition(generation=1, frame=3, sequence=12))


def test_generations_follow_each_other(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, BEGUN, 512)
    reached = []
    for sequence, effects in enumerate(COMMITS):
        log.write(log.frame(sequence, effects))
        reached.append(log.rotate())
    log.close()
    assert reached == [LogPosition(generation=n + 1, frame=n + 1, sequence=n) for n in range(3)]
    end = LogPosition(generation=4, frame=3, sequence=2)
    assert recover(tmp_path, BEGUN) == (after(*COMMITS), end)
    assert recover(tmp_path, reached[0]) == (after(*COMMITS[1:]), end)
    assert recover(tmp_path, reached[2]) == ({}, end)


# Cuts.


def test_a_last_frame_cut_at_any_byte_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    path = written(tmp_path, *COMMITS)
    whole, (*_, begin, end) = path.read_bytes(), bounds(path)
    for kept in range(begin, end):
        path.write_bytes(whole[:kept] + bytes(len(whole) - kept))
        assert recover(tmp_path, BEGUN)[0] == after(*COMMITS[:2]), kept


def test_a_last_frame_that_lacks_any_of_its_sectors_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    """A disk writes the sectors of one call in any order."""
    path = written(tmp_path, COMMITS[0], {b"k": bytes(5 * SECTOR_BYTES)}, segment_bytes=8192)
    whole, (*_, begin, end) = path.read_bytes(), bounds(path)
    sectors = range(begin // SECTOR_BYTES, -(-end // SECTOR_BYTES))
    assert len(sectors) >= 6
    for sector in sectors:
        start, stop = max(begin, sector * SECTOR_BYTES), min(end, (sector + 1) * SECTOR_BYTES)
        path.write_bytes(whole[:start] + bytes(stop - start) + whole[stop:])
        assert recover(tmp_path, BEGUN)[0] == COMMITS[0], sector


def test_a_cut_before_the_next_generation_is_in_order(tmp_path: Path) -> None:
    """A start that was itself cut short: it had begun the next segment, and not yet brought the tree up to date."""
    path = written(tmp_path, *COMMITS)
    cut_last_byte(path)
    effects, reached = recover(tmp_path, BEGUN)
    WriteAheadLog(tmp_path, reached, 512).close()
    assert recover(tmp_path, BEGUN) == (effects, LogPosition(generation=2, frame=2, sequence=11))


def cut_last_byte(path: Path) -> None:
    whole, end = path.read_bytes(), bounds(path)[-1]
    path.write_bytes(whole[: end - 1] + bytes(len(whole) - end + 1))


# Shortened files.


@pytest.mark.parametrize("segment_bytes", [1024, 200])
def test_a_file_that_was_cut_short_is_refused_wherever_the_cut_is(tmp_path: Path, segment_bytes: int) -> None:
    """In a frame, between two, behind all of them; and in a file that has grown."""
    path = written(tmp_path, *COMMITS, {b"d": bytes(100)}, segment_bytes=segment_bytes)
    whole = path.read_bytes()
    for length in range(FRAMES_AT, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreRefused, match=rf"{length} bytes, but its header says {len(whole)}: .* cut short"):
            recover(tmp_path, BEGUN)


def test_growth_that_a_crash_interrupted_is_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is longer, its header does not say so yet, and the frame was not begun."""

    class Crash(BaseException): ...

    def crashes(*_: object) -> int:
        raise Crash

    log = WriteAheadLog(tmp_path, BEGUN, 100)
    log.write(log.frame(1, COMMITS[0]))
    with monkeypatch.context() as patch:
        patch.setattr(SystemFiles, "write", crashes)
        with pytest.raises(Crash):
            log.write(log.frame(2, {b"k": bytes(300)}))
    log.close()
    path = segment_path(tmp_path, 1)
    for length in range(FRAMES_AT + 100, path.stat().st_size + 1, 7):
        os.truncate(path, length)
        assert recover(tmp_path, BEGUN)[0] == COMMITS[0]


def test_a_log_whose_header_tells_no_length_would_lose_acknowledged_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Header.encode
    monkeypatch.setattr(Header, "encode", lambda header: real(replace(header, allocated=FRAMES_AT)))
    path = written(tmp_path, *COMMITS)
    path.write_bytes(path.read_bytes()[: bounds(path)[1]])
    assert recover(tmp_path, BEGUN)[0] == COMMITS[0]


# Damage.


def flips_that_pass(path: Path, stop: int, expected: Effects) -> list[tuple[int, int]]:
    """The single bits before `stop` that can be turned round without anybody noticing, or with other contents. The rest
    of the header's sector is never read."""
    whole, passed = path.read_bytes(), []
    for place in (*range(HEADER_BYTES), *range(FRAMES_AT, stop)):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes((whole[place] ^ 1 << bit,)) + whole[place + 1 :])
            try:
                effects, _ = recover(path.parent, BEGUN)
            except StoreRefused:
                continue
            passed.append((place, bit))
            assert effects != expected, "read as if nothing had happened"
    path.write_bytes(whole)
    return passed


def test_every_flipped_bit_is_refused_in_the_last_frame_too(tmp_path: Path) -> None:
    path = written(tmp_path, *COMMITS)
    assert flips_that_pass(path, bounds(path)[-1], after(*COMMITS)) == []


@pytest.mark.parametrize("shift", range(0, SECTOR_BYTES, 73))
def test_a_flipped_bit_in_a_frame_with_a_sector_of_zeros_is_damage(tmp_path: Path, shift: int) -> None:
    path = written(tmp_path, {b"k": bytes(shift)}, {b"k": bytes(3 * SECTOR_BYTES)}, segment_bytes=8192)
    whole, (*_, begin, end) = path.read_bytes(), bounds(path)
    for place in range(begin, end, 11):
        path.write_bytes(whole[:place] + bytes((whole[place] ^ 4,)) + whole[place + 1 :])
        with pytest.raises(StoreRefused, match=r"frame 2 at byte .* is damaged"):
            recover(tmp_path, BEGUN)


def test_without_marks_it_would_be_taken_for_a_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "marked", lambda payload, _: payload)
    monkeypatch.setattr("epoxy.store.embedded.recovery.marks", lambda *_: 0)
    monkeypatch.setattr("epoxy.store.embedded.recovery.unmarked", lambda body, _: body)
    path = written(tmp_path, COMMITS[0], {b"k": bytes(3 * SECTOR_BYTES)}, segment_bytes=8192)
    whole, end = path.read_bytes(), bounds(path)[-1]
    path.write_bytes(whole[: end - 3] + b"\x01" + whole[end - 2 :])
    assert recover(tmp_path, BEGUN)[0] == COMMITS[0]


@given(st.integers(FRAMES_AT, FRAMES_AT + 2 * SECTOR_BYTES), st.integers(0, 3 * SECTOR_BYTES))
@settings(max_examples=300, deadline=None)
def test_marks_are_taken_out_again(begin: int, length: int) -> None:
    payload = bytes(number % 251 for number in range(length))
    body = marked(payload, begin)
    assert unmarked(body, begin) == payload
    assert len(body) == length + marks(length, begin)
    assert all(
        body[at - begin] for at in range(-(-begin // SECTOR_BYTES) * SECTOR_BYTES, begin + len(body), SECTOR_BYTES)
    )


def test_a_log_without_checksums_would_let_flips_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zlib, "crc32", lambda _data, _start=0: 0)
    path = written(tmp_path, *COMMITS)
    assert flips_that_pass(path, bounds(path)[-1], {b"what": None})


@pytest.mark.parametrize("damage", [lambda frame: bytes(len(frame)), lambda frame: frame[:-5] + bytes(5)])
def test_a_bad_frame_before_a_good_one_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """It was acknowledged: the frame behind it was only started when it was synced."""
    path = written(tmp_path, *COMMITS)
    whole, (_, begin, end, _) = path.read_bytes(), bounds(path)
    path.write_bytes(whole[:begin] + damage(whole[begin:end]) + whole[end:])
    with pytest.raises(StoreRefused, match=r"frame 2 at byte .* is damaged, but frame 3 follows it"):
        recover(tmp_path, BEGUN)


def test_a_cut_frame_whose_value_looks_like_a_frame_is_still_a_cut_frame(tmp_path: Path) -> None:
    """Nobody outside knows the salt."""
    lookalike = encode_frame(2, encoder.encode((1, {b"x": b"y"})), salt=0, offset=700)
    path = written(tmp_path, COMMITS[0], {b"k": lookalike * 2})
    cut_last_byte(path)
    assert recover(tmp_path, BEGUN)[0] == COMMITS[0]


def test_a_gap_in_the_numbers_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, *COMMITS)
    data, end = path.read_bytes(), bounds(path)[-1]
    late = encode_frame(5, encoder.encode((13, {b"d": b"5"})), read_segment(path).salt, end)
    path.write_bytes(data[:end] + late + data[end + len(late) :])
    with pytest.raises(StoreRefused, match=r"frame 5 at byte .*, where frame 4 is next"):
        recover(tmp_path, BEGUN)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_missing_segment_is_refused(tmp_path: Path, lost: int) -> None:
    log = WriteAheadLog(tmp_path, BEGUN, 512)
    for effects in COMMITS:
        log.write(log.frame(1, effects))
        log.rotate()
    log.close()
    segment_path(tmp_path, lost).unlink()
    with pytest.raises(StoreRefused, match=rf"but frame {lost} of generation {lost} is next"):
        recover(tmp_path, BEGUN)


def test_frames_missing_at_the_end_of_an_older_segment_are_refused(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, BEGUN, 512)
    log.write(log.frame(1, COMMITS[0]))
    log.write(log.frame(1, COMMITS[1]))
    log.rotate()
    log.close()
    path = segment_path(tmp_path, 1)
    whole, end = path.read_bytes(), bounds(path)[1]
    path.write_bytes(whole[:end] + bytes(len(whole) - end))
    with pytest.raises(StoreRefused, match="begins with frame 3 of generation 2, but frame 2 of generation 2 is next"):
        recover(tmp_path, BEGUN)


def test_a_log_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="the log after generation 4 is missing"):
        recover(tmp_path, LogPosition(generation=4, frame=9, sequence=9))


def test_rows_without_a_tree_are_refused(tmp_path: Path) -> None:
    written(tmp_path, *COMMITS)
    with pytest.raises(StoreRefused, match="a tree that was never written"):
        recover(tmp_path, None)


@pytest.mark.parametrize(
    ("place", "data", "message"),
    [
        (0, b"NOTOURS!", "not a log segment"),
        (8, b"\x03\x00\x00\x00", "log format 3; this version reads format 2"),
        (20, b"\x07", "the segment's header is damaged"),
    ],
)
def test_a_segment_of_another_kind_is_refused(tmp_path: Path, place: int, data: bytes, message: str) -> None:
    path = written(tmp_path, *COMMITS)
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + data + whole[place + len(data) :])
    with pytest.raises(StoreRefused, match=message):
        recover(tmp_path, BEGUN)


def test_a_segment_without_a_header_is_refused(tmp_path: Path) -> None:
    written(tmp_path).write_bytes(b"EPOXYLOG")
    with pytest.raises(StoreRefused, match="8 bytes are no log segment"):
        recover(tmp_path, BEGUN)


def test_a_file_that_is_no_segment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "console.log").touch()
    with pytest.raises(StoreRefused, match=r"console\.log: not a log segment"):
        recover(tmp_path, BEGUN)


def test_a_payload_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    header = Header(generation=1, first_frame=1, salt=5, allocated=1024)
    frame = encode_frame(1, encoder.encode("rows"), header.salt, FRAMES_AT)
    path.write_bytes((header.encode().ljust(FRAMES_AT, b"\x00") + frame).ljust(1024, b"\x00"))
    with pytest.raises(StoreRefused, match="frame 1 is not what this version writes"):
        recover(tmp_path, BEGUN)


def test_a_frame_may_be_longer_than_its_segment(tmp_path: Path) -> None:
    large: Effects = {b"k": bytes(4096)}
    written(tmp_path, COMMITS[0], large, COMMITS[1], segment_bytes=512)
    assert recover(tmp_path, BEGUN)[0] == after(COMMITS[0], large, COMMITS[1])
