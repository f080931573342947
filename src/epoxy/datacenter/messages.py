"""Messages between the nodes of one datacenter, and their bytes.

    frame       a MessagePack array of messages
    message     [kind, number, content]

A question has a number above 0, and its answer the same one; a message with number 0 is not answered. What a message is
about are the records of the model. Which one it is, is said by `kind` and by nothing else, because most of these
records are members of unions without tags. Requests and replies of peers are bytes of `codec.wire`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.msgpack import Decoder, Encoder, Ext

from epoxy.codec import wire
from epoxy.codec.envoy_frames import join
from epoxy.model.errors import CodecError
from epoxy.model.records import Proposal
from epoxy.model.strings import Fault, Reply, ScriptEnded, SimpleString
from epoxy.model.transactions import Executed, Txn, TxnRefused, TxnUnknown, WrongEngine
from epoxy.model.versions import NODES_WIRE
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Path,
    ReadFailed,
    ReadResult,
    Refused,
    Unchanged,
    VersionMismatch,
    Write,
)

VERSION = NODES_WIRE
"""Of everything below, and of the records in it. Both nodes need the same."""

MAX_MESSAGE_BYTES = wire.MAX_ENCODED_BYTES + (2 << 10)
"""The longest batch of a peer, and what stands before it. With its seal it is within `frames.MAX_FRAME_BYTES`."""


class NodeQuestion(Struct, frozen=True):
    """A message of which the records of the model have no name."""


class ReadAsk(NodeQuestion, frozen=True):
    key: bytes
    consistency: Consistency


class OrderedWriteAsk(NodeQuestion, frozen=True):
    """A write of a key that belongs to transactions by this mark."""

    write: Write
    mark: Proposal


class OrderedReadAsk(NodeQuestion, frozen=True):
    key: bytes
    mark: Proposal
    consistency: Consistency


class ForwardedRequests(NodeQuestion, frozen=True):
    """Requests of another datacenter, for the owner of their keys, as a `PeerRequest`."""

    body: bytes


class Outgoing(NodeQuestion, frozen=True):
    """Requests for another datacenter, for the gateway to send: `count` of them, as `wire.encode_requests` has them.
    `is_asked`: the reply to the last of them is wanted."""

    to: int
    count: int
    requests: bytes
    is_asked: bool


class SessionOver(NodeQuestion, frozen=True):
    """A client's session has ended, and with it the keys that are attached to it."""

    session: bytes


class ComeToRest(NodeQuestion, frozen=True):
    """The gateway is about to adopt a configuration: run no rule until it says `GoOn`, and answer when all that rules
    have written is durable."""


class GoOn(NodeQuestion, frozen=True):
    """Rules run again."""


class CommitNews(NodeQuestion, frozen=True):
    """The changelog has more."""


class GatewayLeaves(NodeQuestion, frozen=True):
    """The gateway is about to hand the system shard over to the session `heir`; 0: to the one that takes it first. The
    heir answers when its clients' connections are closed, the others at once: they forward nothing more to it."""

    heir: int


class PauseRequests(NodeQuestion, frozen=True):
    """Begin nothing more of what clients ask, and answer when all that was under way has ended: the gateway ends after
    that. Requests wait until the next one says `GatewayIsHere`."""


class GatewayIsHere(NodeQuestion, frozen=True):
    """The sender is the gateway, and votes."""


class PeerState(Struct, frozen=True):
    """What the gateway knows of its link to a peer: `node.timing.Links`."""

    peer: int
    rtt_ms: float | None
    lag_ms: float
    waited_ms: float
    silent_ms: float
    reachable: bool
    trouble: str


class LinkStates(NodeQuestion, frozen=True):
    peers: tuple[PeerState, ...]


class NotOwner(Struct, frozen=True):
    """The node that was asked does not serve the key. Nothing was done."""


class ForwardedReplies(Struct, frozen=True):
    """As a `PeerResponse`."""

    body: bytes


class PeerAnswered(Struct, frozen=True):
    """The reply to the last of `Outgoing`, as `wire.encode_reply` has it."""

    reply: bytes


class Received(Struct, frozen=True):
    """Done, and there is nothing to say about it."""


class Unanswerable(Struct, frozen=True):
    """The question was heard, and its answer cannot be sent."""

    reason: str


class LinkBeat(Struct, frozen=True):
    """The other end is there."""


Question = (
    Write
    | Txn
    | ReadAsk
    | OrderedWriteAsk
    | OrderedReadAsk
    | ForwardedRequests
    | Outgoing
    | SessionOver
    | LinkStates
    | ComeToRest
    | GoOn
    | CommitNews
    | GatewayLeaves
    | PauseRequests
    | GatewayIsHere
)


class BadMessage(Exception):
    """Bytes that are no message of this version."""


class TooLong(Exception):
    """A message that does not fit into a frame, or that has no encoding."""


# Records that MessagePack alone would not bring back.


class CommittedFields(Struct, frozen=True, array_like=True):
    proposal: Proposal
    mine: bool
    path: Path
    previous: Proposal | None
    replies: bytes


class UnchangedFields(Struct, frozen=True, array_like=True):
    committed: Proposal | None
    path: Path
    replies: bytes


SIMPLE, FAULT, ENDED = 1, 2, 3
"""Extension types of MessagePack for replies that are neither numbers nor bytes."""

pack = Encoder().encode


