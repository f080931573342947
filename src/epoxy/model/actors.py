"""Names, ids and states of actors, and the messages between a node and an envoy."""

import enum

from msgspec import Struct

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import InvalidRequest

RESERVATION_KEYS = FIRST_SYSTEM_KEY + b"/actor/"
"""The beginning of keys that reserve names of actors: among the cluster's own, so that no client can reserve a name by
hand."""

ACTOR_ROWS = 4
"""The first element of the row keys of a datacenter's actors. Part of the format: never renumber."""

ID_BYTES = 19
ID_FORMAT = 0x01

MAX_NAME_BYTES = 255
"""Of a namespace, a name or a key: together the three are a key of the store, which has at most 1,024 bytes. Also of a
pool or an envoy's key: a row of placement holds three of them, and a row's key has at most 2 KiB."""

MAX_INPUT_BYTES = 64 << 10
"""The input of an actor. It is sent with every start and stays in its record."""

MAX_REQUEST_BYTES = 1 << 20
"""Of a request to an actor, or its response: as much as a value of the store."""

PROTOCOL_VERSION = 1


class ActorState(enum.Enum):
    """
    pending     no envoy has room for it, or it failed and waits for its next start
    starting    an envoy was asked to start it
    running     its envoy has confirmed that
    moving      its envoy was asked to stop it, so that another can start it
    destroyed   for ever; the name may be given to a new actor
    """

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    MOVING = "moving"
    DESTROYED = "destroyed"


class ActorName(Struct, frozen=True, order=True):
    """Invariant: each part has 1 to 255 bytes of UTF-8, none of them zero."""

    namespace: str
    name: str
    key: str

    def __post_init__(self) -> None:
        for what, part in (("namespace", self.namespace), ("name", self.name), ("key", self.key)):
            check_part(what, part)


def size_of(what: str, text: str) -> int:
    """In bytes of UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(f"{what} is not Unicode text") from None


def check_part(what: str, part: str) -> None:
    if not 1 <= size_of(what, part) <= MAX_NAME_BYTES or "\0" in part:
        raise InvalidRequest(f"{what} has 1 to {MAX_NAME_BYTES} bytes, none of them zero")


def make_id(high: int, low: int, label: int) -> bytes:
    """A format byte, a UUID version 4 made of these random bits, and the label of a datacenter."""
    raw = bytearray(((high << 64 | low) & ((1 << 128) - 1)).to_bytes(16, "big"))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes((ID_FORMAT,)) + bytes(raw) + label.to_bytes(2, "big")


def label_of(actor_id: bytes) -> int:
    """The label of the datacenter that owns it."""
    return int.from_bytes(actor_id[-2:], "big")


def parse_id(text: str) -> bytes:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != ID_BYTES or raw[0] != ID_FORMAT or raw.hex() != text:
        raise InvalidRequest(f"an actor's id has {2 * ID_BYTES} lower-case hexadecimal digits and begins with 01")
    return raw


class ActorEntry(Struct, frozen=True, kw_only=True):
    """`generation` rises with every envoy it is given to: messages of an older one are outdated. `counted`: it is
    counted in its envoy's slots. `since_ms`: when it began to run. `after`: the previous actor of the name, which has
    to end before this one starts.

    Invariant: on an envoy while it is starting, running or moving, and not while it is pending. A destroyed one has an
    envoy until that reports its end.
    """

    id: bytes
    name: ActorName
    pool: str
    state: ActorState
    generation: int
    create_ts: int
    input: bytes = b""
    envoy_key: str | None = None
    counted: bool = False
    failures: int = 0
    not_before_ms: int = 0
    since_ms: int = 0
    after: bytes | None = None

    def __post_init__(self) -> None:
        placed = self.state in (ActorState.STARTING, ActorState.RUNNING, ActorState.MOVING)
        assert placed == (self.envoy_key is not None) or self.state is ActorState.DESTROYED, self

    @property
    def is_alive(self) -> bool:
        return self.state is not ActorState.DESTROYED


# From an envoy to a node.


class EnvoyHello(Struct, frozen=True, kw_only=True, tag="hello"):
    """The first message. `running` are the actors it hosts, from an earlier connection. `incarnation` tells this
    process from another with the same key, and is shown to operators. Empty: an SDK without incarnations."""

    namespace: str
    pool: str
    envoy_key: str
    version: int = 1
    protocol_version: int = PROTOCOL_VERSION
    weight: int = 1
    slots: int = 0
    incarnation: str = ""
    running: tuple["Held", ...] = ()


class Held(Struct, frozen=True):
    actor_id: str
    generation: int


class Ping(Struct, frozen=True, kw_only=True, tag="ping"):
    """`sent_ms` comes back in the pong; `rtt_ms` is the round trip of the ping before."""

    sent_ms: int
    rtt_ms: int = 0


class Running(Struct, frozen=True, kw_only=True, tag="running"):
    actor_id: str
    generation: int


class Stopped(Struct, frozen=True, kw_only=True, tag="stopped"):
    """`failed`: it did not end by itself, and is to be started again. `cancelled`: its worker stopped it, not an error
    of its code, so it is started again without a pause."""

    actor_id: str
    generation: int
    failed: bool = False
    cancelled: bool = False


class Draining(Struct, frozen=True, kw_only=True, tag="draining"):
    """It takes no new actors, and those it has should move."""


class Goodbye(Struct, frozen=True, kw_only=True, tag="goodbye"):
    """It will not connect again."""


class Response(Struct, frozen=True, kw_only=True, tag="response"):
    """An actor's response. `error`: it failed; the body has the message. `refused`: its code never saw the request."""

    request_id: int
    body: bytes = b""
    error: bool = False
    refused: bool = False


FromEnvoy = EnvoyHello | Ping | Running | Stopped | Draining | Goodbye | Response


# From a node to an envoy.


class Start(Struct, frozen=True, kw_only=True, tag="start"):
    actor_id: str
    generation: int
    namespace: str
    name: str
    key: str
    input: bytes = b""


class Welcome(Struct, frozen=True, kw_only=True, tag="welcome"):
    """The reply to `hello`. An envoy without an answer to any ping of the last `lost_after_ms` must stop its actors:
    soon after that, others start them."""

    datacenter: str
    ping_every_ms: int
    lost_after_ms: int


class Pong(Struct, frozen=True, kw_only=True, tag="pong"):
    sent_ms: int


class Stop(Struct, frozen=True, kw_only=True, tag="stop"):
    actor_id: str
    generation: int


class ActorRequest(Struct, frozen=True, kw_only=True, tag="request"):
    request_id: int
    actor_id: str
    generation: int
    body: bytes


class Rejected(Struct, frozen=True, kw_only=True, tag="rejected"):
    """The last message before the connection is closed. `expired`: the envoy may connect again, after a pause."""

    message: str
    expired: bool = False


ToEnvoy = Welcome | Pong | Start | Stop | ActorRequest | Rejected
