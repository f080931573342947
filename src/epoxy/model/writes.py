"""Writes and reads of clients, and their outcomes."""

import enum

from msgspec import Struct

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.records import MAX_KEY_BYTES, MAX_VALUE_BYTES, Proposal


class Consistency(enum.Enum):
    OPTIMISTIC = "optimistic"
    SKIP_CACHE = "skip_cache"
    LINEARIZABLE = "linearizable"


class Path(enum.Enum):
    """Which rounds a write needed: none, the fast one, or classic ones."""

    LOCAL = "local"
    FAST = "fast"
    SLOW = "slow"


class Source(enum.Enum):
    """Where a read found its value."""

    LOCAL = "local"
    CACHE = "cache"
    LEGACY = "legacy"
    REMOTE = "remote"
    QUORUM = "quorum"


class Write(Struct, frozen=True, kw_only=True):
    """One client write: an operation on the value of one key, evaluated in order at the replica that proposes it.

    Immutable is set-if-absent: it reserves a free key, for ever. Mutable overwrites; `if_version` makes it a
    compare-and-set on the committed version (0: never written). With `amount` it adds that to a decimal number (absent:
    0). A mutable write of None without an amount deletes. `returning`: its answer needs what was there before.

    Invariants: 1. key, value and amount within limits.  2. Only mutable writes delete, add or compare.  3. A write that
    adds has no value.
    """

    key: bytes
    value: bytes | None
    mutable: bool = False
    if_version: int | None = None
    amount: int | None = None
    returning: bool = False

    def __post_init__(self) -> None:
        assert 1 <= len(self.key) <= MAX_KEY_BYTES
        assert self.value is None or len(self.value) <= MAX_VALUE_BYTES
        assert self.mutable or (self.value is not None and self.if_version is None)
        assert self.amount is None or (self.value is None and LEAST_INTEGER <= self.amount <= MOST_INTEGER)

    @property
    def is_delete(self) -> bool:
        return self.value is None and self.amount is None


class Committed(Struct, frozen=True, kw_only=True):
    """The value of the write is committed. `mine`: by this write, not by another of an equal value. `previous` is the
    version that a mutable write replaced; None also if it is not known, which a write that is `returning` is never
    answered."""

    proposal: Proposal
    mine: bool
    path: Path
    previous: Proposal | None = None


class ExpectedValueDoesNotMatch(Struct, frozen=True, kw_only=True):
    """The key is taken with another value."""

    committed: Proposal
    path: Path


class VersionMismatch(Struct, frozen=True, kw_only=True):
    """`if_version` is not, and never again will be, the committed version. None: the key was never written."""

    committed: Proposal | None
    path: Path


class ImmutableKey(Struct, frozen=True, kw_only=True):
    """A mutable write to an immutable key."""

    committed: Proposal
    path: Path


class NothingToDelete(Struct, frozen=True, kw_only=True):
    """The key was absent; nothing was written. `committed` is its tombstone, if it ever had a value."""

    committed: Proposal | None
    path: Path


class NotAnInteger(Struct, frozen=True, kw_only=True):
    """An amount cannot be added to the committed value: that is no decimal number of 64 bits, or the sum is none."""

    committed: Proposal
    path: Path
    reason: str


class ConsensusFailed(Struct, frozen=True, kw_only=True):
    """Nothing was decided in time, or it was and the answer is lost. Indefinite: the write may still take effect."""

    reason: str


class Refused(Struct, frozen=True, kw_only=True):
    """Refused before anything was done. Definite. `no_quorum`: because too few replicas are within reach."""

    reason: str
    no_quorum: bool = False


Outcome = (
    Committed
    | ExpectedValueDoesNotMatch
    | VersionMismatch
    | ImmutableKey
    | NothingToDelete
    | NotAnInteger
    | ConsensusFailed
    | Refused
)


class ReadResult(Struct, frozen=True, kw_only=True):
    """`committed` None: never written, as far as `source` knows. A tombstone: the key is absent now."""

    committed: Proposal | None
    source: Source

    @property
    def value(self) -> bytes | None:
        return self.committed.value if self.committed is not None else None


class ReadFailed(Struct, frozen=True, kw_only=True):
    """Too few replicas answered to say anything, not even "absent". A read changes nothing, so this is definite."""

    reason: str


ReadOutcome = ReadResult | ReadFailed

ReadAnswer = ReadOutcome | Refused
"""The outcome of a read at a node, which may refuse it."""
