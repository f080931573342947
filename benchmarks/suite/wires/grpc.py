"""gRPC as etcd speaks it: HTTP/2 frames, header blocks that never change, and protobuf messages put together by hand.

No header is ever indexed, so that a block is the same bytes on every stream. Headers that come back are not decoded:
whether an answer is right stands in its message, and one that failed has none.
"""

import struct

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
EQUAL, CREATE_REVISION = 0, 1
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
