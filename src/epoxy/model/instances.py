"""What replicas of the ordered engine hold and say. The rules: docs/protocol/ordered.md."""

import enum
from functools import cached_property

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import Txn

END_KEY = b"\xff/ordered/end/"
"""With the number of a term: the register that holds how it ended."""


def end_key(term: int) -> bytes:
    return END_KEY + term.to_bytes(8, "big")


MAX_BATCH = 64
"""Transactions in one instance. Beyond this, the next instance is on its way sooner than a larger one would be."""

MAX_DEPENDENCIES = 1024
"""Named one by one in a set. Everything older is covered by its `upto`, so this many are only needed while a replica is
far behind; then it must catch up before anybody counts on it."""

MAX_PAGE = 512
MAX_PAGE_BYTES = 256 << 10
"""Commits told to a replica that missed them, at a time: as many as fit between two votes on a slow link. A page takes
a round trip, and the next is asked for while it is learned: over a way of 150 ms there and back, 3,400 a second."""


class InstanceId(Struct, frozen=True, order=True, gc=False):
    """A slot of a replica's own: the n-th command it put forward. As the end of a stretch: all slots up to this one."""

    replica_id: int
    slot: int

    def __str__(self) -> str:
        return f"{self.replica_id}.{self.slot}"


class Deps(Struct, frozen=True, kw_only=True, dict=True):
    """A set of instances: all slots `upto` these, and `also` these. At most one of a replica in `upto`; both sorted,
    and no member is named twice, so two sets are equal if and only if their fields are."""

    upto: tuple[InstanceId, ...] = ()
    also: tuple[InstanceId, ...] = ()

    @cached_property
    def floors(self) -> dict[int, int]:
        return {end.replica_id: end.slot for end in self.upto}

    @cached_property
    def named(self) -> frozenset[InstanceId]:
        return frozenset(self.also)

    def __contains__(self, instance_id: InstanceId) -> bool:
        return instance_id.slot <= self.floors.get(instance_id.replica_id, 0) or instance_id in self.named

    def plus(self, more: frozenset[InstanceId]) -> "Deps":
        new = [each for each in more if each not in self]
        return Deps(upto=self.upto, also=tuple(sorted((*self.also, *new)))) if new else self


NOTHING = Deps()


class Command(Struct, frozen=True, kw_only=True, dict=True):
    """What is ordered: some transactions, executed one after the other."""

    txns: tuple[Txn, ...]

    @cached_property
    def footprint(self) -> dict[bytes, bool]:
        touched: dict[bytes, bool] = {}
        for txn in self.txns:
            for key, writes in txn.footprint.items():
                touched[key] = touched.get(key, False) or writes
        return touched

    @cached_property
    def size(self) -> int:
        return sum([txn.size for txn in self.txns])


class Phase(enum.Enum):
    INITIAL = "initial"
    PREACCEPTED = "preaccepted"
    ACCEPTED = "accepted"
    COMMITTED = "committed"


class Instance(Struct, frozen=True, kw_only=True, gc=False):
    """What a replica holds of an instance. It is either the command it was begun with or, if `nop`, nothing at all; the
    command is remembered in that case, too, as far as it is known.

    `ballot` is the highest joined, `accepted` that of the last vote: one for both is the bug of the first EPaxos.
    `initial` are the dependencies its coordinator sent; None if that was never heard.

    Invariants: 1. accepted <= ballot, unless committed.  2. Pre-accepted: command, deps and initial are known, at the
    first ballot.  3. Accepted or committed: deps are known, and the command unless it is nop.
    """

    id: InstanceId
    phase: Phase = Phase.INITIAL
    ballot: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    nop: bool = False
    command: Command | None = None
    deps: Deps | None = None
    initial: Deps | None = None

    def __post_init__(self) -> None:
        assert self.accepted <= self.ballot or self.is_committed, self
        assert self.phase is Phase.INITIAL or self.deps is not None, self
        assert self.phase in (Phase.INITIAL, Phase.PREACCEPTED) or self.nop or self.command is not None, self
        assert self.phase is not Phase.PREACCEPTED or (self.command is not None and self.initial is not None), self

    @property
    def is_committed(self) -> bool:
        return self.phase is Phase.COMMITTED

    @property
    def chosen(self) -> Command | None:
        """The command that was voted for or decided; None: nothing."""
        return None if self.nop else self.command


class InstanceState(Struct, frozen=True, kw_only=True, gc=False):
    """An instance without its id and its command, as it is stored: those never change."""

    phase: Phase
    ballot: Ballot
    accepted: Ballot
    nop: bool
    deps: Deps | None
    initial: Deps | None


