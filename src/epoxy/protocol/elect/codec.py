"""The control plane's wire: RESP2 arrays of bulk strings, verb first, the fields of the original text, then ours.

Strict in what it takes: a number is decimal digits without a sign or a leading zero and fits 64 bits, an id is one that
a config could have. A frame with too few fields, too many, or an unknown verb is refused, and the connection with it.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

import msgspec

from epoxy.codec import resp
from epoxy.codec.resp import CRLF
from epoxy.model.errors import InvalidValue, Truncated, UnknownTag
from epoxy.protocol.elect.config import MAX_ID_BYTES
from epoxy.protocol.elect.handshake import ElectHello
from epoxy.protocol.elect.lists import DIGEST_CHARS, NodeList
from epoxy.protocol.elect.messages import (
    Acceptance,
    Announce,
    Counted,
    Handover,
    Heartbeat,
    Message,
    Offer,
    Role,
    ServerState,
)

MAX_NUMBER = 2**64 - 1
MAX_TEXT_BYTES = 256
"""The longest text in a frame is a name of a host with its port: 253 and 6, and no cluster is named longer."""

MAX_LISTS_BYTES = 24_576
"""Two lists of 15 nodes whose addresses have the longest names there are."""

LIMITS = resp.ReaderLimits(arguments=16, argument_bytes=MAX_LISTS_BYTES, command_bytes=MAX_LISTS_BYTES + 1024)
"""The longest frame is the lists of nodes; the usual one, a heartbeat, has 13 fields of at most 32 bytes."""


HEARTBEAT_WORDS = 13
HEARTBEAT_HEAD = b"*%d" % HEARTBEAT_WORDS
HEARTBEAT_LINES = 1 + 2 * HEARTBEAT_WORDS + 1
"""The head, a size and a word for each field, and what follows the last line's end, which is nothing."""


def encode(message: Message) -> bytes:
    return frame(fields(message))


def frame(words: Sequence[str]) -> bytes:
    return resp.array([resp.bulk_text(word) for word in words])


def fields(message: Message) -> list[str]:
    match message:
        case Heartbeat():
            ours = [message.leader_epoch, message.leader, message.history, message.state.value, message.stamp]
            seed = [message.epoch, message.node, message.role.value, message.offset]
            return ["HB", *map(str, [*seed, *ours, message.echo, message.stage, message.list])]
        case Offer():
            seed = [message.epoch, message.node, message.offset]
            return ["OFFER", *map(str, [*seed, message.history, int(message.in_office), message.stage, message.list])]
        case Acceptance():
            return ["ACCEPT", str(message.epoch), message.node, message.candidate]
        case Announce():
            return ["ANNOUNCE", str(message.epoch), message.node, message.address]
        case Handover():
            return ["HANDOVER", str(message.epoch), message.node, message.heir]
        case Counted():
            lists = msgspec.json.encode(message.lists).decode()
            floor = [str(message.floor_generation), message.floor_list]
            return ["COUNTED", str(message.epoch), message.node, str(message.stage), lists, *floor]
        case _:
            assert_never(message)


def skim(data: bytes) -> list[bytes] | None:
    """The words of what is one heartbeat and nothing else, which is what nearly always arrives: several times faster
    than the reader of everything."""
    lines = data.split(CRLF)
    if len(lines) != HEARTBEAT_LINES or lines[0] != HEARTBEAT_HEAD or lines[-1]:
        return None
    words = lines[2:-1:2]
    return words if lines[1:-1:2] == [b"$%d" % len(word) for word in words] else None


def decode(command: Sequence[bytes]) -> Message:
    if not command:
        raise Truncated("an empty frame")
    read = READERS.get(command[0])
    if read is None:
        raise UnknownTag(f"no verb {command[0][:16]!r}")
    return read(command[1:])


