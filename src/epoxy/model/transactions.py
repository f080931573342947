"""Transactions over several keys, and their outcomes. The ordered engine runs them: docs/protocol/ordered.md."""

import enum
from functools import cached_property

from msgspec import Struct
from msgspec.structs import force_setattr

from epoxy.model.errors import InvalidRequest
from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.records import MAX_KEY_BYTES, MAX_TTL_MS, Expiry

MAX_PARTS = 128
"""Of compares, of operations and of reads in one transaction. A transfer with receipts has four keys; a migration of
hundreds is better done in pieces."""

MAX_TRANSACTION_BYTES = 128 << 10
"""Keys and values of one transaction. Commands that depend on each other are executed in one piece, which has to fit
into a transaction of the store: see `protocol.txn.queue`."""

MOST, LEAST = MOST_INTEGER, LEAST_INTEGER
"""A number is a signed decimal of 64 bits, as in Redis."""


MAX_MOVED_BYTES = 64 << 10
"""The longest value that is handed over to transactions: two of them fit into one."""


class OrderedValue(Struct, frozen=True, kw_only=True, gc=False):
    """What the ordered engine holds of a key. Each write raises the version, and a deletion keeps it, so versions rise
    strictly. `immutable`: a copy of a reserved name, which transactions read and never write.

    Version 0 is that of a key without a row, and of a value that was written before versions were counted, which counts
    as version 1. Such a value loses its row when a transaction of that time deletes it.
    """

    value: bytes | None
    version: int = 0
    expiry: Expiry | None = None
    immutable: bool = False

    def __post_init__(self) -> None:
        assert self.expiry is None or (self.value is not None and not self.immutable), self

    @property
    def at(self) -> int:
        """Its version, as clients see it."""
        return self.version or int(self.value is not None)


NO_ROW = OrderedValue(value=None)


class Compare(Struct, frozen=True, kw_only=True):
    """Holds if the key's value is one of these, or if it has none and may have none; or, with `version`, if that is the
    key's version (0: it was never written).

    Invariant: something makes it hold, a version or values.
    """

    key: bytes
    values: tuple[bytes, ...] = ()
    absent: bool = False
    version: int | None = None

    def __post_init__(self) -> None:
        if not self.values and not self.absent and self.version is None:
            raise InvalidRequest("a compare says what the key may hold: values, a version, or absent")
        if (self.values or self.absent) and self.version is not None:
            raise InvalidRequest("a compare has a version, or values, not both")

    def holds(self, held: OrderedValue) -> bool:
        if self.version is not None:
            return held.at == self.version
        return self.absent if held.value is None else held.value in self.values


class Get(Struct, frozen=True, kw_only=True):
    key: bytes


class Put(Struct, frozen=True, kw_only=True):
    """`ttl_ms`, or a session: when the value ends. `keep_expiry`: as the one before it."""

    key: bytes
    value: bytes
    ttl_ms: int = 0
    session: bytes = b""
    keep_expiry: bool = False

    def __post_init__(self) -> None:
        check_ttl(self.ttl_ms)
        assert (self.ttl_ms > 0) + (self.session != b"") + self.keep_expiry <= 1, self


class Delete(Struct, frozen=True, kw_only=True):
    key: bytes


class Add(Struct, frozen=True, kw_only=True):
    """Add to a decimal number, or subtract; absent counts as 0. A value that is not a number, or would overflow, stays
    as it is. `amount=-5` is stored as `amount=5, negative=True`. A number keeps its expiry; one that is created here
    gets `ttl_ms`.

    Invariant: 0 <= amount <= MOST. So the least number of 64 bits cannot be added: see `is_addable`.
    """

    key: bytes
    amount: int
    negative: bool = False
    ttl_ms: int = 0

    def __post_init__(self) -> None:
        if self.amount < 0:
            force_setattr(self, "amount", -self.amount)
            force_setattr(self, "negative", not self.negative)
        if self.amount > MOST:
            raise InvalidRequest(f"an amount is at most {MOST}")
        check_ttl(self.ttl_ms)


def is_addable(amount: int) -> bool:
    """Whether there is an `Add` of it; what else a client may add is evaluated, and its result written."""
    return -MOST <= amount <= MOST


class Expire(Struct, frozen=True, kw_only=True):
    """Delete the key if this is still its version: its time to live is over."""

    key: bytes
    version: int


Operation = Get | Put | Delete | Add | Expire


class Import(Struct, frozen=True, kw_only=True):
    """What a key held when the per-key engine handed it over, or a reserved name. It takes effect if the key has no row
    yet; a deletion leaves a row. So it may be repeated at any time."""

    key: bytes
    held: OrderedValue

    @property
    def size(self) -> int:
        return len(self.key) + len(self.held.value or b"")


