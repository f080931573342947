"""gRPC as etcd speaks it: HTTP/2 frames, header blocks that never change, and protobuf messages put together by hand.

No header is ever indexed, so that a block is the same bytes on every stream. Headers that come back are not decoded:
whether an answer is right stands in its message, and one that failed has none.
"""

import struct
from collections.abc import Iterator

from msgspec import Struct

from benchmarks.suite.job import Exchange

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK, PADDED = 1, 4, 1, 8
INITIAL_WINDOW = 65535
MAX_FRAME = 16384
MAX_WINDOW = (1 << 31) - 1
INITIAL_WINDOW_SETTING = 4
FRAME_HEAD = struct.Struct(">IBI")
"""Length and type share the first four bytes."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return FRAME_HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def greeting() -> bytes:
    """We take whatever comes: both windows are as wide as they can be."""
    settings = struct.pack(">HI", INITIAL_WINDOW_SETTING, MAX_WINDOW)
    return (
        PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW, 0, 0, struct.pack(">I", MAX_WINDOW - INITIAL_WINDOW))
    )


def literal(index: int, value: bytes) -> bytes:
    """A header without indexing, its name out of the static table."""
    name = bytes([index]) if index < 15 else bytes([15, index - 15])
    return name + bytes([len(value)]) + value


def header_block(path: bytes) -> bytes:
    post, http = b"\x83", b"\x86"
    trailers = b"\x00\x02te\x08trailers"
    return post + http + literal(4, path) + literal(1, b"localhost") + literal(31, b"application/grpc") + trailers


def call(path: bytes, message: bytes) -> bytes:
    """A request: the length of its header block, the block, and the message as gRPC wraps it."""
    block = header_block(path)
    return bytes([len(block)]) + block + struct.pack(">BI", 0, len(message)) + message


def varint(number: int) -> bytes:
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def field(number: int, content: bytes) -> bytes:
    """One with a length: bytes, or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def flag(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


TXN, PUT, RANGE = b"/etcdserverpb.KV/Txn", b"/etcdserverpb.KV/Put", b"/etcdserverpb.KV/Range"
EQUAL, CREATE_REVISION, MOD_REVISION = 0, 1, 2
SUCCEEDED = flag(2, 1)


def create(key: bytes, value: bytes) -> Exchange:
    """If its create_revision is 0, nobody has created it. Whoever loses learns what is there, as with us."""
    compare = flag(1, EQUAL) + flag(2, CREATE_REVISION) + field(3, key) + flag(5, 0)
    success = field(2, field(1, key) + field(2, value))
    failure = field(1, field(1, key))
    return Exchange(call(TXN, field(1, compare) + field(2, success) + field(3, failure)), SUCCEEDED)


def put_many(pairs: list[tuple[bytes, bytes]]) -> Exchange:
    """Without a condition, in one transaction."""
    puts = b"".join(field(2, field(2, field(1, key) + field(2, value))) for key, value in pairs)
    return Exchange(call(TXN, puts), SUCCEEDED)


def put(key: bytes, value: bytes) -> Exchange:
    return Exchange(call(PUT, field(1, key) + field(2, value)), b"")


def get(key: bytes, value: bytes, *, linearizable: bool) -> Exchange:
    message = field(1, key) + (b"" if linearizable else flag(7, 1))
    return Exchange(call(RANGE, message), field(5, value))


def accepts(message: bytes, expected: bytes) -> bool:
    """Every answer begins with a header of its own, shorter than 128 bytes. What has succeeded says so next; a value is
    somewhere behind."""
    if message[:1] != b"\x0a":
        return False
    rest = message[2 + message[1] :]
    return rest.startswith(expected) if expected[:1] == SUCCEEDED[:1] else expected in rest


def add(key: bytes, _value: bytes) -> Exchange:
    """The client puts the requests together, each out of what it saw last."""
    return Exchange(key, b"")


def replace_number(key: bytes, *, revision: int, number: int) -> bytes:
    """Put the number if the key is still what it was at that revision (0: never written), else read what is there."""
    compare = flag(1, EQUAL) + flag(2, MOD_REVISION) + field(3, key) + flag(6, revision)
    success = field(2, field(1, key) + field(2, b"%d" % number))
    failure = field(1, field(1, key))
    return call(TXN, field(1, compare) + field(2, success) + field(3, failure))


class Replaced(Struct, frozen=True):
    """`revision`: of what was put, or of what is there instead; `number`: what is there instead."""

    succeeded: bool
    revision: int
    number: int = 0


def replaced_number(message: bytes) -> Replaced:
    """ValueError: it is no answer to that."""
    found = dict(fields(message))
    if found.get(2) == 1:
        return Replaced(True, whole(dict(fields(part(found[1]))), 3))
    response = dict(fields(part(found[3])))
    kvs = dict(fields(part(response[1]))).get(2)
    if kvs is None:
        return Replaced(False, 0)
    there = dict(fields(part(kvs)))
    return Replaced(False, whole(there, 3), int(part(there[5])))


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and bytes, as etcd uses no others. Of a repeated one the last stays in a dict."""
    at = 0
    while at < len(message):
        tag, at = unvarint(message, at)
        value, at = unvarint(message, at)
        if tag & 7 == 0:
            yield tag >> 3, value
        elif tag & 7 == 2:
            yield tag >> 3, message[at : at + value]
            at += value
        else:
            raise ValueError(f"a field of kind {tag & 7}")


def unvarint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def part(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message should be")
    return value


def whole(found: dict[int, int | bytes], number: int) -> int:
    value = found.get(number, 0)
    if isinstance(value, bytes):
        raise ValueError("a message where a number should be")
    return value
