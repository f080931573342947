"""Requests and replies of HTTP as records, in a module that is not compiled: a compiled record loses its keywords."""

from msgspec import Struct


class HttpRequest(Struct, frozen=True):
    method: str
    path: bytes
    """As it was sent, still percent-encoded, without the query."""
    query: bytes
    headers: dict[bytes, bytes]
    """By lower-case name. A header sent twice is joined with a comma."""
    body: bytes


class HttpReply(Struct, frozen=True):
    """A reply at the client's end. A frame has no headers; fields of it stand below instead."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    took_us: int = 0
    """Time the server spent, mostly on its disk."""
    recorded: bool = False
    """Whether our store is on record at the server."""
    position: int = 0
    """Of the server's store."""
