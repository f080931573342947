"""The row that says how far a scrub has come, so that a restart does not begin it again:

(2, replica, SCRUB)     where the round under way goes on, what it found so far, and when the last one ended
"""

from msgspec import Struct

from epoxy.codec.tuple import pack, unpack
from epoxy.model.errors import CodecError, RottenRow
from epoxy.ports import Snapshot
from epoxy.store.keyspace import LAYOUT

# Beside those of `keyspace` and `member_rows`, and as unchangeable.
SCRUB = 12

FORMAT = 1


class ScrubProgress(Struct, frozen=True, kw_only=True):
    """`after`: the last row that was checked in the round under way, empty if none is. Times are the system's, in
    milliseconds; 0: never."""

    after: bytes = b""
    rows: int = 0
    bytes: int = 0
    begun_ms: int = 0
    ended_ms: int = 0
    """Of the last complete round."""
    last_rows: int = 0
    """Of the last complete round."""

    @property
    def is_under_way(self) -> bool:
        return bool(self.after)


NEVER = ScrubProgress()


class ScrubSpace:
    def __init__(self, replica_id: int) -> None:
        self.row = pack((LAYOUT, replica_id, SCRUB))

    def load(self, view: Snapshot) -> ScrubProgress:
        """A row that cannot be read is as good as none: the scrub begins again."""
        try:
            value = view.get(self.row)
            return decode(value) if value is not None else NEVER
        except (RottenRow, CodecError):
            return NEVER

    def rows(self, progress: ScrubProgress) -> dict[bytes, bytes | None]:
        return {self.row: encode(progress)}


def encode(progress: ScrubProgress) -> bytes:
    numbers = (progress.rows, progress.bytes, progress.begun_ms, progress.ended_ms, progress.last_rows)
    return pack((FORMAT, progress.after, *numbers))


def decode(value: bytes) -> ScrubProgress:
    match unpack(value):
        case (1, bytes(after), int(rows), int(size), int(begun_ms), int(ended_ms), int(last_rows)):
            return ScrubProgress(
                after=after, rows=rows, bytes=size, begun_ms=begun_ms, ended_ms=ended_ms, last_rows=last_rows
            )
        case _:
            return NEVER
