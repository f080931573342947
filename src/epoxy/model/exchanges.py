"""Requests to actors and their answers as a node, another datacenter and a worker pass them on: heads, pieces of bodies
and messages of WebSockets, with windows.

A stream is one request with its answer, or one WebSocket. Each end may send what the other has given it credit for,
`WINDOW_BYTES` at first: a slow reader holds up its own stream and no other. A piece takes its `cost` from the window,
and may be sent while anything is left, so that the last one may exceed it. The bodies of `Opened` and `Head` are not
counted.

Credit for a piece is given when it was used: when the client has read it, or the actor's code has seen it. What a
worker has given no credit for its actor never saw: if the stream is refused, or the actor falls asleep, its node gives
it again. So a worker gives the credit of whole pieces in order, and sends it before `Stopped`. A WebSocket is closed in
either direction with `Reset`.
"""

from msgspec import Struct

WINDOW_BYTES = 256 << 10
"""Unread bytes of one stream in one direction."""

WHOLE_BYTES = 64 << 10
"""A body up to this size is sent in one message with its head, and needs no stream."""

PIECE_COST = 64
"""Of a piece, besides its bytes: empty messages of a WebSocket take memory, too."""

MAX_PIECE_BYTES = 1 << 20
"""A message of a WebSocket. Bodies are cut into smaller pieces, as the window allows."""

MAX_HEADERS_BYTES = 32 << 10
MAX_CHAIN = 16
"""Actors that wait for each other in one row of calls."""

MAX_IDEMPOTENCY_KEY_BYTES = 255
MAX_ATTACHMENT_BYTES = 2 << 10

Headers = tuple[tuple[str, str], ...]


def cost(body: bytes) -> int:
    """What a piece takes from a window."""
    return len(body) + PIECE_COST


class RequestHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`caller`: the name of the grant that the client has shown; empty at an open node. `chain`: the ids of the actors
    whose calls led here, which wait for the answer. `upgrade`: a WebSocket; `protocols`: those its client offers."""

    method: str = "POST"
    path: str = "/"
    query: str = ""
    headers: Headers = ()
    caller: str = ""
    idempotency_key: str = ""
    chain: tuple[str, ...] = ()
    upgrade: bool = False
    protocols: tuple[str, ...] = ()


class Head(Struct, frozen=True, kw_only=True, tag="head", omit_defaults=True):
    """How an answer begins. `fin`: and ends, `body` is all of it. A WebSocket is accepted with 101, and `protocol` is
    the one of those offered that its actor chose."""

    stream: int
    status: int = 200
    headers: Headers = ()
    body: bytes = b""
    fin: bool = False
    protocol: str = ""


class Piece(Struct, frozen=True, kw_only=True, tag="piece", omit_defaults=True):
    """A part of a body, or a message of a WebSocket, whole. `fin`: the last one in this direction."""

    stream: int
    body: bytes = b""
    fin: bool = False
    text: bool = False


class Credit(Struct, frozen=True, kw_only=True, tag="credit"):
    """So many bytes more may be sent."""

    stream: int
    amount: int


class Reset(Struct, frozen=True, kw_only=True, tag="reset", omit_defaults=True):
    """The stream ends at once, in both directions. `refused`: the actor's code never saw the request, which may be
    given again, unless the actor is `busy`. `code`: of a WebSocket's close frame."""

    stream: int
    reason: str = ""
    refused: bool = False
    code: int = 0
    busy: bool = False


class HeldSocket(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A WebSocket that its node keeps open while the actor is asleep, with what the actor wants to know about it when
    it wakes."""

    stream: int
    head: RequestHead
    protocol: str = ""
    attachment: bytes = b""
