"""The write-ahead log: commits that are not in the tree yet.

A segment is one file for one generation of the store. It is made whole (allocated, header, synced) under another name
before it gets its own, so a segment that exists has a good header. After the header come frames, each the effects of
all transactions that share one sync:

    segment     "EPOXYLOG" | format u32 | salt u32 | generation u64 | number of its first frame u64 | crc u32
    frame       "EPXF" | length u32 | number u64 | crc of the payload u32 | crc of this header u32 | a5
                payload: msgpack [sequence of the stamps, {key: value or nil}] | a5

A frame is written with one call and synced before the next one is started. So a crash can cut only the last frame, and
a cut frame lacks a part: its last byte, or a whole sector, still reads as the zeros the file was allocated with. A
complete frame with a wrong checksum was damaged later, and so was a log with good frames after a bad one: both are
refused, because the lost commits were acknowledged. Checksums start from the segment's salt, which no client knows, so
no client can store a value that looks like a frame.
"""

import secrets
import struct
import zlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder

from epoxy.model.errors import StoreRefused
from epoxy.store.conflicts import Values
from epoxy.store.embedded.files import SYSTEM_FILES, Files, write_all
from epoxy.store.embedded.syncs import SyncTimes

FORMAT = 1
SECTOR_BYTES = 512
"""Every disk writes so much atomically. Larger sectors only make cuts coarser."""

LOG_SUFFIX = ".log"
SEGMENT_MAGIC, FRAME_MAGIC, END = b"EPOXYLOG", b"EPXF", b"\xa5"
SEGMENT_HEADER = struct.Struct("<8sIIQQ")
FRAME_HEADER = struct.Struct("<4sIQI")
CRC = struct.Struct("<I")
SEGMENT_HEADER_BYTES = SEGMENT_HEADER.size + CRC.size
FRAME_HEADER_BYTES = FRAME_HEADER.size + CRC.size + len(END)

Payload = tuple[int, Mapping[bytes, bytes | None]]
encoder = Encoder()
decoder = Decoder(tuple[int, dict[bytes, bytes | None]])


class LogPosition(Struct, frozen=True, kw_only=True):
    """A position in the log: the last complete generation, its last frame, and the last stamp."""

    generation: int = 0
    frame: int = 0
    sequence: int = 0


class Header(Struct, frozen=True, kw_only=True):
    generation: int
    first_frame: int
    salt: int

    def encode(self) -> bytes:
        fields = SEGMENT_HEADER.pack(SEGMENT_MAGIC, FORMAT, self.salt, self.generation, self.first_frame)
        return fields + CRC.pack(zlib.crc32(fields))


class Frame(Struct, frozen=True, kw_only=True):
    number: int
    payload: bytes
    end: int


class Segment:
    """A generation's file, open for appending."""

    def __init__(self, files: Files, file: int, header: Header) -> None:
        self.header = header
        self.next_frame = header.first_frame
        self.broken = False
        self._files = files
        self._file = file
        self._end = SEGMENT_HEADER_BYTES

    @classmethod
    def create(
        cls, folder: Path, generation: int, first_frame: int, allocate_bytes: int, files: Files = SYSTEM_FILES
    ) -> "Segment":
        header = Header(generation=generation, first_frame=first_frame, salt=secrets.randbits(32))
        draft = folder / "next"
        file = files.create(draft)
        try:
            # Allocated now: a full disk fails here, and later syncs need not update the file's size.
            files.allocate(file, 0, allocate_bytes)
            write_all(files, file, header.encode(), 0)
            files.sync(file)
            files.rename(draft, segment_path(folder, generation))
            files.sync_folder(folder)
        except BaseException:
            files.close(file)
            raise
        return cls(files, file, header)

    def frame(self, sequence: int, effects: Values) -> bytes:
        """The next one."""
        return encode_frame(self.next_frame, encoder.encode((sequence, effects)), self.header.salt)

    def write(self, frame: bytes) -> int:
        """Write and sync one frame; its size in bytes. After a failure the end of the segment is unknown."""
        assert not self.broken, "a failed sync is never tried again"
        self.broken = True
        write_all(self._files, self._file, frame, self._end)
        self._end += len(frame)
        self.next_frame += 1
        self.broken = False
        return len(frame)

    def close(self) -> None:
        self._files.close(self._file)


