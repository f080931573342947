"""Skips the parser for requests that differ from the one before in their address alone.

A client sends the same headers with every GET. A connection keeps the last ones, as bytes and parsed, and compares the
bytes of the next request with them.
"""

import re

Headers = dict[bytes, bytes]

GET = b"GET "

BLOCK_BYTES = 2048
"""The longest headers remembered: 20 MB for 10,000 connections. Clients send some hundred."""

SPECIAL = (b"content-length", b"transfer-encoding", b"expect")
"""Headers that announce a body. A request with one of them is not remembered."""

EVERYWHERE = (b"/",)
"""How all addresses begin."""

TARGET = re.compile(rb"/[!-~]*")
"""Addresses that need no further checks."""


class HeaderMemo:
    """`block`: all bytes after the address, up to the empty line. `lasting`: how the addresses begin whose cached
    answers a client with these headers may have; none before an answer to such a request was cached. That holds while
    `generation` is the cache's."""

    __slots__ = ("block", "generation", "headers", "lasting")

    def __init__(self) -> None:
        self.block = b""
        self.headers: Headers = {}
        self.lasting: tuple[bytes, ...] = ()
        self.generation = 0

    def learn(self, piece: bytes, target: bytes, headers: Headers) -> None:
        """`piece` was exactly one request, for `target`."""
        head = GET + target
        if piece.startswith(head) and len(piece) - len(head) <= BLOCK_BYTES and headers.keys().isdisjoint(SPECIAL):
            self.block, self.headers, self.lasting = piece[len(head) :], headers, ()

    def target(self, piece: bytes) -> bytes | None:
        """The address in `piece`, which begins with GET, if all after it is the same as the last time."""
        end = piece.find(b" ", len(GET))
        return piece[len(GET) : end] if piece[end:] == self.block else None
