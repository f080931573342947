"""The sequential truth of one key: what each operation makes of it, and what its client is told.

The end of a value is an operation like others here, a delete on condition of its version. When it may come is not known
to the register, which has no clock: those who record a history enter it there when it is due.
"""

from typing import TypeAlias, assert_never

import msgspec

from epoxy_sim.history import (
    Absent,
    Add,
    Delete,
    Found,
    Immutable,
    Kind,
    Lost,
    Mismatch,
    Missing,
    NotAnInteger,
    Operation,
    Outcome,
    Put,
    Read,
    Reserve,
    Same,
    Touch,
    Won,
)

MOST = 1 << 63
"""Numbers are at least -MOST, and less than MOST."""

EndsAt: TypeAlias = tuple[int, int]
"""An expiry: its time to live in milliseconds, 0 if it ends with a session, and the version at which it was given."""

Change: TypeAlias = Put | Delete | Add | Touch


class Register(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Version 0: never written. No value at a higher version: a tombstone."""

    version: int = 0
    value: bytes | None = None
    mutable: bool = True
    expiry: EndsAt | None = None

    def __str__(self) -> str:
        held = "nothing" if self.value is None else f"{self.value!r} {'mutable' if self.mutable else 'immutable'}"
        ends = f", for {self.expiry[0]} ms since version {self.expiry[1]}" if self.expiry is not None else ""
        return f"version {self.version}, {held}{ends}"


def answer(register: Register, kind: Kind) -> tuple[Register, Outcome]:
    """The register after one operation, and what its client is told. Without effect it is the very same register."""
    match kind:
        case Read():
            return register, _read(register)
        case Reserve(value=value):
            return _reserve(register, value)
        case Put() | Delete() | Add() | Touch():
            refusal = _refusal(register, kind)
            return (register, refusal) if refusal is not None else _change(register, kind)
        case _:
            assert_never(kind)


def _read(register: Register) -> Found | Absent:
    if register.value is None:
        return Absent(version=register.version)
    return Found(value=register.value, version=register.version, mutable=register.mutable)


def _reserve(register: Register, value: bytes) -> tuple[Register, Outcome]:
    if register.value is None:
        version = register.version + 1
        return Register(version=version, value=value, mutable=False), Won(version=version)
    if register.value == value:
        return register, Same(version=register.version)
    return register, _lost(register)


def _lost(register: Register) -> Lost:
    return Lost(value=register.value, version=register.version, mutable=register.mutable)


def _refusal(register: Register, kind: Change) -> Outcome | None:
    creates = type(kind) is Put and kind.if_absent
    if not register.mutable:
        return _lost(register) if creates else Immutable(version=register.version)
    if kind.if_version is not None and kind.if_version != register.version:
        return Mismatch(version=register.version)
    if creates and register.value is not None:
        return _lost(register)
    if isinstance(kind, Delete | Touch) and register.value is None:
        return Missing(version=register.version)
    if type(kind) is Add and _sum(register.value, kind.amount) is None:
        return NotAnInteger(version=register.version)
    return None


def _change(register: Register, kind: Change) -> tuple[Register, Outcome]:
    """Of a write that is not refused. The answer of an add tells the number."""
    version = register.version + 1
    total = _sum(register.value, kind.amount) if type(kind) is Add else None
    value = kind.value if type(kind) is Put else register.value if type(kind) is Touch else total
    after = Register(version=version, value=value, expiry=_expiry(register, kind, version))
    return after, Won(version=version, value=total, previous=_read(register) if kind.returning else None)


def _expiry(register: Register, kind: Change, version: int) -> EndsAt | None:
    """An expiry that is kept goes on from the version at which it was given."""
    if isinstance(kind, Delete):
        return None
    is_kept = type(kind) is Add or (type(kind) is Put and kind.keep_expiry)
    if is_kept and register.value is not None:
        return register.expiry
    has_session = isinstance(kind, Put) and kind.session != b""
    return (kind.ttl_ms, version) if kind.ttl_ms or has_session else None


def _sum(value: bytes | None, amount: int) -> bytes | None:
    """None: the value is no number, or the sum has more than 64 bits."""
    number = number_in(value) if value is not None else 0
    total = number + amount if number is not None else MOST
    return str(total).encode() if -MOST <= total < MOST else None


def number_in(value: bytes) -> int | None:
    """Of 64 bits, in its one spelling."""
    try:
        number = int(value)
    except ValueError:
        return None
    return number if str(number).encode() == value and -MOST <= number < MOST else None


def agrees(operation: Operation, register: Register, truth: Outcome) -> bool:
    """A mismatch is true wherever the versions differ, of an immutable key too: a replica that has not heard that the
    key became immutable refuses a stale version all the same."""
    kind = operation.kind
    if type(operation.outcome) is Mismatch and isinstance(kind, Put | Delete | Add | Touch):
        return kind.if_version is not None and kind.if_version != register.version
    return operation.outcome == truth
