"""Requests that differ from the one before in nothing but their address.

A client sends the same headers with every GET. Bytes that have been parsed once mean the same the next time, so a
connection remembers the last headers it saw, all of them as one piece, and compares.
"""

import re

Headers = dict[bytes, bytes]

GET = b"GET "

BLOCK_BYTES = 2048
"""The longest headers remembered: 20 MB for 10,000 connections. What clients send on their own has some hundred."""

SPECIAL = (b"content-length", b"transfer-encoding", b"expect")
"""Headers that announce more than a head."""

TARGET = re.compile(rb"/[!-~]*")
"""What a parser takes for an address without a second look."""


class Repetition:
    """`block` is everything behind the address, up to the empty line; `lasting` whether an answer to it was one that
    may be kept for ever."""

    __slots__ = ("block", "headers", "lasting")

    def __init__(self) -> None:
        self.block = b""
        self.headers: Headers = {}
        self.lasting = False

    def learn(self, piece: bytes, target: bytes, headers: Headers) -> None:
        """`piece` was one whole request, and nothing else, for `target`."""
        head = GET + target
        if piece.startswith(head) and len(piece) - len(head) <= BLOCK_BYTES and headers.keys().isdisjoint(SPECIAL):
            self.block, self.headers, self.lasting = piece[len(head) :], headers, False

    def target(self, piece: bytes) -> bytes | None:
        """The address in `piece`, which begins with GET, if everything behind it is as the last time."""
        end = piece.find(b" ", len(GET))
        return piece[len(GET) : end] if piece[end:] == self.block else None
