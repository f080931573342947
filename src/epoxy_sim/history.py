"""What clients asked for and what they were answered: the only evidence a checker may use.

A history is a list of operations in any order. It knows nothing of replicas, ballots or the simulator, so one recorded
from a real cluster is judged by the same code; as text it is JSON lines, with bytes in base64.

Times are integers of one clock that never runs backwards. An operation precedes another when it returned at a
strictly smaller time than the other was invoked; equal times count as overlap, which forgives more. A recorder with
a coarse clock should therefore stamp events with a counter.
"""

from collections.abc import Iterable

import msgspec


class _Record(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, tag=str.lower):
    """Shape shared by kinds and outcomes: the class's name tells them apart in JSON. No cycles, so no gc."""


class Reserve(_Record, frozen=True):
    """Set if absent, for ever."""

    value: bytes


class Put(_Record, frozen=True, omit_defaults=True):
    """Write a mutable key; with `if_version`, only over that version (0: never written), with `if_absent`, only where
    there is no value. `returning`: get-and-set, its answer tells what was there before. The value gets the expiry
    `ttl_ms` (0: none), or that of a session, or keeps the one that is there."""

    value: bytes
    if_version: int | None = None
    returning: bool = False
    if_absent: bool = False
    ttl_ms: int = 0
    keep_expiry: bool = False
    session: bytes = b""


class Delete(_Record, frozen=True, omit_defaults=True):
    """Leave a tombstone on a mutable key."""

    if_version: int | None = None
    returning: bool = False


class Add(_Record, frozen=True, omit_defaults=True):
    """Add to a decimal number of 64 bits in a mutable key (absent: 0). The number keeps its expiry; `ttl_ms` is that of
    one which is made."""

    amount: int
    if_version: int | None = None
    returning: bool = False
    ttl_ms: int = 0


class Touch(_Record, frozen=True, omit_defaults=True):
    """Give the value of a mutable key this expiry (0: none), and leave the value as it is."""

    ttl_ms: int = 0
    if_version: int | None = None
    returning: bool = False


class Read(_Record, frozen=True):
    """Optimistic and skip_cache reads promise less, so they are recorded as not linearizable and judged apart."""

    linearizable: bool = True


Kind = Reserve | Put | Delete | Add | Touch | Read


class Found(_Record, frozen=True):
    """A read found a live value."""

    value: bytes
    version: int
    mutable: bool


class Absent(_Record, frozen=True):
    """A read found no live value: never written (version 0) or a tombstone (its version)."""

    version: int


class Won(_Record, frozen=True, omit_defaults=True):
    """This very write was made, at `version`. `value`: the number that an add made. `previous`: what a read right
    before it would have found, of a write that is `returning`."""

    version: int
    value: bytes | None = None
    previous: Found | Absent | None = None


class Same(_Record, frozen=True):
    """A reserve found an equal value that is not its own."""

    version: int


class Lost(_Record, frozen=True):
    """A reserve found another live value, or a put with `if_absent` found one."""

    value: bytes | None
    version: int
    mutable: bool


class Mismatch(_Record, frozen=True):
    """`if_version` was not true. A replica may lag, so the version it reports is information, not evidence."""

    version: int


class Immutable(_Record, frozen=True):
    """A put, a delete, an add or a touch met an immutable key."""

    version: int


class Missing(_Record, frozen=True):
    """A delete or a touch met an absent key and changed nothing."""

    version: int


class NotAnInteger(_Record, frozen=True):
    """An add met a value that is no number of 64 bits, or the sum would be none; it changed nothing."""

    version: int


class Failed(_Record, frozen=True):
    """A definite failure: the operation has had no effect and never will."""


class Unknown(_Record, frozen=True):
    """An indefinite failure, or no answer yet: it takes effect at some time after its invocation, or never."""


