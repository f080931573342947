"""Transactions over several keys, and what comes of them. The ordered engine runs them: docs/protocol/ordered.md."""

import enum
from functools import cached_property

from msgspec import Struct
from msgspec.structs import force_setattr

from epoxy.model.errors import InvalidRequest
from epoxy.model.records import MAX_KEY_BYTES

MAX_PARTS = 128
"""Compares, operations and reads of one transaction, each. Four keys are a transfer with its receipts; a hundred is a
migration, and better done in pieces."""

MAX_TRANSACTION_BYTES = 128 << 10
"""Keys and values of one transaction. Whatever depends on each other is executed in one piece, up to this much from
every transaction that is under way: see `ordered.queue`."""

MOST, LEAST = (1 << 63) - 1, -(1 << 63)
"""A number is a decimal of 64 bits with its sign, as in Redis."""


class Compare(Struct, frozen=True, kw_only=True):
    """Holds if the key's value is one of these, or if it has none and may have none.

    Invariant: something would make it hold.
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
    """Add to a decimal number, or take from it; absent counts as 0. What is no number, or would be too large a one,
    stays as it is. `amount=-5` is the same as `amount=5, negative=True`, and is kept as that.

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
    """If all compares hold `then` is done, otherwise `otherwise`, one operation after the other; each sees what those
    before it did. `reads` are looked up first. All of it happens at one moment, in the same order everywhere.

    Invariant: it names a key. What else clients are held to: `flaw_of`.
    """

    compares: tuple[Compare, ...] = ()
    then: tuple[Operation, ...] = ()
    otherwise: tuple[Operation, ...] = ()
    reads: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        assert self.compares or self.then or self.otherwise or self.reads, self

    @cached_property
    def footprint(self) -> dict[bytes, bool]:
        """The keys it names, and whether it may write them. A compare-and-set counts as a write whether or not it will
        succeed: nobody knows before its turn comes."""
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
    """Why this is more than a client may ask for, in words for the client."""
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
    """What one operation found: what a `Get` read, what a `Put` or `Delete` replaced, what an `Add` came to."""

    value: bytes | None
    wrong: Wrong | None = None


class Executed(Struct, frozen=True, kw_only=True):
    """What became of a transaction. `seen`: what each compare saw; `found`: the reads, in their order."""

    succeeded: bool
    seen: tuple[bytes | None, ...]
    done: tuple[Done, ...]
    found: tuple[bytes | None, ...]


class TxnRefused(Struct, frozen=True, kw_only=True):
    """Turned away before anything was done. Definite."""

    reason: str


class WrongEngine(Struct, frozen=True, kw_only=True):
    """Some of the keys belong to the per-key engine, which has no transactions. Definite: nothing was written.
    `claimed` are others it names that belong to transactions from now on: somebody wrote one of `keys` by itself after
    it was looked whether all of them are free."""

    keys: tuple[bytes, ...]
    claimed: tuple[bytes, ...] = ()


class TxnUnknown(Struct, frozen=True, kw_only=True):
    """Not decided in time. Indefinite: it may still take effect."""

    reason: str


TxnOutcome = Executed | TxnRefused | WrongEngine | TxnUnknown