def check_ttl(ttl_ms: int) -> None:
    if not 0 <= ttl_ms <= MAX_TTL_MS:
        raise InvalidRequest(f"a time to live has at most {MAX_TTL_MS} ms")


class Txn(Struct, frozen=True, kw_only=True, dict=True):
    """If all compares hold, the operations of `then` are executed, else those of `otherwise`; each sees the effects of
    those before it. `reads` are read first, and before them comes what is imported. All of it is atomic, and in the
    same order at every replica.

    Invariant: it names a key. Further limits for clients: `flaw_of`.
    """

    compares: tuple[Compare, ...] = ()
    then: tuple[Operation, ...] = ()
    otherwise: tuple[Operation, ...] = ()
    reads: tuple[bytes, ...] = ()
    imports: tuple[Import, ...] = ()

    def __post_init__(self) -> None:
        assert self.compares or self.then or self.otherwise or self.reads or self.imports, self

    @cached_property
    def footprint(self) -> dict[bytes, bool]:
        """The keys it names, and whether it may write them. A compare-and-set counts as a write, because whether it
        succeeds is known only when it is executed."""
        touched = dict.fromkeys(self.reads, False)
        touched.update(dict.fromkeys([compare.key for compare in self.compares], False))
        for operation in (*self.then, *self.otherwise):
            touched[operation.key] = touched.get(operation.key, False) or not isinstance(operation, Get)
        touched.update(dict.fromkeys([each.key for each in self.imports], True))
        return touched

    @property
    def is_read_only(self) -> bool:
        return not any(self.footprint.values())

    @cached_property
    def size(self) -> int:
        keys = sum(map(len, self.reads)) + sum(len(compare.key) for compare in self.compares)
        values = sum(len(value) for compare in self.compares for value in compare.values)
        operations = (*self.then, *self.otherwise)
        written = sum(len(operation.value) for operation in operations if isinstance(operation, Put))
        imported = sum(each.size for each in self.imports)
        return keys + values + written + imported + sum(len(operation.key) for operation in operations)


def flaw_of(txn: Txn) -> str | None:
    """Why a client may not send this, as an error message; None if it may."""
    if max(map(len, (txn.compares, txn.then, txn.otherwise, txn.reads, txn.imports))) > MAX_PARTS:
        return f"a transaction has at most {MAX_PARTS} compares, operations and reads, each"
    if not all(1 <= len(key) <= MAX_KEY_BYTES for key in txn.footprint):
        return f"a key has 1 to {MAX_KEY_BYTES} bytes"
    if txn.size > MAX_TRANSACTION_BYTES:
        return f"keys and values of a transaction have at most {MAX_TRANSACTION_BYTES} bytes; here are {txn.size}"
    return None


class Wrong(enum.Enum):
    """Why an operation did nothing."""

    NOT_A_NUMBER = "value is not an integer or out of range"
    OVERFLOW = "increment or decrement would overflow"
    IMMUTABLE = "the key is reserved and can never change"


class Done(Struct, frozen=True, kw_only=True):
    """The result of one operation: the value a `Get` read or a `Put` or `Delete` replaced, the sum of an `Add`.
    `version`: of the key after it."""

    value: bytes | None
    wrong: Wrong | None = None
    version: int = 0


class Executed(Struct, frozen=True, kw_only=True):
    """The result of a transaction. `compared`: what the compares saw; `reads`, in their order."""

    succeeded: bool
    compared: tuple[OrderedValue, ...] = ()
    done: tuple[Done, ...] = ()
    reads: tuple[OrderedValue, ...] = ()

    @property
    def seen(self) -> tuple[bytes | None, ...]:
        return tuple([held.value for held in self.compared])

    @property
    def found(self) -> tuple[bytes | None, ...]:
        return tuple([held.value for held in self.reads])


class TxnRefused(Struct, frozen=True, kw_only=True):
    """Refused before anything was done. Definite. `no_quorum`: because too few replicas are within reach."""

    reason: str
    no_quorum: bool = False


class WrongEngine(Struct, frozen=True, kw_only=True):
    """These keys were written by themselves, and their values are too long to be handed over to transactions. Definite:
    nothing was done."""

    keys: tuple[bytes, ...]


class TxnUnknown(Struct, frozen=True, kw_only=True):
    """Not decided in time. Indefinite: it may still take effect."""

    reason: str


TxnOutcome = Executed | TxnRefused | WrongEngine | TxnUnknown
