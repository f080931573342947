"""Operations of a flow at its own replica, one transaction each, and their results.

These records are apart from the functions that use them, as in `terms`, because compiled modules cannot define records.
"""

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.messages import AlreadyCommitted, Commit
from epoxy.model.records import Proposal, ProposalId, Vote
from epoxy.model.writes import Outcome, Write
from epoxy.protocol.effects import Adopt


class Answered(Struct, frozen=True):
    """Nothing to propose: this is the answer."""

    outcome: Outcome


class Unconfirmed(Struct, frozen=True):
    """The answer depends on whether this version is still the newest: ask a quorum."""


Verdict = Answered | Unconfirmed | None
"""None: go on, propose the next version."""


class Select(Struct, frozen=True, kw_only=True):
    """Begin a write: answer it, vote for it in the fast round, or reserve a classic ballot. `offered` is the version it
    was already proposed for, 0 if none: the write is not answered before the winner of that version is known."""

    write: Write
    proposal_id: ProposalId
    offered: int
    me: int
    epoch: int

    @property
    def key(self) -> bytes:
        return self.write.key


class Reserve(Struct, frozen=True, kw_only=True):
    """Promise the next classic ballot of an instance to this replica. Durable before use, so that no ballot is used
    twice."""

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
    """Read the committed, legacy or cached value of this replica."""

    key: bytes
    use_cache: bool


class Cache(Struct, frozen=True, kw_only=True):
    """Cache a value that another replica has answered."""

    key: bytes
    proposal: Proposal


KeyOp = Select | Reserve | Conclude | Commit
LocalOp = KeyOp | Peek | Cache | Adopt


class FastVote(Struct, frozen=True, kw_only=True):
    """This replica has voted at (1, me)."""

    proposal: Proposal
    base: Proposal | None


class Reserved(Struct, frozen=True, kw_only=True):
    """This replica has promised this ballot; `vote` is its last vote. `base` is the version before."""

    ballot: Ballot
    version: int
    vote: Vote | None
    base: Proposal | None


class Concluded(Struct, frozen=True):
    pass


Selected = Answered | Unconfirmed | FastVote | Reserved | AlreadyCommitted
