"""The control plane's wire: RESP2 arrays of bulk strings, verb first, then the fields of the message in their order.

Strict in what it accepts: a number is decimal digits without a sign or a leading zero and fits 64 bits, an id is one
that a config could have. A frame with too few fields, too many, or an unknown verb closes the connection.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from epoxy.codec import resp
from epoxy.codec.resp import CRLF
from epoxy.model.errors import InvalidValue, Truncated, UnknownTag
from epoxy.protocol.elect import messages
from epoxy.protocol.elect.config import MAX_ID_BYTES
from epoxy.protocol.elect.handshake import ElectHello
from epoxy.protocol.elect.lists import DIGEST_CHARS, NodeList
from epoxy.protocol.elect.messages import Counted, Message, Role, ServerState

MAX_NUMBER = 2**64 - 1
MAX_TEXT_BYTES = 256
"""The longest text in a frame is a host name with its port, 253 and 6 bytes; cluster names are shorter."""

MAX_LISTS_BYTES = 24_576
"""Two lists of 15 nodes with the longest host names."""

LIMITS = resp.ReaderLimits(arguments=16, argument_bytes=MAX_LISTS_BYTES, command_bytes=MAX_LISTS_BYTES + 1024)
"""The longest message carries the lists of nodes; the usual one, a heartbeat, has 13 fields of at most 32 bytes."""

MAX_SEALED_BYTES = MAX_LISTS_BYTES + 2048
"""A message with the headers of its words."""

LINK_LIMITS = resp.ReaderLimits(arguments=16, argument_bytes=MAX_SEALED_BYTES, command_bytes=MAX_SEALED_BYTES + 64)
"""Of what arrives on a connection: the lines of the handshake, then frames of a seal and a message (`link_session`)."""


HEARTBEAT_WORDS = 13
HEARTBEAT_HEAD = b"*%d" % HEARTBEAT_WORDS
HEARTBEAT_LINES = 1 + 2 * HEARTBEAT_WORDS + 1
"""The array header, a size and a word for each field, and the empty rest behind the last line end."""


def encode(message: Message) -> bytes:
    words = [written(getattr(message, name)) for name in message.__struct_fields__]
    return frame([VERBS[type(message)], *words])


def frame(words: Sequence[str]) -> bytes:
    return resp.array([resp.bulk_text(word) for word in words])


def written(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return msgspec.json.encode(value).decode()
    return str(int(value)) if isinstance(value, bool) else str(value)


def skim(data: bytes) -> list[bytes] | None:
    """The words of data that is exactly one heartbeat, which it nearly always is; None otherwise. Several times faster
    than the general reader."""
    lines = data.split(CRLF)
    if len(lines) != HEARTBEAT_LINES or lines[0] != HEARTBEAT_HEAD or lines[-1]:
        return None
    words = lines[2:-1:2]
    return words if lines[1:-1:2] == [b"$%d" % len(word) for word in words] else None


def decode(command: Sequence[bytes]) -> Message:
    if not command:
        raise Truncated("an empty frame")
    verb, *words = command
    if verb not in LAYOUTS:
        raise UnknownTag(f"no verb {verb[:16]!r}")
    record, readers = LAYOUTS[verb]
    if len(words) != len(readers):
        raise InvalidValue(f"{verb.decode()} has {len(readers)} fields, not {len(words)}")
    fields = zip(record.__struct_fields__, readers, words, strict=True)
    message = record(**{name: read(word) for name, read, word in fields})
    if isinstance(message, Counted) and len(message.lists) != 1 + message.stage % 2:
        raise InvalidValue(f"{len(message.lists)} lists at stage {message.stage}")
    return message


def encode_hello(greeting: ElectHello, proof: str | None = None) -> bytes:
    """The dialer's has no proof yet."""
    return frame(["HELLO", *greeting.words(), *([proof] if proof is not None else [])])


def encode_proof(proof: str) -> bytes:
    return frame(["PROOF", proof])


def decode_hello(command: Sequence[bytes]) -> tuple[ElectHello, str]:
    """With its proof, which is empty in the first HELLO."""
    if len(command) not in (8, 9) or command[0] != b"HELLO":
        raise InvalidValue("expected HELLO with seven or eight fields")
    words = [text(word) for word in command[1:]]
    greeting = ElectHello(**dict(zip(ElectHello.__struct_fields__, words[:7], strict=True)))
    return greeting, words[7] if len(words) == 8 else ""


def decode_proof(command: Sequence[bytes]) -> str:
    if len(command) != 2 or command[0] != b"PROOF":
        raise InvalidValue("expected PROOF with one field")
    return text(command[1])


def number(word: bytes) -> int:
    short = word.isdigit() and len(word) <= 20
    if not short or (len(word) > 1 and word.startswith(b"0")) or int(word) > MAX_NUMBER:
        raise InvalidValue(f"{word[:32]!r} is no number of 64 bits")
    return int(word)


def flag(word: bytes) -> bool:
    if word not in (b"0", b"1"):
        raise InvalidValue(f"{word[:32]!r} is neither 0 nor 1")
    return word == b"1"


def text(word: bytes) -> str:
    """Printable ASCII, because it may be logged."""
    if len(word) > MAX_TEXT_BYTES or not word.isascii() or not word.decode("ascii").isprintable():
        raise InvalidValue(f"{word[:32]!r} is no short printable text")
    return word.decode("ascii")


def identity(word: bytes) -> str:
    if not word or len(word) > MAX_ID_BYTES:
        raise InvalidValue(f"an id of {len(word)} bytes; from 1 to {MAX_ID_BYTES}")
    return text(word)


def digest(word: bytes) -> str:
    if len(word) != DIGEST_CHARS:
        raise InvalidValue(f"{word[:32]!r} is no digest of a list")
    return text(word)


def floor_digest(word: bytes) -> str:
    """Empty if the sender has answered no leader yet."""
    return digest(word) if word else ""


def node_lists(word: bytes) -> tuple[NodeList, ...]:
    try:
        lists = msgspec.json.decode(word, type=tuple[NodeList, ...])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(f"no lists of nodes: {error}") from None
    for each in lists:
        digest(each.digest.encode())
        if not each.nodes:
            raise InvalidValue("a list without nodes")
        for node in each.nodes:
            identity(node.id.encode())
    return lists


def one_of(kind: type[enum.Enum]) -> Callable[[bytes], enum.Enum]:
    known = {member.value.encode(): member for member in kind}

    def read(word: bytes) -> enum.Enum:
        if word not in known:
            raise InvalidValue(f"{word[:32]!r} is not a {kind.__name__}")
        return known[word]

    return read


role, state = one_of(Role), one_of(ServerState)
Readers = tuple[Callable[[bytes], Any], ...]
LAYOUTS: dict[bytes, tuple[type[Message], Readers]] = {
    b"HB": (
        messages.Heartbeat,
        (number, identity, role, number, number, identity, number, state, number, number, number, digest),
    ),
    b"OFFER": (messages.Offer, (number, identity, number, number, flag, number, digest)),
    b"ACCEPT": (messages.Acceptance, (number, identity, identity)),
    b"ANNOUNCE": (messages.Announce, (number, identity, text)),
    b"HANDOVER": (messages.Handover, (number, identity, identity)),
    b"COUNTED": (Counted, (number, identity, number, node_lists, number, floor_digest)),
}
"""For each verb its message, and how each of its fields is read."""

VERBS = {record: verb.decode() for verb, (record, _) in LAYOUTS.items()}
