"""Writes and reads of clients, and their outcomes."""

import enum

from msgspec import Struct

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.marks import OWNED
from epoxy.model.records import MAX_KEY_BYTES, MAX_TTL_MS, MAX_VALUE_BYTES, SESSION_ID_BYTES, Proposal
from epoxy.model.strings import Reply, Steps


class Consistency(enum.Enum):
    OPTIMISTIC = "optimistic"
    SKIP_CACHE = "skip_cache"
    LINEARIZABLE = "linearizable"


class Path(enum.Enum):
    """Which rounds a write needed: none, the fast one, or classic ones."""

    LOCAL = "local"
    FAST = "fast"
    SLOW = "slow"

    __hash__ = object.__hash__
    """By identity, as they are compared: an enumeration's own is interpreted, and every write counts its path twice."""


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
    0). A mutable write of None without an amount deletes. `if_absent` creates, and does nothing to a key that has a
    value. `touch` leaves the value as it is, and gives it the expiry of this write, or none. `steps` are commands that
    are evaluated in its place. `returning`: its answer needs what was there before.

    The value gets an expiry: `ttl_ms`, or that of a session, by its id. `keep_expiry` keeps the one that is there; so
    does an amount, which gives its own only where it creates the key.

    Invariants: 1. key, value, amount and expiry within limits.  2. Only mutable writes delete, add, compare or expire.
    3. A write that adds, touches or has steps has no value.  4. One expiry at most.
    """

    key: bytes
    value: bytes | None
    mutable: bool = False
    if_version: int | None = None
    amount: int | None = None
    returning: bool = False
    if_absent: bool = False
    touch: bool = False
    keep_expiry: bool = False
    ttl_ms: int = 0
    session: bytes = b""
    steps: Steps | None = None

    def __post_init__(self) -> None:
        assert 1 <= len(self.key) <= MAX_KEY_BYTES
        assert self.value is None or len(self.value) <= MAX_VALUE_BYTES
        assert self.mutable or (self.value is not None and self.if_version is None)
        assert self.amount is None or (self.value is None and LEAST_INTEGER <= self.amount <= MOST_INTEGER)
        if self.ttl_ms or self.session or self.keep_expiry or self.touch or self.steps is not None:
            self._check_the_rest()

    def _check_the_rest(self) -> None:
        """Apart, because most writes have nothing of it."""
        assert 0 <= self.ttl_ms <= MAX_TTL_MS
        assert len(self.session) in (0, SESSION_ID_BYTES)
        assert (self.ttl_ms > 0) + (self.session != b"") + self.keep_expiry <= 1, self
        assert self.mutable or not self.expires, self
        assert self.value is None or not (self.touch or self.steps), self

    @property
    def is_delete(self) -> bool:
        return self.value is None and self.amount is None and not self.touch and self.steps is None

    @property
    def is_claim(self) -> bool:
        """Whether it gives the key to transactions, with what the key holds. What is proposed is the mark that says so:
        `marks.mark_of` the version it builds on."""
        return not self.mutable and self.value == OWNED

    @property
    def expires(self) -> bool:
        """Whether it gives its value an expiry."""
        return self.ttl_ms > 0 or self.session != b""


class Committed(Struct, frozen=True, kw_only=True):
    """The value of the write is committed. `mine`: by this write, not by another of an equal value. `previous` is the
    version that a mutable write replaced; None also if it is not known, which a write that is `returning` is never
    answered. `replies`: of its steps."""

    proposal: Proposal
    mine: bool
    path: Path
    previous: Proposal | None = None
    replies: tuple[Reply, ...] = ()


class Unchanged(Struct, frozen=True, kw_only=True):
    """Steps that wrote nothing, on this version: a read, in effect. None: the key was never written."""

    committed: Proposal | None
    path: Path
    replies: tuple[Reply, ...]


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
    """Refused before anything was done. Definite. `no_quorum`: because too few replicas are within reach; `no_session`:
    because the session that it names is over."""

    reason: str
    no_quorum: bool = False
    no_session: bool = False


Outcome = (
    Committed
    | ExpectedValueDoesNotMatch
    | VersionMismatch
    | ImmutableKey
    | NothingToDelete
    | NotAnInteger
    | Unchanged
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
