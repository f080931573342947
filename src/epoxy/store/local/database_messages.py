"""What the processes of one machine say to the one that has the data directory, and its answers.

    frame      length u32, little endian | message (msgpack)
    ask        [kind, number, …]; what it is answered with follows from its kind
    answer     [number, value]; of number 0: an order of the first process

Both ends are one program in one version: one of them started the other.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Raw, Struct, msgpack

from epoxy.store.shared.database import GroupCommit

LENGTH_BYTES = 4

MAX_FRAME_BYTES = 512 << 20
"""Twice what a store may have written and not durable (`rows.MAX_PENDING_BYTES`); loads are split far below."""


class DatabaseAsk(Struct, frozen=True, array_like=True, tag=True):
    number: int


class BatchAsk(DatabaseAsk, frozen=True, array_like=True, tag=1):
    batch: GroupCommit


class FenceAsk(DatabaseAsk, frozen=True, array_like=True, tag=2):
    session: int
    config_epoch: int


class RowsAsk(DatabaseAsk, frozen=True, array_like=True, tag=3):
    keys: Sequence[bytes]


class ShardAsk(DatabaseAsk, frozen=True, array_like=True, tag=4):
    shard: int


class OpenAsk(DatabaseAsk, frozen=True, array_like=True, tag=5):
    url: str
    version: str
    lease_ms: float


class RenewAsk(DatabaseAsk, frozen=True, array_like=True, tag=6):
    session: int
    lease_ms: float


class TakeAsk(DatabaseAsk, frozen=True, array_like=True, tag=7):
    session: int
    shards: Sequence[int]
    dead: Sequence[int]


class GiveAsk(DatabaseAsk, frozen=True, array_like=True, tag=8):
    session: int
    shard: int
    epoch: int
    to: int


class CloseAsk(DatabaseAsk, frozen=True, array_like=True, tag=9):
    session: int


class RangeAsk(DatabaseAsk, frozen=True, array_like=True, tag=10):
    begin: bytes
    end: bytes
    limit: int
    reverse: bool


class PositionAsk(DatabaseAsk, frozen=True, array_like=True, tag=11):
    pass


class CutAsk(DatabaseAsk, frozen=True, array_like=True, tag=12):
    """Open a cut; the number of this ask is its name from here on."""


class CutRowAsk(DatabaseAsk, frozen=True, array_like=True, tag=13):
    cut: int
    key: bytes


class CutRangeAsk(DatabaseAsk, frozen=True, array_like=True, tag=14):
    cut: int
    begin: bytes
    end: bytes
    limit: int
    reverse: bool


class CutEndAsk(DatabaseAsk, frozen=True, array_like=True, tag=15):
    cut: int


class FlushAsk(DatabaseAsk, frozen=True, array_like=True, tag=16):
    session: int
    config_epoch: int


AnyAsk = (
    BatchAsk
    | FenceAsk
    | RowsAsk
    | ShardAsk
    | OpenAsk
    | RenewAsk
    | TakeAsk
    | GiveAsk
    | CloseAsk
    | RangeAsk
    | PositionAsk
    | CutAsk
    | CutRowAsk
    | CutRangeAsk
    | CutEndAsk
    | FlushAsk
)


class DatabaseAnswer(Struct, frozen=True, array_like=True):
    """`failure`: why there is no value; empty: there is."""

    number: int
    value: Raw
    failure: str = ""


NO_VALUE = Raw(msgpack.encode(None))


class Order(Enum):
    """What the first process says without being asked."""

    END = "end"
    HURRY = "hurry"
    RELOAD = "reload"


ORDERS = 0
"""The number of orders."""

ask_decoder = msgpack.Decoder(AnyAsk)
answer_decoder = msgpack.Decoder(DatabaseAnswer)


class BadDatabaseFrame(Exception):
    """A frame that is longer than any."""


def framed(message: object) -> bytes:
    body = msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


class FrameBuffer:
    """Cuts what a socket brings into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        held = self._bytes
        held += data
        begin = 0
        while len(held) - begin >= LENGTH_BYTES:
            size = int.from_bytes(held[begin : begin + LENGTH_BYTES], "little")
            if size > MAX_FRAME_BYTES:
                raise BadDatabaseFrame(f"a message of {size} bytes")
            end = begin + LENGTH_BYTES + size
            if end > len(held):
                break
            yield bytes(held[begin + LENGTH_BYTES : end])
            begin = end
        del held[:begin]
