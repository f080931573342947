"""Transactions over several keys, and their outcomes. The ordered engine runs them: docs/protocol/ordered.md."""

import enum
from functools import cached_property

from msgspec import Struct
from msgspec.structs import force_setattr

from epoxy.model.errors import InvalidRequest
from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.records import MAX_KEY_BYTES

MAX_PARTS = 128
"""Of compares, of operations and of reads in one transaction. A transfer with receipts has four keys; a migration of
hundreds is better done in pieces."""

MAX_TRANSACTION_BYTES = 128 << 10
"""Keys and values of one transaction. Commands that depend on each other are executed in one piece, which has to fit
into a transaction of the store: see `protocol.txn.queue`."""

MOST, LEAST = MOST_INTEGER, LEAST_INTEGER
"""A number is a signed decimal of 64 bits, as in Redis."""


class Compare(Struct, frozen=True, kw_only=True):
    """Holds if the key's value is one of these, or if it has none and may have none.

    Invariant: some value, or absence, makes it hold.
    """

    key: bytes
    values: tuple[bytes, ...] = ()
    absent: bool = False

    def __post_init__(self) -> None:
        if not self.values and not self.absent:
            raise InvalidRequest("a compare says what the key may hold: values, or absent")

    def holds(self, value: bytes | None) -> bool:
        return self.absent if value is None else value in self.values


class Get(Struct, frozen=True, kw_only=True):
    key: bytes


class Put(Struct, frozen=True, kw_only=True):
    key: bytes
    value: bytes


class Delete(Struct, frozen=True, kw_only=True):
    key: bytes


class Add(Struct, frozen=True, kw_only=True):
    """Add to a decimal number, or subtract; absent counts as 0. A value that is not a number, or would overflow, stays
    as it is. `amount=-5` is stored as `amount=5, negative=True`.

    Invariant: 0 <= amount <= MOST.
    """

    key: bytes
    amount: int
    negative: bool = False

    def __post_init__(self) -> None:
        if self.amount < 0:
            force_setattr(self, "amount", -self.amount)
            force_setattr(self, "negative", not self.negative)
        if self.amount > MOST:
            raise InvalidRequest(f"an amount is at most {MOST}")


Operation = Get | Put | Delete | Add


class Txn(Struct, frozen=True, kw_only=True, dict=True):
    """If all compares hold, the operations of `then` are executed, else those of `otherwise`; each sees the effects of
    those before it. `reads` are read first. All of it is atomic, and in the same order at every replica.

    Invariant: it names a key. Further limits for clients: `flaw_of`.
    """

    compares: tuple[Compare, ...] = ()
    then: tuple[Operation, ...] = ()
    otherwise: tuple[Operation, ...] = ()
    reads: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        assert self.compares or self.then or self.otherwise or self.reads, self

    @cached_property
    def footprint(self) -> dict[bytes, bool]:
        """The keys it names, and whether it may write them. A compare-and-set counts as a write, because whether it
        succeeds is known only when it is executed."""
        touched = dict.fromkeys(self.reads, False)
        touched.update(dict.fromkeys([compare.key for compare in self.compares], False))
        for operation in (*self.then, *self.otherwise):
            touched[operation.key] = touched.get(operation.key, False) or not isinstance(operation, Get)
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
        return keys + values + written + sum(len(operation.key) for operation in operations)


def flaw_of(txn: Txn) -> str | None:
    """Why a client may not send this, as an error message; None if it may."""
    if max(map(len, (txn.compares, txn.then, txn.otherwise, txn.reads))) > MAX_PARTS:
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


class Done(Struct, frozen=True, kw_only=True):
    """The result of one operation: the value a `Get` read or a `Put` or `Delete` replaced, the sum of an `Add`."""

    value: bytes | None
    wrong: Wrong | None = None


class Executed(Struct, frozen=True, kw_only=True):
    """The result of a transaction. `seen`: the values the compares saw; `found`: the reads, in their order."""

    succeeded: bool
    seen: tuple[bytes | None, ...]
    done: tuple[Done, ...]
    found: tuple[bytes | None, ...]


class TxnRefused(Struct, frozen=True, kw_only=True):
    """Refused before anything was done. Definite. `no_quorum`: because too few replicas are within reach."""

    reason: str
    no_quorum: bool = False


class WrongEngine(Struct, frozen=True, kw_only=True):
    """Some of the keys belong to the per-key engine, which has no transactions. Definite: nothing was written.
    `claimed`: other keys of the transaction that belong to transactions from now on, because one of `keys` was written
    by itself between the check that all are free and the claim."""

    keys: tuple[bytes, ...]
    claimed: tuple[bytes, ...] = ()


class TxnUnknown(Struct, frozen=True, kw_only=True):
    """Not decided in time. Indefinite: it may still take effect."""

    reason: str


TxnOutcome = Executed | TxnRefused | WrongEngine | TxnUnknown
