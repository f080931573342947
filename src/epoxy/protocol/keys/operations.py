"""Operations of a flow at its own replica, one transaction each, and their results.

These records are apart from the functions that use them, as in `terms`, because compiled modules cannot define records.
"""

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.messages import AlreadyCommitted, Commit
from epoxy.model.records import Proposal, ProposalId, Vote
from epoxy.model.writes import Outcome, Path, Write
from epoxy.protocol.effects import Adopt
from epoxy.protocol.keys.evaluation import Evaluation


class Answered(Struct, frozen=True):
    """Nothing to propose: this is the answer."""

    outcome: Outcome


class Unconfirmed(Struct, frozen=True):
    """The answer depends on whether this version is still the newest: ask a quorum."""


Verdict = Answered | Unconfirmed | None
"""None: go on, propose the next version."""


NOT_EXPOSED = -1
"""The floor of a write that was neither put forward nor handed over yet."""


class PendingWrite(Struct, kw_only=True, gc=False):
    """A write without an answer. Once it is exposed, put forward or handed over, it may be in a decision: in none up to
    version `floor` (rule F2), which rises only by decisions that were looked through. `handed_over`: another replica
    may still fold it. `is_guest`: its home is another replica, which handed it over. `lost`: rounds it did not win, and
    `travelled`, the longest path of those. `evaluation`: of its steps."""

    write: Write
    proposal_id: ProposalId
    floor: int = NOT_EXPOSED
    handed_over: bool = False
    is_guest: bool = False
    lost: int = 0
    travelled: Path = Path.LOCAL
    outcome: Outcome | None = None
    evaluation: Evaluation | None = None

    @property
    def is_exposed(self) -> bool:
        return self.floor != NOT_EXPOSED

    def expose(self, version: int) -> None:
        """From here on it may be decided, on top of this version or later."""
        if self.floor == NOT_EXPOSED:
            self.floor = version


class Fold(Struct, frozen=True, kw_only=True, gc=False):
    """Writes applied in order to the version `base`: the proposal, and each write's answer if it is decided."""

    proposal: Proposal
    answers: tuple[Outcome, ...]
    base: Proposal | None


class Unfolded(Struct, frozen=True):
    """None of the writes would take effect: their answers. None: it depends on whether this version is still the
    newest."""

    answers: tuple[Outcome | None, ...]


class Select(Struct, frozen=True, kw_only=True):
    """Begin a round for the writes of a key that wait: answer them, vote for their fold in the fast round, or reserve a
    classic ballot. Those that may be decided already are looked for first. `insists`: a ballot is reserved
    also while a rival has the highest one here, and without it if the rival is `silent`. `decides`: the fast vote of
    this replica is a quorum. Nothing leaves it between vote and commit, so the commit does not wait for the vote to be
    durable: both become so in their order, mostly at once, before the writes are answered. `forgetful`: a classic
    ballot is reserved in any case."""

    key: bytes
    writes: tuple[PendingWrite, ...]
    me: int
    epoch: int
    rank: int = 0
    insists: bool = False
    silent: int = 0
    decides: bool = False
    forgetful: bool = False


class Reserve(Struct, frozen=True, kw_only=True):
    """Promise the next classic ballot of an instance to this replica. Durable before use, so that no ballot is used
    twice. `insists`: also while a rival has the highest ballot here."""

    key: bytes
    base: int
    above: Ballot
    me: int
    epoch: int
    rank: int = 0
    insists: bool = False


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

    fold: Fold


class Reserved(Struct, frozen=True, kw_only=True):
    """This replica has promised this ballot; `vote` is its last vote. `fold`: what it proposes if the choice is free;
    None in a recovery."""

    ballot: Ballot
    vote: Vote | None
    fold: Fold | None = None


class Concluded(Struct, frozen=True):
    pass


class Occupied(Struct, frozen=True):
    """A rival has a round under way on top of version `base`, for all that is known here. No ballot was taken."""

    base: int


Selected = Unfolded | FastVote | Reserved | Occupied | AlreadyCommitted