def read_text(code: int, data: memoryview) -> Reply:
    text = bytes(data).decode("utf-8", "surrogatepass")
    if code == SIMPLE:
        return SimpleString(text)
    if code == FAULT:
        return Fault(text)
    if code == ENDED:
        return ScriptEnded(text)
    raise ValueError(f"no reply has the extension type {code}")


replies_decoder = Decoder(list[Any], ext_hook=read_text)


def plain(reply: Reply) -> Any:
    """As MessagePack has it. Texts are extensions, because they are told apart by more than their words."""
    match reply:
        case SimpleString(text):
            return Ext(SIMPLE, text.encode("utf-8", "surrogatepass"))
        case ScriptEnded(text):
            return Ext(ENDED, text.encode("utf-8", "surrogatepass"))
        case Fault(text):
            return Ext(FAULT, text.encode("utf-8", "surrogatepass"))
        case tuple():
            return [plain(each) for each in reply]
        case _:
            return reply


def replied(found: Any) -> Reply:
    return tuple([replied(each) for each in found]) if isinstance(found, list) else found


def pack_replies(replies: tuple[Reply, ...]) -> bytes:
    return pack([plain(reply) for reply in replies]) if replies else b""


def read_replies(data: bytes) -> tuple[Reply, ...]:
    return tuple([replied(each) for each in replies_decoder.decode(data)]) if data else ()


def committed_fields(outcome: Committed) -> CommittedFields:
    return CommittedFields(
        outcome.proposal, outcome.mine, outcome.path, outcome.previous, pack_replies(outcome.replies)
    )


def unchanged_fields(outcome: Unchanged) -> UnchangedFields:
    return UnchangedFields(outcome.committed, outcome.path, pack_replies(outcome.replies))


def reader(record: type[Any]) -> Callable[[Raw], Any]:
    return Decoder(record).decode


def read_with(record: type[Any], make: Callable[[Any], Any]) -> Callable[[Raw], Any]:
    decode_fields = Decoder(record).decode
    return lambda raw: make(decode_fields(raw))


def committed_of(fields: CommittedFields) -> Committed:
    return Committed(
        proposal=fields.proposal,
        mine=fields.mine,
        path=fields.path,
        previous=fields.previous,
        replies=read_replies(fields.replies),
    )


def unchanged_of(fields: UnchangedFields) -> Unchanged:
    return Unchanged(committed=fields.committed, path=fields.path, replies=read_replies(fields.replies))


FIRST_ANSWER = 64

RECORDS: dict[int, type[Any]] = {
    0: LinkBeat,
    1: Write,
    2: ReadAsk,
    3: Txn,
    4: OrderedWriteAsk,
    5: OrderedReadAsk,
    6: ForwardedRequests,
    7: Outgoing,
    8: SessionOver,
    9: LinkStates,
    10: ComeToRest,
    11: GoOn,
    12: CommitNews,
    13: GatewayLeaves,
    14: PauseRequests,
    15: GatewayIsHere,
    64: Committed,
    65: ExpectedValueDoesNotMatch,
    66: VersionMismatch,
    67: ImmutableKey,
    68: NothingToDelete,
    69: NotAnInteger,
    70: Unchanged,
    71: ConsensusFailed,
    72: Refused,
    73: ReadResult,
    74: ReadFailed,
    75: Executed,
    76: TxnRefused,
    77: WrongEngine,
    78: TxnUnknown,
    79: NotOwner,
    80: ForwardedReplies,
    81: PeerAnswered,
    82: Received,
    83: Unanswerable,
}
"""By their kinds, which are part of the version."""

TO_FIELDS: dict[type[Any], Callable[[Any], Any]] = {
    Committed: committed_fields,
    Unchanged: unchanged_fields,
    Txn: wire.encode_txn,
}

FROM_FIELDS: dict[type[Any], Callable[[Raw], Any]] = {
    Committed: read_with(CommittedFields, committed_of),
    Unchanged: read_with(UnchangedFields, unchanged_of),
    Txn: read_with(bytes, wire.decode_txn),
}

KIND_OF = {record: (kind, TO_FIELDS.get(record)) for kind, record in RECORDS.items()}
READERS = {kind: FROM_FIELDS[record] if record in FROM_FIELDS else reader(record) for kind, record in RECORDS.items()}

frame_decoder = Decoder(list[tuple[int, int, Raw]])


def encode(number: int, content: Any) -> bytes:
    """One message. TooLong: it cannot be sent."""
    kind, fields = KIND_OF[type(content)]
    try:
        piece = pack((kind, number, content if fields is None else fields(content)))
    except (CodecError, OverflowError, UnicodeError, RecursionError) as error:
        raise TooLong(f"{type(content).__name__} has no encoding: {error}") from error
    if len(piece) > MAX_MESSAGE_BYTES:
        raise TooLong(f"{len(piece)} bytes, above the {MAX_MESSAGE_BYTES} of a message between nodes")
    return piece


def decode_frame(body: bytes) -> list[tuple[int, int, Raw]]:
    """Kind, number and content of its messages."""
    try:
        return frame_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise BadMessage(f"a frame that is no list of messages: {error}") from error


def decode(kind: int, raw: Raw) -> Any:
    """The content of one message."""
    read = READERS.get(kind)
    if read is None:
        raise BadMessage(f"no message has the kind {kind}")
    try:
        return read(raw)
    except (msgspec.MsgspecError, CodecError, ValueError, AssertionError, RecursionError) as error:
        raise BadMessage(f"a message of kind {kind} that cannot be read: {error}") from error


join_messages = join
"""The bytes of a frame, of messages that are encoded."""