class WriteAheadLog:
    """The segments that are not in the tree yet; frames go to the newest. The event loop makes frames, a thread writes
    them in turn, and a second one calls `drop`."""

    def __init__(self, folder: Path, reached: LogPosition, segment_bytes: int, files: Files = SYSTEM_FILES) -> None:
        """Starts the generation after `reached`."""
        self._files = files
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._sequence = reached.sequence
        self.syncs = SyncTimes()
        self._segment = self._next_segment(reached)

    @property
    def next_frame(self) -> int:
        """The number of the frame that is written next."""
        return self._segment.next_frame

    def frame(self, sequence: int, effects: Values) -> bytes:
        """The frame for the next `write`. Nothing may be written or rotated between the two."""
        self._sequence = sequence
        return self._segment.frame(sequence, effects)

    def write(self, frame: bytes) -> int:
        """Returns the size, when the frame is synced."""
        self.syncs.begin()
        size = self._segment.write(frame)
        self.syncs.end()
        return size

    def rotate(self) -> LogPosition:
        """Start the next generation; returns where the one before it ends."""
        closed = self._segment
        if closed.broken:
            raise OSError("the log ends in a frame that could not be written")
        reached = LogPosition(generation=closed.header.generation, frame=closed.next_frame - 1, sequence=self._sequence)
        self._segment = self._next_segment(reached)
        closed.close()
        return reached

    def drop(self, through: int) -> None:
        """Delete the generations that are in the tree, oldest first. After a crash the next start deletes the rest."""
        for generation, path in segments(self._folder, self._files):
            if generation <= through:
                self._files.remove(path)

    def close(self) -> None:
        self._segment.close()

    def _next_segment(self, reached: LogPosition) -> Segment:
        return Segment.create(self._folder, reached.generation + 1, reached.frame + 1, self._segment_bytes, self._files)


def recover(
    folder: Path, reached: LogPosition | None, files: Files = SYSTEM_FILES
) -> tuple[dict[bytes, bytes | None], LogPosition]:
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
        header, data = open_segment(path, files)
        if (header.generation, generation, header.first_frame) != (at.generation + 1, at.generation + 1, at.frame + 1):
            raise StoreRefused(
                f"{path}: begins with frame {header.first_frame} of generation {header.generation}, "
                f"but frame {at.frame + 1} of generation {at.generation + 1} is next"
            )
        at = LogPosition(generation=generation, frame=at.frame, sequence=at.sequence)
        for frame in frames(path, header, data):
            sequence, changed = decode(path, frame)
            effects.update(changed)
            at = LogPosition(generation=generation, frame=frame.number, sequence=sequence)
    if reached is None and at.frame:
        raise StoreRefused(f"{folder}: a log with rows beside a tree that was never written")
    return effects, at


def open_segment(path: Path, files: Files = SYSTEM_FILES) -> tuple[Header, bytes]:
    data = files.read_synced(path)
    if len(data) < SEGMENT_HEADER_BYTES:
        raise StoreRefused(f"{path}: {len(data)} bytes are no log segment")
    magic, version, salt, generation, first_frame = SEGMENT_HEADER.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        raise StoreRefused(f"{path}: not a log segment")
    if version != FORMAT:
        raise StoreRefused(f"{path}: log format {version}; this version reads format {FORMAT}")
    if CRC.unpack_from(data, SEGMENT_HEADER.size)[0] != zlib.crc32(data[: SEGMENT_HEADER.size]):
        raise StoreRefused(f"{path}: the segment's header is damaged")
    return Header(generation=generation, first_frame=first_frame, salt=salt), data


