"""What a replica stores for a key. These records never refer to each other in a circle, so they are exempt from garbage
collection (`gc=False`): scanning a large cache of them would pause the process for many milliseconds."""

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.validation import LINEAGE_LENGTH as LINEAGE_LENGTH
from epoxy.model.validation import assert_well_formed

MAX_KEY_BYTES = 1024
MAX_VALUE_BYTES = 1 << 20
"""The interface's limits: a key of 1 to 1024 bytes, a value of up to 1 MiB."""

MAX_TTL_MS = 1 << 45
"""A thousand years: what Redis clients send for "never" is within."""

SESSION_ID_BYTES = 16

MAX_FOLD_WRITES = 64
"""Writes in one proposal. With a lineage of eight decisions, a key remembers up to 512 ids."""


class ProposalId(Struct, frozen=True, order=True, gc=False):
    """Names one client write, so that "my write won" is not confused with "an equal value won"."""

    replica_id: int
    nonce: int

    def __str__(self) -> str:
        return f"{self.replica_id}#{self.nonce:x}"


class Expiry(Struct, frozen=True, kw_only=True, gc=False):
    """When a value ends: `ttl_ms` after the version `since`, at which this was given, became durable; or with a
    session, named by its id. Each replica counts on its own clock, and the end itself is a decision. A version that
    keeps the expiry of the one before names the same `since`, so overwriting a value does not prolong it.

    Invariant: a time to live, or a session.
    """

    ttl_ms: int
    since: int
    session: bytes = b""

    def __post_init__(self) -> None:
        assert (self.ttl_ms > 0) is (not self.session), self


class Proposal(Struct, frozen=True, kw_only=True, gc=False):
    """A value for one instance (key, base): what one or more writes make of the version `base`. `value` None is a
    tombstone.

    A fold of several writes has the value after the last of them. Each has a version of its own: `folded` are the ids
    of those before the last, oldest first, and `proposal_id` is the last one's. `proposer` is the replica that folded
    them, 0 if that is the home of the last one.

    Invariants: 1. version >= 1, or 0 for a legacy value.  2. Only mutable keys hold tombstones.  3. base >= 0, except
    for legacy values.  4. Only a value of a mutable key has an expiry.
    """

    value: bytes | None
    version: int
    mutable: bool
    proposal_id: ProposalId
    folded: tuple[ProposalId, ...] = ()
    proposer: int = 0
    expiry: Expiry | None = None

    def __post_init__(self) -> None:
        assert self.version >= len(self.folded) + (self.folded != ()), self
        assert self.mutable or self.value is not None, self
        assert self.expiry is None or (self.mutable and self.value is not None), self

    @property
    def base(self) -> int:
        """The version it builds on, which names its instance."""
        return self.version - 1 - len(self.folded)

    @property
    def home(self) -> int:
        """The replica that put it forward first."""
        return self.proposer or self.proposal_id.replica_id

    @property
    def is_tombstone(self) -> bool:
        return self.value is None

    @property
    def is_fold(self) -> bool:
        """Of several writes, or of another replica's."""
        return self.folded != () or self.proposer != 0


LEGACY_PROPOSAL_ID = ProposalId(0, 0)
"""Legacy values are older than proposal ids; no replica has id 0."""


class Vote(Struct, frozen=True, kw_only=True, gc=False):
    """An accepted proposal. By its epoch, votes of sealed epochs are told from those that count."""

    proposal: Proposal
    ballot: Ballot
    epoch: int


class Settled(Struct, frozen=True, gc=False):
    """An earlier decision: its last version, and the ids of its writes, as in a Proposal."""

    version: int
    proposal_id: ProposalId
    folded: tuple[ProposalId, ...] = ()

    @property
    def base(self) -> int:
        return self.version - 1 - len(self.folded)


class KeyState(Struct, frozen=True, kw_only=True, gc=False):
    """All an acceptor holds for a key.

    Invariants: 1. promise and vote belong to the instance whose base is `version`.  2. A vote is never above the
    promise, except that a fast vote leaves the promise alone.  3. An immutable committed key has neither promise nor
    vote.  4. `lineage` holds decisions below `committed`, newest first, at most LINEAGE_LENGTH.
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
    def is_final(self) -> bool:
        """Committed and immutable: nothing will ever be decided for this key again."""
        return self.committed is not None and not self.committed.mutable

    @property
    def is_untouched(self) -> bool:
        """Nothing in flight: the fast round on top of `version` is open here."""
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


class ExpiryEntry(Struct, frozen=True, kw_only=True, gc=False):
    """`expiries/{key}`: of a committed value that ends, beside its own row, so that a start finds these few among
    millions of keys. `home`: of the version."""

    version: int
    home: int
    expiry: Expiry
