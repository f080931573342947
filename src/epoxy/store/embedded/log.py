"""The write-ahead log: commits that are not in the tree yet. `recovery.py` reads it.

A segment is one file for one generation of the store. It is made whole (allocated, header, synced) under another name
before it gets its own, so a segment that exists has a good header. After the header, which has a sector for itself,
come frames, each the effects of all transactions that share one sync:

    segment     "EPOXYLOG" | format u32 | salt u32 | generation u64 | number of its first frame u64 | allocated u64
                | crc of this header u32
    frame       "EPXF" | length u32 | number u64 | crc of the body u32 | crc of this header u32 | a5
                body: msgpack [sequence of the stamps, {key: value or nil}], with the byte a5 put in at the beginning of
                every sector of the file | a5

A frame is written with one call and synced before the next one is started. The file reads as zeros where nothing was
written, and every sector of a frame holds a byte that is not zero, whatever is stored in it: so a frame that was cut by
a crash is told from one that was damaged later.

The file grows before a frame needs it: more is allocated and synced, then the header says so, then the frame is
written. So a file that is shorter than its header says was cut short. Checksums start from the segment's salt, which no
client knows, so no client can store a value that looks like a frame.
"""

import secrets
import struct
import zlib
from pathlib import Path

from msgspec import Struct
from msgspec.msgpack import Encoder
from msgspec.structs import replace

from epoxy.model.errors import StoreRefused
from epoxy.store.conflicts import Values
from epoxy.store.embedded.files import SYSTEM_FILES, Files, write_all
from epoxy.store.embedded.syncs import SyncTimes

FORMAT = 2
SECTOR_BYTES = 512
"""Every disk writes so much atomically. Larger sectors only make cuts coarser."""

LOG_SUFFIX = ".log"
DRAFT = "next"
SEGMENT_MAGIC, FRAME_MAGIC, END = b"EPOXYLOG", b"EPXF", b"\xa5"
SEGMENT_HEADER = struct.Struct("<8sIIQQQ")
FRAME_HEADER = struct.Struct("<4sIQI")
CRC = struct.Struct("<I")
FRAMES_AT = SECTOR_BYTES
FRAME_HEADER_BYTES = FRAME_HEADER.size + CRC.size + len(END)

encoder = Encoder()


class LogPosition(Struct, frozen=True, kw_only=True):
    """A position in the log: the last complete generation, its last frame, and the last stamp."""

    generation: int = 0
    frame: int = 0
    sequence: int = 0


class Header(Struct, frozen=True, kw_only=True):
    """`allocated`: how long the file is, at least."""

    generation: int
    first_frame: int
    salt: int
    allocated: int

    def encode(self) -> bytes:
        numbers = (self.salt, self.generation, self.first_frame, self.allocated)
        fields = SEGMENT_HEADER.pack(SEGMENT_MAGIC, FORMAT, *numbers)
        return fields + CRC.pack(zlib.crc32(fields))


