"""Reading the log at a start: what a crash may leave is cut off, and what is not as it was written is refused.

A frame is only started when the one before it is synced, so a crash can cut the last one alone, and a cut frame lacks a
whole sector, or its last byte: they read as the zeros the file was allocated with. A complete frame with a wrong
checksum was damaged later, and so was a log with good frames after a bad one, and a file that is shorter than its
header says: all are refused, because the lost commits were acknowledged.

Segments of format 1, which data directories of format 4 have, are read by their migration alone. Their header is
shorter and tells no length, and bodies are not marked.
"""

import zlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder

from epoxy.model.errors import StoreRefused
from epoxy.store.embedded.files import SYSTEM_FILES, Files
from epoxy.store.embedded.log import (
    CRC,
    END,
    FORMAT,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FRAMES_AT,
    SECTOR_BYTES,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    LogPosition,
    segments,
)

UNMARKED_FORMAT = 1
UNMARKED_HEADER_BYTES = 32
"""Without the checksum. The fields are the first ones of today's header."""

Payload = tuple[int, Mapping[bytes, bytes | None]]
Recovered = tuple[dict[bytes, bytes | None], LogPosition]
decoder = Decoder(tuple[int, dict[bytes, bytes | None]])


class SegmentData(Struct, frozen=True, kw_only=True):
    """A segment as it was read. `begin`: where its frames do."""

    path: Path
    data: bytes
    is_marked: bool
    begin: int
    generation: int
    first_frame: int
    salt: int


class Frame(Struct, frozen=True, kw_only=True):
    number: int
    payload: bytes
    end: int


def recover(
    folder: Path, reached: LogPosition | None, files: Files = SYSTEM_FILES, log_format: int = FORMAT
) -> Recovered:
    """The rows the log has beyond a tree at this position (None: a tree that was never written), and the position with
    them. Nothing on the disk is changed."""
    ahead = [
        (generation, path)
        for generation, path in segments(folder, files)
        if generation > (reached or LogPosition()).generation
    ]
    if reached is not None and not ahead:
        raise StoreRefused(f"{folder}: the log after generation {reached.generation} is missing")
    effects: dict[bytes, bytes | None] = {}
    at = reached or LogPosition()
    for generation, path in ahead:
        segment = read_segment(path, files, log_format)
        found, due = (segment.generation, generation, segment.first_frame), at.generation + 1
        if found != (due, due, at.frame + 1):
            raise StoreRefused(
                f"{path}: begins with frame {segment.first_frame} of generation {segment.generation}, "
                f"but frame {at.frame + 1} of generation {due} is next"
            )
        at = LogPosition(generation=generation, frame=at.frame, sequence=at.sequence)
        for frame in frames(segment):
            sequence, changed = decode(path, frame)
            effects.update(changed)
            at = LogPosition(generation=generation, frame=frame.number, sequence=sequence)
    if reached is None and at.frame:
        raise StoreRefused(f"{folder}: a log with rows beside a tree that was never written")
    return effects, at


def read_segment(path: Path, files: Files = SYSTEM_FILES, log_format: int = FORMAT) -> SegmentData:
    data = files.read_synced(path)
    is_marked = log_format != UNMARKED_FORMAT
    size = SEGMENT_HEADER.size if is_marked else UNMARKED_HEADER_BYTES
    if len(data) < size + CRC.size:
        raise StoreRefused(f"{path}: {len(data)} bytes are no log segment")
    magic, version, salt, generation, first_frame, allocated = SEGMENT_HEADER.unpack(
        data[:size].ljust(SEGMENT_HEADER.size, b"\x00")
    )
    if magic != SEGMENT_MAGIC:
        raise StoreRefused(f"{path}: not a log segment")
    if version != log_format:
        raise StoreRefused(f"{path}: log format {version}; this version reads format {log_format}")
    if CRC.unpack_from(data, size)[0] != zlib.crc32(data[:size]):
        raise StoreRefused(f"{path}: the segment's header is damaged")
    if len(data) < allocated:
        raise StoreRefused(
            f"{path}: {len(data)} bytes, but its header says {allocated}: the file was cut short, and acknowledged "
            "writes may be missing. Put it back as it was, or replace this node with an empty disk "
            "(`epoxy members add NEW-ID URL --replace ID`)"
        )
    return SegmentData(
        path=path,
        data=data,
        is_marked=is_marked,
        begin=FRAMES_AT if is_marked else size + CRC.size,
        generation=generation,
        first_frame=first_frame,
        salt=salt,
    )


