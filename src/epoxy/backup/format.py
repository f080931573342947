"""The format of a backup file: a stream of blocks, each with checksums of its own, and a digest of all at the end.

    file     = magic, u16 version, u64 nonce, frame...
    frame    = u32 length of the block, u64 number of the frame, block, u64 checksum
    block    = u8 kind, u32 records, column..., u64 checksum
    column   = u32 length of each record's field..., the fields

A block is what a node makes and sends: its checksum covers the way from there to the file. A frame is what the writer
of the file adds: its checksum also covers its number, and is seeded with the file's nonce, so a block that was moved
within a file or taken from another one is found. Checksums are XXH3-64; numbers in frames and blocks are little-endian.

The first block is the header, the last one the end, with counts and the BLAKE2b digest of all bytes before it: a file
without it is incomplete. Between them come keys, values of transactions and rows of actors, in this order, each sorted
and without repetitions. Columns instead of records: a block is encoded by a few calls, not by several for each record.
"""

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import lt
from typing import TypeVar

import msgspec
from msgspec import Struct
from xxhash import xxh3_64, xxh3_64_digest

from epoxy.model.actors import RESERVATION_KEYS
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import BackupError
from epoxy.model.homes import HOME_KEYS, STATE_KEYS
from epoxy.model.sessions import SESSION_KEYS
from epoxy.model.versions import BACKUP_FORMAT

CARRIED = (RESERVATION_KEYS, HOME_KEYS, STATE_KEYS, SESSION_KEYS)
"""Of the cluster's own keys."""

MAGIC = b"epoxy-backup\n"
VERSION = BACKUP_FORMAT

BLOCK_BYTES = 1 << 20
"""Of records in one block, about: one more record may take it to twice that."""

MAX_BLOCK_BYTES = 4 << 20
"""A longer one is damage: the longest record is a value of 1 MiB with a key of 1 KiB."""

MAX_BLOCK_RECORDS = 1 << 16
"""A block of empty records would have no other bound."""

PREAMBLE = struct.Struct(f"<{len(MAGIC)}sHQ")
FRAME = struct.Struct("<IQ")
BLOCK = struct.Struct("<BI")
LENGTH_BYTES, CHECKSUM_BYTES = 4, 8

Record = tuple[bytes, ...]
T = TypeVar("T")


class Kind(enum.IntEnum):
    """Part of the format: never renumber. In the order of a file."""

    HEADER = 0
    KEYS = 1
    """Key, and its committed record as it is stored: keys of clients, and names, homes and states of actors."""
    VALUES = 2
    """Key, and the record of what transactions hold of it; the value alone, in files whose header says so."""
    ACTORS = 3
    """Datacenter, row and value, as in the store of that datacenter."""
    END = 4


COLUMNS = {Kind.HEADER: 1, Kind.KEYS: 2, Kind.VALUES: 2, Kind.ACTORS: 3, Kind.END: 1}


class BackupMember(Struct, frozen=True, kw_only=True):
    """A member of the cluster that the backup is of."""

    id: int
    datacenter: str
    url: str = ""


class BackupHeader(Struct, frozen=True, kw_only=True):
    """`made_at`: UTC, as in ISO 8601. `replica` and `datacenter`: the node that made it. `cluster`: the id of a cluster
    that was restored itself. `method`: the command that wrote it. `versioned`: values of transactions have versions;
    they are records then, and raw values in files of earlier releases."""

    made_at: str
    replica: int
    datacenter: str
    epoch: int
    members: tuple[BackupMember, ...]
    quorum_policy: str
    version: str
    cluster: str = ""
    method: str = "backup"
    versioned: bool = False


class KindTotal(Struct, frozen=True, kw_only=True):
    """`bytes`: of the records themselves."""

    records: int = 0
    bytes: int = 0

    def plus(self, records: int, size: int) -> "KindTotal":
        return KindTotal(records=self.records + records, bytes=self.bytes + size)


class BackupEnd(Struct, frozen=True, kw_only=True):
    """`missing`: datacenters whose actors' rows could not be had. `digest`: of all bytes before this block."""

    keys: KindTotal = KindTotal()
    values: KindTotal = KindTotal()
    actors: KindTotal = KindTotal()
    missing: tuple[str, ...] = ()
    digest: str = ""


class Block(Struct, frozen=True, gc=False):
    """`size`: of the records, without their lengths."""

    kind: Kind
    records: list[Record]
    size: int