def frames(path: Path, header: Header, data: bytes) -> Iterator[Frame]:
    """The frames of a segment, up to one that was cut by a crash."""
    offset, number = SEGMENT_HEADER_BYTES, header.first_frame
    while (frame := frame_at(data, offset, header.salt)) is not None:
        if frame.number != number:
            raise StoreRefused(f"{path}: frame {frame.number} at byte {offset}, where frame {number} is next")
        yield frame
        offset, number = frame.end, number + 1
    if not was_cut(data, offset, header.salt):
        raise StoreRefused(f"{path}: frame {number} at byte {offset} is damaged")
    if (later := next_frame(data, offset, header.salt)) is not None:
        raise StoreRefused(f"{path}: frame {number} at byte {offset} is damaged, but frame {later.number} follows it")


def frame_at(data: bytes, offset: int, salt: int) -> Frame | None:
    """The complete frame with a right checksum that begins here, if there is one."""
    length = payload_length(data, offset, salt)
    if length is None:
        return None
    _, _, number, crc = FRAME_HEADER.unpack_from(data, offset)
    begin = offset + FRAME_HEADER_BYTES
    end = begin + length
    payload = data[begin:end]
    if data[end : end + 1] != END or zlib.crc32(payload, salt) != crc:
        return None
    return Frame(number=number, payload=payload, end=end + len(END))


def payload_length(data: bytes, offset: int, salt: int) -> int | None:
    """From the header of the frame here, if that is complete and its checksum right."""
    fields = data[offset : offset + FRAME_HEADER.size]
    rest = data[offset + FRAME_HEADER.size : offset + FRAME_HEADER_BYTES]
    if not fields.startswith(FRAME_MAGIC) or rest != CRC.pack(zlib.crc32(fields, salt)) + END:
        return None
    length: int = FRAME_HEADER.unpack(fields)[1]
    return length


def was_cut(data: bytes, offset: int, salt: int) -> bool:
    """Whether a crash can have left this: nothing, or a frame of which some part was never written."""
    length = payload_length(data, offset, salt)
    if length is None:
        return lacks_part(data, offset, offset + FRAME_HEADER_BYTES)
    return lacks_part(data, offset, offset + FRAME_HEADER_BYTES + length + len(END))


def lacks_part(data: bytes, begin: int, end: int) -> bool:
    """Whether the last byte, or all bytes in one sector, are zero. No part ends with a zero byte."""
    if end > len(data) or data[end - 1] == 0:
        return True
    bounds = [begin, *range(begin - begin % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES), end]
    return any(not any(data[start:stop]) for start, stop in pairwise(bounds))


def next_frame(data: bytes, offset: int, salt: int) -> Frame | None:
    """The first frame with a right checksum anywhere after this offset."""
    while (offset := data.find(FRAME_MAGIC, offset + 1)) >= 0:
        if (frame := frame_at(data, offset, salt)) is not None:
            return frame
    return None


def encode_frame(number: int, payload: bytes, salt: int) -> bytes:
    fields = FRAME_HEADER.pack(FRAME_MAGIC, len(payload), number, zlib.crc32(payload, salt))
    return b"".join((fields, CRC.pack(zlib.crc32(fields, salt)), END, payload, END))


def decode(path: Path, frame: Frame) -> Payload:
    try:
        return decoder.decode(frame.payload)
    except DecodeError as error:
        raise StoreRefused(f"{path}: frame {frame.number} is not what this version writes: {error}") from None


def segment_path(folder: Path, generation: int) -> Path:
    return folder / f"{generation:016d}{LOG_SUFFIX}"


def segments(folder: Path, files: Files = SYSTEM_FILES) -> list[tuple[int, Path]]:
    found = [folder / name for name in files.names(folder) if name.endswith(LOG_SUFFIX)]
    if strange := [path for path in found if not path.stem.isdecimal()]:
        raise StoreRefused(f"{strange[0]}: not a log segment")
    return sorted((int(path.stem), path) for path in found)