Outcome = Won | Same | Lost | Mismatch | Immutable | Missing | NotAnInteger | Found | Absent | Failed | Unknown


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """One call of one client.

    1. It does not return before it was invoked.
    2. While it has not returned, its outcome is Unknown.
    """

    id: int
    client: str
    key: bytes
    kind: Kind
    invoked: int
    returned: int | None = None
    outcome: Outcome = Unknown()

    def __post_init__(self) -> None:
        if self.returned is None:
            if type(self.outcome) is not Unknown:
                raise ValueError(f"operation {self.id} has an outcome but has not returned")
        elif self.returned < self.invoked:
            raise ValueError(f"operation {self.id} returned at {self.returned}, invoked only at {self.invoked}")

    def __str__(self) -> str:
        end = "..." if self.returned is None else self.returned
        return f"#{self.id} {self.client} {describe(self.kind)} [{self.invoked}, {end}] -> {describe(self.outcome)}"


def describe(record: Kind | Outcome) -> str:
    """As `put b'x' if_version=3`: the fields that say something, in their order."""
    fields = ((name, getattr(record, name)) for name in record.__struct_fields__)
    words = (_word(name, field) for name, field in fields if field is not None and (name, field) not in SAYS_NOTHING)
    return " ".join((type(record).__name__.lower(), *words))


def _word(name: str, field: object) -> str:
    if name == "value":
        return repr(field)
    return f"{name}=({describe(field)})" if isinstance(field, Found | Absent) else f"{name}={field}"


SAYS_NOTHING = (("returning", False), ("if_absent", False), ("keep_expiry", False), ("ttl_ms", 0), ("session", b""))

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Operation)


def encode_lines(history: Iterable[Operation]) -> bytes:
    """One operation a line."""
    return _encoder.encode_lines(history)


def decode_lines(lines: bytes) -> list[Operation]:
    """The inverse of `encode_lines`; empty lines are allowed, anything else that is no operation is a ValueError."""
    history = []
    for number, line in enumerate(lines.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            history.append(_decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise ValueError(f"line {number}: {error}") from error
    return history


def check_optimistic_read(history: Iterable[Operation], read: Operation) -> str | None:
    """What is wrong with an answer that may be stale but must never be invented; None if nothing is.

    A found value was written by an operation invoked before the read returned. Once a key is immutable it is
    so with one value at one version, and nothing lies above that version. "Absent" is always allowed.
    """
    found, returned = read.outcome, read.returned
    if not isinstance(found, Found) or returned is None:
        return None
    of_key = [operation for operation in history if operation.key == read.key]
    if not any(operation.invoked <= returned and _may_have_written(operation, found) for operation in of_key):
        return f"{read}: nothing invoked before it returned can have written this"
    for operation in of_key:
        fixed = _immutable_fact(operation)
        if fixed is not None and _contradicts(found, fixed):
            return f"{read}: but the key is immutable, as seen by {operation}"
    return None


def check_calm_read(history: Iterable[Operation], read: Operation) -> str | None:
    """With all machines up and connected, even an optimistic read asks enough replicas: a name that is taken, as a
    client was told, must not look as if it had never been written. (A tombstone may be shown after its time.)"""
    if read.outcome != Absent(version=0):
        return None
    for operation in history:
        known = operation.returned is not None and operation.returned < read.invoked
        if known and operation.key == read.key and _immutable_fact(operation) is not None:
            return f"{read}: a taken name looks free, see {operation}"
    return None


def _may_have_written(operation: Operation, found: Found) -> bool:
    """A touch writes whatever value is there."""
    kind, outcome = operation.kind, operation.outcome
    if isinstance(kind, Delete | Read) or found.mutable == isinstance(kind, Reserve):
        return False
    if isinstance(kind, Touch):
        return isinstance(outcome, Unknown) or (isinstance(outcome, Won) and outcome.version == found.version)
    if isinstance(outcome, Won):
        value = outcome.value if isinstance(kind, Add) else kind.value
        return (outcome.version, value) == (found.version, found.value)
    return isinstance(outcome, Unknown) and (isinstance(kind, Add) or kind.value == found.value)


def _immutable_fact(operation: Operation) -> Found | None:
    """The immutable content that this operation has made or met."""
    match operation.kind, operation.outcome:
        case Reserve(value=value), Won(version=version):
            return Found(value=value, version=version, mutable=False)
        case Reserve(), Lost(value=bytes() as value, version=version, mutable=False):
            return Found(value=value, version=version, mutable=False)
        case Read(), Found(mutable=False) as found:
            return found
        case _:
            return None


def _contradicts(found: Found, fixed: Found) -> bool:
    if found.mutable:
        return found.version >= fixed.version
    return found != fixed
