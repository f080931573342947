"""What a replica stores for a key. These records never refer to each other in a circle, so they are exempt from garbage
collection (`gc=False`): scanning a large cache of them would pause the process for many milliseconds."""

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.validation import LINEAGE_LENGTH as LINEAGE_LENGTH
from epoxy.model.validation import assert_well_formed

MAX_KEY_BYTES = 1024
MAX_VALUE_BYTES = 1 << 20
"""The interface's limits: a key of 1 to 1024 bytes, a value of up to 1 MiB."""


class ProposalId(Struct, frozen=True, order=True, gc=False):
    """Names one client write, so that "my write won" is not confused with "an equal value won"."""

    replica_id: int
    nonce: int

    def __str__(self) -> str:
        return f"{self.replica_id}#{self.nonce:x}"


class Proposal(Struct, frozen=True, kw_only=True, gc=False):
    """A value for one instance (key, version). `value` None is a tombstone.

    Invariants: 1. version >= 1, or 0 for a legacy value.  2. Only mutable keys hold tombstones.
    """

    value: bytes | None
    version: int
    mutable: bool
    proposal_id: ProposalId

    def __post_init__(self) -> None:
        assert self.version >= 0, self
        assert self.mutable or self.value is not None, self

    @property
    def is_tombstone(self) -> bool:
        return self.value is None


LEGACY_PROPOSAL_ID = ProposalId(0, 0)
"""Legacy values are older than proposal ids; no replica has id 0."""


class Vote(Struct, frozen=True, kw_only=True, gc=False):
    """An accepted proposal. By its epoch, votes of sealed epochs are told from those that count."""

    proposal: Proposal
    ballot: Ballot
    epoch: int


class Settled(Struct, frozen=True, gc=False):
    """An earlier version, and whose write it was."""

    version: int
    proposal_id: ProposalId


class KeyState(Struct, frozen=True, kw_only=True, gc=False):
    """All an acceptor holds for a key.

    Invariants: 1. promise and vote belong to `next_version`.  2. A vote is never above the promise, except that a fast
    vote leaves the promise alone.  3. An immutable committed key has neither promise nor vote.
    4. `lineage` holds versions below `committed`, newest first, at most LINEAGE_LENGTH.
    """

    committed: Proposal | None = None
    lineage: tuple[Settled, ...] = ()
    promised: Ballot = NO_BALLOT
    vote: Vote | None = None

    def __post_init__(self) -> None:
        assert_well_formed(self)

    @property
    def version(self) -> int:
        return self.committed.version if self.committed is not None else 0

    @property
    def next_version(self) -> int:
        return self.version + 1

    @property
    def is_final(self) -> bool:
        """Committed and immutable: nothing will ever be decided for this key again."""
        return self.committed is not None and not self.committed.mutable

    @property
    def is_untouched(self) -> bool:
        """Nothing in flight: the fast round of `next_version` is open here."""
        return self.vote is None and self.promised == NO_BALLOT


FRESH = KeyState()


class CommittedRecord(Struct, frozen=True, kw_only=True, gc=False):
    """`kv/{key}/value`."""

    committed: Proposal
    lineage: tuple[Settled, ...] = ()


class ChangelogEntry(Struct, frozen=True, kw_only=True, gc=False):
    """`changelog/{sequence}`: decisions in the order this replica learned them."""

    key: bytes
    committed: Proposal
