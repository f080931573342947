"""Messages between replicas. A request gets one reply; both are plain values."""

import enum

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import InTerm, OrderedReply
from epoxy.model.records import Proposal, ProposalId, Settled, Vote

# Requests. All carry the sender's epoch; a decision (Commit) is safe to learn in any epoch.


class Prepare(Struct, frozen=True, kw_only=True):
    """Phase 1a: asks for a promise of this classic ballot, and for the vote, in the instance on top of version `base`.
    The fast round has no phase 1."""

    key: bytes
    epoch: int
    ballot: Ballot
    base: int

    def __post_init__(self) -> None:
        assert self.ballot.is_classic, self


class Accept(Struct, frozen=True, kw_only=True):
    """Phase 2a: asks for a vote for this proposal, in the fast round or at a classic ballot."""

    key: bytes
    epoch: int
    ballot: Ballot
    proposal: Proposal

    def __post_init__(self) -> None:
        assert self.ballot.counter > NO_BALLOT.counter, self
        assert self.proposal.version >= 1, self


class Commit(Struct, frozen=True, kw_only=True):
    """Announces a decision."""

    key: bytes
    epoch: int
    proposal: Proposal


class Read(Struct, frozen=True, kw_only=True):
    """Asks for the committed value and the vote."""

    key: bytes
    epoch: int


class UpdateConfig(Struct, frozen=True, kw_only=True):
    """Asks to adopt this configuration if it is newer."""

    config: ClusterConfig


class Inspect(Struct, frozen=True, kw_only=True):
    """Asks for all that is held for this key, for diagnosis. Not bound to an epoch, because it is sent when epochs
    differ."""

    key: bytes


class CarriedWrite(Struct, frozen=True, kw_only=True):
    """A client's write on its way to the replica that is to fold it: the fields of `Write`, its id, and its floor, the
    version up to which it is in no decision. `amount` is stored without its sign."""

    proposal_id: ProposalId
    floor: int
    value: bytes | None
    mutable: bool
    if_version: int | None
    returning: bool
    amount: int | None
    negative: bool
    if_absent: bool = False
    touch: bool = False
    keep_expiry: bool = False
    ttl_ms: int = 0
    session: bytes = b""


class Carry(Struct, frozen=True, kw_only=True):
    """Asks the owner of a key to fold these writes into its next proposal. No acceptor's state changes by it. It is
    taken at most once: `number` rises within one life of the `sender`, and it is for one life of the `receiver`, 0 if
    that is not known yet."""

    key: bytes
    epoch: int
    sender: int
    receiver: int
    number: int
    writes: tuple[CarriedWrite, ...]


class CarryResult(enum.Enum):
    """The outcomes of `model.writes`."""

    DONE = enum.auto()
    TAKEN = enum.auto()
    MISMATCH = enum.auto()
    IMMUTABLE = enum.auto()
    ABSENT = enum.auto()
    NO_INTEGER = enum.auto()
    UNKNOWN = enum.auto()
    REFUSED = enum.auto()


class CarryAnswer(Struct, frozen=True, kw_only=True):
    """DONE: `version` is that of the write, `value` what an addition made, `committed` what was there before. Otherwise
    `committed` is what stood in its way."""

    proposal_id: ProposalId
    result: CarryResult
    version: int
    value: bytes | None
    committed: Proposal | None
    reason: str


class CarryAnswers(Struct, frozen=True, kw_only=True):
    """The outcomes of writes that were carried, after the Commit of their fold. `owner`: where to carry the next ones
    to."""

    key: bytes
    owner: int
    answers: tuple[CarryAnswer, ...]


KeyRequest = Prepare | Accept | Commit | Read
CarryRequest = Carry | CarryAnswers
Request = KeyRequest | UpdateConfig | Inspect | CarryRequest | InTerm

# Replies.


class PrepareOk(Struct, frozen=True, kw_only=True):
    """Phase 1b."""

    vote: Vote | None


class AcceptOk(Struct, frozen=True, kw_only=True):
    """Phase 2b."""


class CommitOk(Struct, frozen=True, kw_only=True):
    """Learned just now."""


class ReadOk(Struct, frozen=True, kw_only=True):
    committed: Proposal | None
    vote: Vote | None


class AlreadyCommitted(Struct, frozen=True, kw_only=True):
    """The instance is decided. By the lineage an overtaken writer learns whether its write is among the decided."""

    committed: Proposal
    lineage: tuple[Settled, ...] = ()


class HigherBallot(Struct, frozen=True, kw_only=True):
    """Refused: this ballot was promised, or a fast vote was given in it, before."""

    ballot: Ballot


class CarryOk(Struct, frozen=True, kw_only=True):
    """Taken, except for those declined: they are not folded here, and never will be because of that Carry. `life`: of
    the process that answers."""

    declined: tuple[ProposalId, ...] = ()
    life: int = 0


class Behind(Struct, frozen=True, kw_only=True):
    """Refused: this replica missed a commit, and is at this version. Send the commit, then the request again."""

    version: int


class StaleCommit(Struct, frozen=True, kw_only=True):
    """The commit is of an older version than this committed one."""

    version: int


class StaleEpoch(Struct, frozen=True, kw_only=True):
    """Refused: the epoch of the request is over. This is the configuration in force."""

    config: ClusterConfig


class EpochAhead(Struct, frozen=True, kw_only=True):
    """Refused: this replica is still in this epoch. Send the configuration, then the request again."""

    epoch: int


class CommitConflict(Struct, frozen=True, kw_only=True):
    """A broken invariant: another value is committed here for the same instance. Nothing was overwritten."""

    committed: Proposal


class ConfigOk(Struct, frozen=True, kw_only=True):
    """The epoch of the replica, after `UpdateConfig`."""

    epoch: int


class Inspected(Struct, frozen=True, kw_only=True):
    """`changelog`: the stamps of this key's rows among the newest ones. `owner`: the replica that this one carries
    writes of the key to, by its hint; 0: none. `waiting`: writes that wait here, or elsewhere for this replica."""

    epoch: int
    committed: Proposal | None
    lineage: tuple[Settled, ...]
    promised: Ballot
    vote: Vote | None
    cached: Proposal | None
    changelog: tuple[bytes, ...]
    owner: int = 0
    waiting: int = 0


class Failed(Struct, frozen=True, kw_only=True):
    """No usable reply: timeout, broken connection, refused by the transport. The peer may have handled the request."""

    reason: str


KeyGrant = PrepareOk | AcceptOk | CommitOk | ReadOk
KeyRefusal = AlreadyCommitted | HigherBallot | Behind | StaleCommit | StaleEpoch | EpochAhead | CommitConflict
Reply = KeyGrant | KeyRefusal | ConfigOk | Failed | Inspected | CarryOk | OrderedReply
