"""Instances and messages of the ordered engine. The rules: docs/protocol/ordered.md."""

import enum
from functools import cached_property

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import Txn

END_KEY = b"\xff/ordered/end/"
"""With the number of a term: the key that holds its last slots."""


def end_key(term: int) -> bytes:
    return END_KEY + term.to_bytes(8, "big")


MAX_BATCH = 64
"""Transactions in one instance. Beyond this, a second instance is decided sooner than a larger one would be."""

MAX_DEPENDENCIES = 1024
"""Named one by one in a set. Everything older is covered by its `upto`, so more are needed only while a replica is far
behind; it must catch up first then."""

MAX_PAGE = 512
MAX_PAGE_BYTES = 256 << 10
"""Of one page of commits for a replica that missed them: as many as fit between two votes on a slow link. A page takes
a round trip, and the next is asked for while it is learned: with a round trip of 150 ms, 3,400 commits a second."""


class InstanceId(Struct, frozen=True, order=True, gc=False):
    """A slot of a replica: the n-th command it proposed. As the end of a range: all slots up to this one."""

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
    """What one instance orders: a batch of transactions, executed one after the other. `versioned`: they count the
    versions of keys. Those of releases before did not, and some replicas had executed them when the others were
    upgraded: all must come to the same rows."""

    txns: tuple[Txn, ...]
    versioned: bool = True

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
    """What a replica holds of an instance. Its value is the command it was begun with or, if `nop`, none; a known
    command is kept in that case, too.

    `ballot` is the highest joined, `accepted` that of the last vote: to use one for both is the bug of the first
    EPaxos. `initial` are the dependencies its coordinator sent; None if they are not known.

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
        """The command that was voted for or decided; None: a Nop."""
        return None if self.nop else self.command


class InstanceState(Struct, frozen=True, kw_only=True, gc=False):
    """An instance as it is stored, without its id and command, which never change."""

    phase: Phase
    ballot: Ballot
    accepted: Ballot
    nop: bool
    deps: Deps | None
    initial: Deps | None


class Term(Struct, frozen=True, kw_only=True):
    """A replica's term: everything of earlier ones was executed here. `voters` is None while its voters are not known.
    `ending`: this replica begins no more instances in it."""

    number: int
    voters: tuple[int, ...] | None
    policy: QuorumPolicy
    ending: bool


class TermEnd(Struct, frozen=True, kw_only=True):
    """The last slot of each replica in a term. Instances beyond are Nops."""

    ends: tuple[InstanceId, ...]


# Requests. No command (None) is a Nop.


class PreAccept(Struct, frozen=True, kw_only=True):
    """A command, and the instances its coordinator knows to interfere with it. Asks for others."""

    id: InstanceId
    command: Command
    deps: Deps


class OrderedAccept(Struct, frozen=True, kw_only=True):
    """Asks for a vote for this command with these dependencies."""

    id: InstanceId
    ballot: Ballot
    command: Command | None
    deps: Deps


class OrderedCommit(Struct, frozen=True, kw_only=True):
    """Announces a decision."""

    id: InstanceId
    command: Command | None
    deps: Deps


class Recover(Struct, frozen=True, kw_only=True):
    """Asks to join this ballot, and for what is held of the instance."""

    id: InstanceId
    ballot: Ballot


class Validate(Struct, frozen=True, kw_only=True):
    """Asks whether this can have been committed on the fast path. The replica keeps the command from here on."""

    id: InstanceId
    ballot: Ballot
    command: Command
    deps: Deps


class Waiting(Struct, frozen=True, kw_only=True):
    """The sender recovers this and waits for rivals; `count` replicas of its quorum took it as it was sent."""

    id: InstanceId
    count: int


class Catchup(Struct, frozen=True, kw_only=True):
    """The slots up to which the sender has executed everything, by replica. Asks for decisions beyond `known`."""

    sender: int
    executed: tuple[InstanceId, ...]
    known: tuple[InstanceId, ...]


class Seal(Struct, frozen=True, kw_only=True):
    """The term ends. Asks for the last known slots."""


class OrderedVote(Struct, frozen=True, kw_only=True):
    """The sender has voted for this in that ballot. Sent to replicas that did not ask, so that they can count, too."""

    sender: int
    id: InstanceId
    ballot: Ballot


OrderedRequest = PreAccept | OrderedAccept | OrderedCommit | Recover | Validate | Waiting | Catchup | Seal | OrderedVote


class InTerm(Struct, frozen=True, kw_only=True):
    """Slots begin again in every term, so a message is valid in its own term only."""

    term: int
    request: OrderedRequest


# Replies.


class PreAcceptOk(Struct, frozen=True, kw_only=True):
    """Instances that interfere and were not in the request."""

    also: tuple[InstanceId, ...]


class Voted(Struct, frozen=True, kw_only=True):
    """The vote is given."""


class RecoverOk(Struct, frozen=True, kw_only=True):
    """What was held when the ballot was joined."""

    held: Instance


class Rival(Struct, frozen=True, kw_only=True):
    """A command that interferes, and neither depends on the other."""

    id: InstanceId
    is_committed: bool


class ValidateOk(Struct, frozen=True, kw_only=True):
    rivals: tuple[Rival, ...]


class Decided(Struct, frozen=True, kw_only=True):
    """The instance is decided."""

    commit: OrderedCommit


class Overtaken(Struct, frozen=True, kw_only=True):
    """Refused: this higher ballot was joined."""

    ballot: Ballot


class Forgotten(Struct, frozen=True, kw_only=True):
    """Every replica has executed the instance, and this one has deleted it."""


class Overloaded(Struct, frozen=True, kw_only=True):
    """Refused: it would have more than MAX_DEPENDENCIES. The coordinator must catch up first."""


class Noted(Struct, frozen=True, kw_only=True):
    """Received."""


class Missed(Struct, frozen=True, kw_only=True):
    """The slots up to which this replica has executed everything, and a page of the missed decisions."""

    executed: tuple[InstanceId, ...]
    commits: tuple[OrderedCommit, ...]
    more: bool


class Sealed(Struct, frozen=True, kw_only=True):
    """The last slot known of each replica. This one does not vote until the end of the term is decided."""

    ends: tuple[InstanceId, ...]


class Ended(Struct, frozen=True, kw_only=True):
    """The decided end of the term."""

    ends: tuple[InstanceId, ...]


class Closed(Struct, frozen=True, kw_only=True):
    """Refused: this replica is in this term, or the requested one is ending."""

    term: int


InstanceReply = PreAcceptOk | Voted | RecoverOk | ValidateOk | Decided | Overtaken | Forgotten | Overloaded | Noted
OrderedReply = InstanceReply | Missed | Sealed | Ended | Closed
