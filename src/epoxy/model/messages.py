"""What replicas say to each other. A request gets one reply; both are values and carry no connection."""

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import InTerm, OrderedReply
from epoxy.model.records import Proposal, Settled, Vote

# Requests. All carry the sender's epoch; a decision (Commit) is safe to learn in any epoch.


class Prepare(Struct, frozen=True, kw_only=True):
    """Phase 1a: promise me this classic ballot, and tell me your vote. The fast round has no phase 1."""

    key: bytes
    epoch: int
    ballot: Ballot
    version: int

    def __post_init__(self) -> None:
        assert self.ballot.is_classic, self
        assert self.version >= 1, self


class Accept(Struct, frozen=True, kw_only=True):
    """Phase 2a: vote for this proposal, in the fast round or at a classic ballot."""

    key: bytes
    epoch: int
    ballot: Ballot
    proposal: Proposal

    def __post_init__(self) -> None:
        assert self.ballot.counter > NO_BALLOT.counter, self
        assert self.proposal.version >= 1, self


class Commit(Struct, frozen=True, kw_only=True):
    """Learn: this was decided."""

    key: bytes
    epoch: int
    proposal: Proposal


class Read(Struct, frozen=True, kw_only=True):
    """What do you hold: the committed value, and the vote in flight."""

    key: bytes
    epoch: int


class UpdateConfig(Struct, frozen=True, kw_only=True):
    """Adopt this configuration, if it is newer than yours."""

    config: ClusterConfig


class Inspect(Struct, frozen=True, kw_only=True):
    """Everything you hold for this key, for somebody who looks into a problem. Not bound to an epoch: it is asked when
    those differ."""

    key: bytes


KeyRequest = Prepare | Accept | Commit | Read
Request = KeyRequest | UpdateConfig | Inspect | InTerm

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
    """The instance is decided. The lineage tells an overtaken writer whose earlier versions were."""

    committed: Proposal
    lineage: tuple[Settled, ...] = ()


class HigherBallot(Struct, frozen=True, kw_only=True):
    """Refused: this ballot was promised, or voted in, before yours."""

    ballot: Ballot


class Behind(Struct, frozen=True, kw_only=True):
    """Refused: I missed a commit and am still at this version. Send it, then ask again."""

    version: int


class StaleCommit(Struct, frozen=True, kw_only=True):
    """A commit of an older version than mine."""

    version: int


class StaleEpoch(Struct, frozen=True, kw_only=True):
    """Refused: your epoch is over. This is the configuration in force here."""

    config: ClusterConfig


class EpochAhead(Struct, frozen=True, kw_only=True):
    """Refused: I am still in this epoch. Send me the configuration, then ask again."""

    epoch: int


class CommitConflict(Struct, frozen=True, kw_only=True):
    """A broken invariant: another value is committed here for the same instance. Nothing was overwritten."""

    committed: Proposal


class ConfigOk(Struct, frozen=True, kw_only=True):
    """My epoch, after looking at yours."""

    epoch: int


class Inspected(Struct, frozen=True, kw_only=True):
    """`changelog`: the stamps of this key's rows among the newest ones."""

    epoch: int
    committed: Proposal | None
    lineage: tuple[Settled, ...]
    promised: Ballot
    vote: Vote | None
    cached: Proposal | None
    changelog: tuple[bytes, ...]


class Failed(Struct, frozen=True, kw_only=True):
    """No usable reply: timeout, broken connection, refused by the transport. Says nothing about what the peer did."""

    reason: str


Reply = (
    PrepareOk
    | AcceptOk
    | CommitOk
    | ReadOk
    | AlreadyCommitted
    | HigherBallot
    | Behind
    | StaleCommit
    | StaleEpoch
    | EpochAhead
    | CommitConflict
    | ConfigOk
    | Failed
    | Inspected
    | OrderedReply
)
