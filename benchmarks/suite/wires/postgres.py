"""PostgreSQL's protocol: prepared statements, bound and executed by name. Every right answer is known to the byte."""

import struct

from benchmarks.suite.job import Exchange

READY = b"Z\x00\x00\x00\x05I"
BOUND = b"2\x00\x00\x00\x04"
INSERT = "insert into kv values ($1, $2) on conflict do nothing"
PUT = "insert into kv values ($1, $2) on conflict (key) do update set value = excluded.value"
GET = "select value from kv where key = $1"


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


def startup(user: str, database: str) -> bytes:
    words = b"".join(word.encode() + b"\0" for word in ("user", user, "database", database)) + b"\0"
    return struct.pack(">II", len(words) + 8, 196608) + words


SYNC = message(b"S", b"")


def parse(name: str, statement: str) -> bytes:
    return message(b"P", name.encode() + b"\0" + statement.encode() + b"\0" + struct.pack(">H", 0)) + SYNC


def run(name: str, *values: bytes) -> bytes:
    """Bytes in, bytes out."""
    bound = b"\0" + name.encode() + b"\0" + struct.pack(">HHH", 1, 1, len(values))
    bound += b"".join(struct.pack(">I", len(value)) + value for value in values) + struct.pack(">HH", 1, 1)
    return message(b"B", bound) + message(b"E", b"\0" + struct.pack(">I", 0)) + SYNC


def done(tag: str) -> bytes:
    return message(b"C", tag.encode() + b"\0")


def greeting(user: str, database: str) -> tuple[bytes, ...]:
    statements = {"create": INSERT, "put": PUT, "get": GET}
    return (startup(user, database), *(parse(name, statement) for name, statement in statements.items()))


def create(key: bytes, value: bytes) -> Exchange:
    """A key that is there is no error, and no row either: another answer."""
    return Exchange(run("create", key, value), BOUND + done("INSERT 0 1") + READY)


def put(key: bytes, value: bytes) -> Exchange:
    return Exchange(run("put", key, value), BOUND + done("INSERT 0 1") + READY)


def get(key: bytes, value: bytes) -> Exchange:
    row = message(b"D", struct.pack(">HI", 1, len(value)) + value)
    return Exchange(run("get", key), BOUND + row + done("SELECT 1") + READY)


def trouble(data: bytes) -> str:
    """What the server complains about, or how it begins if it does not."""
    if data[:1] != b"E":
        return f"other {data[:1].decode('ascii', 'replace')}"
    fields = data[5:].split(b"\0")
    return next((field[1:].decode("utf-8", "replace") for field in fields if field[:1] == b"M"), "error")
