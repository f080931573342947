"""What is asked and what is answered over HTTP, as values.

Apart from those who make them, which are compiled: a compiled record loses its keywords.
"""

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
    """As the one who asked sees it. A frame has no headers, and says what they would in two numbers."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    took_us: int = 0
    """That whoever answered spent, mostly on its disk."""
    store: int = 0
    """The identity of its store, if it knows ours."""
