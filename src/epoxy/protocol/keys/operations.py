"""What a flow asks of its own replica, one transaction each, and what it is told.

Records stand apart from the functions that use them, here and in `terms`: compiled modules cannot define them.
"""

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import AlreadyCommitted, Commit
from epoxy.model.records import Proposal, ProposalId, Vote
from epoxy.model.writes import Outcome, Write


class Answered(Struct, frozen=True):
    """Nothing to propose: this is the answer."""

    outcome: Outcome


class Unconfirmed(Struct, frozen=True):
    """The answer depends on whether this is still the truth: ask a quorum."""


Verdict = Answered | Unconfirmed | None
"""None: go on, propose the next version."""


class Select(Struct, frozen=True, kw_only=True):
    """Begin a write: answer it, vote for it in the fast round, or reserve a classic ballot. `offered` is the version it
    was put forward for already, 0 if none: that one must be settled before anything else is said."""

    write: Write
    proposal_id: ProposalId
    offered: int
    me: int
    epoch: int

    @property
    def key(self) -> bytes:
        return self.write.key


class Reserve(Struct, frozen=True, kw_only=True):
    """Promise myself the next classic ballot of an instance. Durable first, so that no ballot is ever used twice."""

    key: bytes
    version: int
    above: Ballot
    me: int
    epoch: int


class Conclude(Struct, frozen=True, kw_only=True):
    """Commit what a fast quorum voted for."""

    key: bytes
    proposal: Proposal
    epoch: int


class Peek(Struct, frozen=True, kw_only=True):
    """What this replica would answer a local reader: committed, legacy, or cached."""

    key: bytes
    use_cache: bool


class Cache(Struct, frozen=True, kw_only=True):
    """Keep a value found elsewhere."""

    key: bytes
    proposal: Proposal


class Adopt(Struct, frozen=True, kw_only=True):
    """Move to a newer configuration. Only ever upwards. Resumed with the configuration then in force."""

    config: ClusterConfig


KeyOp = Select | Reserve | Conclude | Commit
HomeOp = KeyOp | Peek | Cache | Adopt


class FastVote(Struct, frozen=True, kw_only=True):
    """My own vote stands at (1, me)."""

    proposal: Proposal
    base: Proposal | None


class Reserved(Struct, frozen=True, kw_only=True):
    """My own promise stands at this ballot; `vote` is what I had voted for. `base` is the version before."""

    ballot: Ballot
    version: int
    vote: Vote | None
    base: Proposal | None


class Concluded(Struct, frozen=True):
    pass


Selected = Answered | Unconfirmed | FastVote | Reserved | AlreadyCommitted
