"""Names, ids and states of actors."""

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


class ActorState(enum.Enum):
    """
    pending     no envoy has room for it, or it failed and waits for its next start
    starting    an envoy was asked to start it
    running     its envoy has confirmed that
    moving      its envoy was asked to stop it, so that another can start it
    asleep      on no envoy until a request, a message or its alarm needs it
    destroyed   for ever; the name may be given to a new actor
    """

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    MOVING = "moving"
    ASLEEP = "asleep"
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
    to end before this one starts. `lease`: the incarnation of the datacenter's lease under which it is at home here,
    by the home record of this `epoch`. `clean`: its last generation is known to have ended, so its state needs no
    raise: it has left this `version`. `saved`: a save was begun once, so there may be a state. `local`: its state stays
    in this datacenter. `alarm_ms`: unix time; 0: none; `due_ms`: when its node looks at it next.

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
    lease: bytes = b""
    epoch: int = 0
    clean: bool = True
    version: int = 0
    saved: bool = False
    local: bool = False
    alarm_ms: int = 0
    due_ms: int = 0

    def __post_init__(self) -> None:
        placed = self.state in (ActorState.STARTING, ActorState.RUNNING, ActorState.MOVING)
        assert placed == (self.envoy_key is not None) or self.state is ActorState.DESTROYED, self

    @property
    def is_alive(self) -> bool:
        return self.state is not ActorState.DESTROYED