def frames(segment: SegmentData) -> Iterator[Frame]:
    """The frames of a segment, up to one that was cut by a crash."""
    offset, number = segment.begin, segment.first_frame
    while (frame := frame_at(segment, offset)) is not None:
        if frame.number != number:
            raise StoreRefused(f"{segment.path}: frame {frame.number} at byte {offset}, where frame {number} is next")
        yield frame
        offset, number = frame.end, number + 1
    if not was_cut(segment, offset):
        raise StoreRefused(f"{segment.path}: frame {number} at byte {offset} is damaged")
    if (later := next_frame(segment, offset)) is not None:
        raise StoreRefused(
            f"{segment.path}: frame {number} at byte {offset} is damaged, but frame {later.number} follows it"
        )


def frame_at(segment: SegmentData, offset: int) -> Frame | None:
    """The complete frame with a right checksum that begins here, if there is one."""
    end = body_end(segment, offset)
    if end is None:
        return None
    data = segment.data
    _, length, number, crc = FRAME_HEADER.unpack_from(data, offset)
    begin = offset + FRAME_HEADER_BYTES
    body = data[begin:end]
    if data[end : end + 1] != END or zlib.crc32(body, segment.salt) != crc:
        return None
    payload = unmarked(body, begin) if segment.is_marked else body
    return Frame(number=number, payload=payload[:length], end=end + len(END))


def body_end(segment: SegmentData, offset: int) -> int | None:
    """From the header of the frame here, if that is complete and its checksum right."""
    data = segment.data
    fields = data[offset : offset + FRAME_HEADER.size]
    rest = data[offset + FRAME_HEADER.size : offset + FRAME_HEADER_BYTES]
    if not fields.startswith(FRAME_MAGIC) or rest != CRC.pack(zlib.crc32(fields, segment.salt)) + END:
        return None
    length: int = FRAME_HEADER.unpack(fields)[1]
    begin = offset + FRAME_HEADER_BYTES
    return begin + length + (marks(length, begin) if segment.is_marked else 0)


def marks(length: int, begin: int) -> int:
    """How many bytes mark a payload of this length."""
    return max(0, -(-(length - -begin % SECTOR_BYTES) // (SECTOR_BYTES - len(END))))


def unmarked(body: bytes, begin: int) -> bytes:
    room = -begin % SECTOR_BYTES
    return b"".join(
        [body[:room], *[body[at + len(END) : at + SECTOR_BYTES] for at in range(room, len(body), SECTOR_BYTES)]]
    )


def was_cut(segment: SegmentData, offset: int) -> bool:
    """Whether a crash can have left this: nothing, or a frame of which some part was never written."""
    end = body_end(segment, offset)
    end = offset + FRAME_HEADER_BYTES if end is None else end + len(END)
    if end > len(segment.data) and segment.is_marked:
        # The file grows before a frame is written: there is no part of one at its end.
        return not any(segment.data[offset:])
    return lacks_part(segment.data, offset, end)


def lacks_part(data: bytes, begin: int, end: int) -> bool:
    """Whether the last byte, or all bytes in one sector, are zero. No part ends with a zero byte."""
    if end > len(data) or data[end - 1] == 0:
        return True
    bounds = [begin, *range(begin - begin % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES), end]
    return any(not any(data[start:stop]) for start, stop in pairwise(bounds))


def next_frame(segment: SegmentData, offset: int) -> Frame | None:
    """The first frame with a right checksum anywhere after this offset."""
    while (offset := segment.data.find(FRAME_MAGIC, offset + 1)) >= 0:
        if (frame := frame_at(segment, offset)) is not None:
            return frame
    return None


def decode(path: Path, frame: Frame) -> Payload:
    try:
        return decoder.decode(frame.payload)
    except DecodeError as error:
        raise StoreRefused(f"{path}: frame {frame.number} is not what this version writes: {error}") from None