class Segment:
    """A generation's file, open for appending."""

    def __init__(self, files: Files, file: int, header: Header, allocate_bytes: int) -> None:
        self.header = header
        self.next_frame = header.first_frame
        self.broken = False
        self._files = files
        self._file = file
        self._allocate_bytes = allocate_bytes
        self._end = FRAMES_AT

    @classmethod
    def create(
        cls,
        folder: Path,
        generation: int,
        first_frame: int,
        allocate_bytes: int,
        files: Files = SYSTEM_FILES,
        room: int | None = None,
    ) -> "Segment":
        """`room`: as `make_room` returned it."""
        header = Header(
            generation=generation,
            first_frame=first_frame,
            salt=secrets.randbits(32),
            allocated=FRAMES_AT + allocate_bytes,
        )
        file = make_room(folder, allocate_bytes, files) if room is None else room
        try:
            write_all(files, file, header.encode(), 0)
            files.sync(file)
            files.rename(folder / DRAFT, segment_path(folder, generation))
            files.sync_folder(folder)
        except BaseException:
            files.close(file)
            raise
        return cls(files, file, header, allocate_bytes)

    def frame(self, sequence: int, effects: Values) -> bytes:
        """The next one."""
        return encode_frame(self.next_frame, encoder.encode((sequence, effects)), self.header.salt, self._end)

    def write(self, frame: bytes) -> int:
        """Write and sync one frame; its size in bytes. After a failure the end of the segment is unknown."""
        file, offset = self.begin()
        if not self.has_room(frame):
            self._grow(offset + len(frame))
        write_all(self._files, file, frame, offset)
        return self.end(frame)

    def has_room(self, frame: bytes) -> bool:
        return self._end + len(frame) <= self.header.allocated

    def begin(self) -> tuple[int, int]:
        """The file and the offset that the next frame is written to."""
        assert not self.broken, "a failed sync is never tried again"
        self.broken = True
        return self._file, self._end

    def end(self, frame: bytes) -> int:
        """It is synced; its size in bytes."""
        self._end += len(frame)
        self.next_frame += 1
        self.broken = False
        return len(frame)

    def close(self) -> None:
        self._files.close(self._file)

    def _grow(self, end: int) -> None:
        """The length first, durably, and then the header that promises it."""
        begin = self.header.allocated
        size = -(-(end - begin) // self._allocate_bytes) * self._allocate_bytes
        self._files.allocate(self._file, begin, size)
        self._files.sync(self._file)
        self.header = replace(self.header, allocated=begin + size)
        write_all(self._files, self._file, self.header.encode(), 0)


def make_room(folder: Path, allocate_bytes: int, files: Files) -> int:
    """The file of a segment before it has its header and its name. A full disk fails here, and later syncs need not
    update the file's size."""
    file = files.create(folder / DRAFT)
    try:
        files.allocate(file, 0, FRAMES_AT + allocate_bytes)
    except BaseException:
        files.close(file)
        raise
    return file


class WriteAheadLog:
    """The segments that are not in the tree yet; frames go to the newest. The event loop makes frames, a thread writes
    them in turn (`log_lane.py`), and a second one calls `drop` and `prepare`, never while the first calls `rotate`."""

    def __init__(self, folder: Path, reached: LogPosition, segment_bytes: int, files: Files = SYSTEM_FILES) -> None:
        """Starts the generation after `reached`."""
        self._files = files
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._sequence = reached.sequence
        self.syncs = SyncTimes()
        self._room: int | None = None
        """For the next segment, once that is prepared."""
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

    def begin_write(self, frame: bytes) -> tuple[int, int] | None:
        """The file and the offset of a frame that another writes, who then calls `end_write`. None: the segment has to
        grow before, which takes `write`."""
        if not self._segment.has_room(frame):
            return None
        self.syncs.begin()
        return self._segment.begin()

    def end_write(self, frame: bytes, began_s: float, ended_s: float) -> int:
        self.syncs.ended(began_s, ended_s)
        return self._segment.end(frame)

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

    def prepare(self) -> None:
        """Make room for the next segment, so that `rotate`, which commits wait for, need not."""
        if self._room is None:
            self._room = make_room(self._folder, self._segment_bytes, self._files)

    def close(self) -> None:
        self._segment.close()
        if self._room is not None:
            self._files.close(self._room)

    def _next_segment(self, reached: LogPosition) -> Segment:
        room, self._room = self._room, None
        generation, first_frame = reached.generation + 1, reached.frame + 1
        return Segment.create(self._folder, generation, first_frame, self._segment_bytes, self._files, room)


def encode_frame(number: int, payload: bytes, salt: int, offset: int) -> bytes:
    """For this place in the file."""
    body = marked(payload, offset + FRAME_HEADER_BYTES)
    fields = FRAME_HEADER.pack(FRAME_MAGIC, len(payload), number, zlib.crc32(body, salt))
    return b"".join((fields, CRC.pack(zlib.crc32(fields, salt)), END, body, END))


def marked(payload: bytes, begin: int) -> bytes:
    """With a byte that is not zero at the beginning of every sector of the file."""
    room = -begin % SECTOR_BYTES
    if len(payload) <= room:
        return payload
    step = SECTOR_BYTES - len(END)
    return END.join([payload[:room], *[payload[at : at + step] for at in range(room, len(payload), step)]])


def segment_path(folder: Path, generation: int) -> Path:
    return folder / f"{generation:016d}{LOG_SUFFIX}"


def segments(folder: Path, files: Files = SYSTEM_FILES) -> list[tuple[int, Path]]:
    found = [folder / name for name in files.names(folder) if name.endswith(LOG_SUFFIX)]
    if strange := [path for path in found if not path.stem.isdecimal()]:
        raise StoreRefused(f"{strange[0]}: not a log segment")
    return sorted((int(path.stem), path) for path in found)