class Term(Struct, frozen=True, kw_only=True):
    """Where a replica is: everything of earlier terms was executed here. `voters` is None as long as it is not known
    who orders in this one. `ending`: this replica begins nothing in it any more, and never will."""

    number: int
    voters: tuple[int, ...] | None
    policy: QuorumPolicy
    ending: bool


class TermEnd(Struct, frozen=True, kw_only=True):
    """The last slot of each replica in a term. What is beyond is nothing."""

    ends: tuple[InstanceId, ...]


# Requests. No command (None) is a Nop.


class PreAccept(Struct, frozen=True, kw_only=True):
    """Here is a command, and what I know to interfere with it. What else do you know?"""

    id: InstanceId
    command: Command
    deps: Deps


class OrderedAccept(Struct, frozen=True, kw_only=True):
    """Vote for this command with these dependencies."""

    id: InstanceId
    ballot: Ballot
    command: Command | None
    deps: Deps


class OrderedCommit(Struct, frozen=True, kw_only=True):
    """Learn: this was decided."""

    id: InstanceId
    command: Command | None
    deps: Deps


class Recover(Struct, frozen=True, kw_only=True):
    """Join this ballot, and tell what you hold."""

    id: InstanceId
    ballot: Ballot


class Validate(Struct, frozen=True, kw_only=True):
    """Could this have been committed on the fast path? Keep the command in mind from here on."""

    id: InstanceId
    ballot: Ballot
    command: Command
    deps: Deps


class Waiting(Struct, frozen=True, kw_only=True):
    """I recover this, wait for others, and so many replicas of my quorum took it as it was sent."""

    id: InstanceId
    count: int


class Catchup(Struct, frozen=True, kw_only=True):
    """So far have I executed everything, of every replica. Tell me what I missed, beyond what I know already."""

    sender: int
    executed: tuple[InstanceId, ...]
    known: tuple[InstanceId, ...]


class Seal(Struct, frozen=True, kw_only=True):
    """The term ends. How far did it come, as far as you know?"""


class OrderedVote(Struct, frozen=True, kw_only=True):
    """I have voted for this in that ballot. Told to those who did not ask for it, so that they can count, too."""

    sender: int
    id: InstanceId
    ballot: Ballot


OrderedRequest = PreAccept | OrderedAccept | OrderedCommit | Recover | Validate | Waiting | Catchup | Seal | OrderedVote


class InTerm(Struct, frozen=True, kw_only=True):
    """Slots begin again in every term, so a message means nothing in another one."""

    term: int
    request: OrderedRequest


# Replies.


class PreAcceptOk(Struct, frozen=True, kw_only=True):
    """What else interferes."""

    also: tuple[InstanceId, ...]


class Voted(Struct, frozen=True, kw_only=True):
    """Accepted."""


class RecoverOk(Struct, frozen=True, kw_only=True):
    """What I held when I joined your ballot."""

    held: Instance


class Rival(Struct, frozen=True, kw_only=True):
    """A command that interferes, and neither knows of the other."""

    id: InstanceId
    is_committed: bool


class ValidateOk(Struct, frozen=True, kw_only=True):
    rivals: tuple[Rival, ...]


class Decided(Struct, frozen=True, kw_only=True):
    """It is decided: this."""

    commit: OrderedCommit


class Overtaken(Struct, frozen=True, kw_only=True):
    """Refused: I have joined this ballot."""

    ballot: Ballot


class Forgotten(Struct, frozen=True, kw_only=True):
    """Everybody has executed it, and I have thrown it away."""


class Overloaded(Struct, frozen=True, kw_only=True):
    """Refused: you would have to depend on more than can be said. Catch up first."""


class Noted(Struct, frozen=True, kw_only=True):
    """Heard."""


class Missed(Struct, frozen=True, kw_only=True):
    """So far have I executed everything; and what you missed, as far as a page goes."""

    executed: tuple[InstanceId, ...]
    commits: tuple[OrderedCommit, ...]
    more: bool


class Sealed(Struct, frozen=True, kw_only=True):
    """The last slot of each replica I know of. I vote on nothing until I know how the term ended."""

    ends: tuple[InstanceId, ...]


class Ended(Struct, frozen=True, kw_only=True):
    """It was decided how that term ended: so."""

    ends: tuple[InstanceId, ...]


class Closed(Struct, frozen=True, kw_only=True):
    """Refused: I am in this term, or that one ends."""

    term: int


OrderedReply = (
    PreAcceptOk
    | Voted
    | RecoverOk
    | ValidateOk
    | Decided
    | Overtaken
    | Forgotten
    | Overloaded
    | Noted
    | Missed
    | Sealed
    | Ended
    | Closed
)