def is_carried(key: bytes) -> bool:
    """Whether a backup has this key. Of the cluster's own keys it has names, homes and states of actors, and sessions,
    since values end with them; members, requests to change them, ends of terms, leases of datacenters, grants and what
    was counted for them belong to the cluster it was made of."""
    return key < FIRST_SYSTEM_KEY or key.startswith(CARRIED)


def encode_block(kind: Kind, records: Sequence[Record]) -> bytes:
    """May run in any thread."""
    count = len(records)
    assert 1 <= count <= MAX_BLOCK_RECORDS, count
    parts = [BLOCK.pack(kind, count)]
    for column in zip(*records, strict=True):
        parts.append(struct.pack(f"<{count}I", *map(len, column)))
        parts += column
    body = b"".join(parts)
    return body + xxh3_64_digest(body)


def decode_block(data: bytes) -> Block:
    """Raises BackupError."""
    kind, count = check_block(data)
    columns: list[list[bytes]] = []
    place, size = BLOCK.size, 0
    for _ in range(COLUMNS[kind]):
        begin = place + LENGTH_BYTES * count
        if begin > len(data):
            raise BackupError("a block is shorter than its records")
        ends = list(accumulate(struct.unpack_from(f"<{count}I", data, place), initial=begin))
        columns.append([data[first:last] for first, last in pairwise(ends)])
        place = ends[-1]
        size += place - begin
    if place + CHECKSUM_BYTES != len(data):
        raise BackupError("a block has another length than its records")
    return Block(kind, list(zip(*columns, strict=True)), size)


def check_block(data: bytes) -> tuple[Kind, int]:
    """Its kind and number of records, if the checksum is right."""
    if not BLOCK.size + CHECKSUM_BYTES <= len(data) <= MAX_BLOCK_BYTES:
        raise BackupError(f"a block of {len(data):,} bytes")
    if xxh3_64_digest(memoryview(data)[:-CHECKSUM_BYTES]) != data[-CHECKSUM_BYTES:]:
        raise BackupError("the checksum of a block is wrong")
    kind, count = BLOCK.unpack_from(data)
    if kind not in COLUMNS or not 1 <= count <= MAX_BLOCK_RECORDS:
        raise BackupError(f"a block of kind {kind} with {count:,} records")
    return Kind(kind), count


def blocks(kind: Kind, records: Iterable[Record]) -> Iterator[bytes]:
    """Records in order, a block at a time."""
    taken: list[Record] = []
    size = 0
    for record in records:
        taken.append(record)
        size += sum(map(len, record))
        if size >= BLOCK_BYTES or len(taken) == MAX_BLOCK_RECORDS:
            yield encode_block(kind, taken)
            taken, size = [], 0
    if taken:
        yield encode_block(kind, taken)


class BlockOrder:
    """Checks that the blocks of a file come in the order of their kinds and records, and counts them."""

    def __init__(self) -> None:
        self._kind = Kind.HEADER
        self._last: Record = ()
        self.totals = dict.fromkeys((Kind.KEYS, Kind.VALUES, Kind.ACTORS), KindTotal())

    def take(self, block: Block) -> None:
        kind = block.kind
        if kind not in self.totals or kind < self._kind:
            raise BackupError(f"a block of {kind.name.lower()} after one of {self._kind.name.lower()}")
        names = [record[:-1] for record in block.records]
        if (kind is self._kind and names[0] <= self._last) or not all(map(lt, names, names[1:])):
            raise BackupError(f"{kind.name.lower()} are not in order")
        self._kind, self._last = kind, names[-1]
        self.totals[kind] = self.totals[kind].plus(len(names), block.size)

    def end(self, missing: tuple[str, ...], digest: str) -> BackupEnd:
        keys, values, actors = self.totals.values()
        return BackupEnd(keys=keys, values=values, actors=actors, missing=missing, digest=digest)


def frame_checksum(prefix: bytes, block: bytes, nonce: int) -> bytes:
    checksum = xxh3_64(prefix, seed=nonce)
    checksum.update(block)
    return checksum.digest()


def encode_one(kind: Kind, content: BackupHeader | BackupEnd) -> bytes:
    return encode_block(kind, [(msgspec.json.encode(content),)])


def decode_one(block: Block, kind: Kind, expected: type[T]) -> T:
    if block.kind is not kind or len(block.records) != 1:
        raise BackupError(f"a block of {block.kind.name.lower()} in the place of the {kind.name.lower()}")
    try:
        return msgspec.json.decode(block.records[0][0], type=expected)
    except msgspec.DecodeError as error:
        raise BackupError(f"the {kind.name.lower()} cannot be read: {error}") from None
