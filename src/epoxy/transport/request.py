"""What is asked and what is answered over HTTP, as values.

Apart from those who make them, which are compiled: a compiled record loses its keywords.
"""

from msgspec import Struct


class Request(Struct, frozen=True):
    method: str
    path: bytes
    """As it was sent, still percent-encoded, without the query."""
    query: bytes
    headers: dict[bytes, bytes]
    """By lower-case name. A header sent twice is joined with a comma."""
    body: bytes


class Answer(Struct, frozen=True):
    """As the one who asked sees it."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