def heartbeat(words: Sequence[bytes]) -> Heartbeat:
    seed, ours = (words := exactly(HEARTBEAT_WORDS - 1, "HB", words))[:4], words[4:]
    epoch, node, role, offset = seed
    leader_epoch, leader, history, state, stamp, echo, stage, newest = ours
    return Heartbeat(
        epoch=number(epoch),
        node=identity(node),
        role=a_role(role),
        offset=number(offset),
        leader_epoch=number(leader_epoch),
        leader=identity(leader),
        history=number(history),
        state=a_state(state),
        stamp=number(stamp),
        echo=number(echo),
        stage=number(stage),
        list=digest(newest),
    )


def offer(words: Sequence[bytes]) -> Offer:
    epoch, node, offset, history, in_office, stage, newest = exactly(7, "OFFER", words)
    return Offer(
        epoch=number(epoch),
        node=identity(node),
        offset=number(offset),
        history=number(history),
        in_office=flag(in_office),
        stage=number(stage),
        list=digest(newest),
    )


def accept(words: Sequence[bytes]) -> Acceptance:
    epoch, node, candidate = exactly(3, "ACCEPT", words)
    return Acceptance(epoch=number(epoch), node=identity(node), candidate=identity(candidate))


def announce(words: Sequence[bytes]) -> Announce:
    epoch, node, address = exactly(3, "ANNOUNCE", words)
    return Announce(epoch=number(epoch), node=identity(node), address=text(address))


def handover(words: Sequence[bytes]) -> Handover:
    epoch, node, heir = exactly(3, "HANDOVER", words)
    return Handover(epoch=number(epoch), node=identity(node), heir=identity(heir))


def counted(words: Sequence[bytes]) -> Counted:
    epoch, node, stage, lists, floor_generation, floor_list = exactly(6, "COUNTED", words)
    told = node_lists(lists)
    if len(told) != 1 + number(stage) % 2:
        raise InvalidValue(f"{len(told)} lists at stage {number(stage)}")
    return Counted(
        epoch=number(epoch),
        node=identity(node),
        stage=number(stage),
        lists=told,
        floor_generation=number(floor_generation),
        floor_list=digest(floor_list) if floor_list else "",
    )


READERS: dict[bytes, Callable[[Sequence[bytes]], Message]] = {
    b"HB": heartbeat,
    b"OFFER": offer,
    b"ACCEPT": accept,
    b"ANNOUNCE": announce,
    b"HANDOVER": handover,
    b"COUNTED": counted,
}


def encode_hello(greeting: ElectHello, proof: str | None = None) -> bytes:
    """The dialer's has no proof yet."""
    return frame(["HELLO", *greeting.words(), *([proof] if proof is not None else [])])


def encode_proof(proof: str) -> bytes:
    return frame(["PROOF", proof])


def decode_hello(command: Sequence[bytes]) -> tuple[ElectHello, str]:
    """With its proof, which is empty in the first one."""
    if len(command) not in (8, 9) or command[0] != b"HELLO":
        raise InvalidValue("expected HELLO with seven or eight fields")
    words = [text(word) for word in command[1:]]
    version, cluster, sender, receiver, config_hash, lists, nonce = words[:7]
    greeting = ElectHello(
        version=version,
        cluster=cluster,
        sender=sender,
        receiver=receiver,
        config_hash=config_hash,
        lists=lists,
        nonce=nonce,
    )
    return greeting, words[7] if len(words) == 8 else ""


def decode_proof(command: Sequence[bytes]) -> str:
    if len(command) != 2 or command[0] != b"PROOF":
        raise InvalidValue("expected PROOF with one field")
    return text(command[1])


def exactly(count: int, verb: str, words: Sequence[bytes]) -> Sequence[bytes]:
    if len(words) != count:
        raise InvalidValue(f"{verb} has {count} fields, not {len(words)}")
    return words


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
    """Printable ASCII: it may end up in a log."""
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


def a_role(word: bytes) -> Role:
    try:
        return Role(text(word))
    except ValueError:
        raise InvalidValue(f"{word[:32]!r} is no role") from None


def a_state(word: bytes) -> ServerState:
    try:
        return ServerState(text(word))
    except ValueError:
        raise InvalidValue(f"{word[:32]!r} is no state") from None
