"""Counting broadcast votes: a slow quorum of votes in one ballot is a decision at every replica that counts it.

So a replica learns a slow decision one message delay after the votes, without the way through the coordinator: under
contention all replicas would wait for the farthest one.
"""

from collections.abc import Iterable, Set

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.instances import Instance, InstanceId, OrderedAccept, OrderedVote, Phase, Voted

MAX_COUNTED = 4096
"""Instances whose votes are counted. All replicas together have fewer in flight; beyond this the oldest are dropped,
and learned from their coordinators."""


def decides(state: Instance, voters: Set[int], ballot: Ballot, me: int, slow: int) -> bool:
    """Whether these votes decide what is held here. This replica's own must be among them: only that names the
    value."""
    is_voted = state.phase is Phase.ACCEPTED and state.accepted == ballot
    return is_voted and me in voters and len(voters) >= slow


class VoteBroadcast(Struct, frozen=True):
    """A vote that was just given. When it is durable, the voter counts it, and sends it to the others."""

    vote: OrderedVote
    others: tuple[int, ...]


def vote_broadcast(me: int, voters: Iterable[int], request: object, reply: object) -> VoteBroadcast | None:
    """None: that was no vote. The coordinator that asked for it gets the reply; the others get this message."""
    if not isinstance(request, OrderedAccept) or not isinstance(reply, Voted):
        return None
    asker = request.ballot.replica_id or request.id.replica_id
    vote = OrderedVote(sender=me, id=request.id, ballot=request.ballot)
    return VoteBroadcast(vote, tuple([voter for voter in voters if voter not in (me, asker)]))


class Votes:
    """By instance, the replicas that voted in the highest ballot received. Not durable: a vote lost in a crash only
    delays the decision here."""

    def __init__(self) -> None:
        self._received: dict[InstanceId, tuple[Ballot, set[int]]] = {}

    def count(self, voter: int, instance_id: InstanceId, ballot: Ballot) -> Set[int]:
        """All voters known in that ballot; none if a vote of a higher one was received."""
        newest, voters = self._received.get(instance_id, (ballot, set()))
        if ballot < newest:
            return frozenset()
        if ballot > newest:
            voters = set()
        voters.add(voter)
        self._received[instance_id] = ballot, voters
        if len(self._received) > MAX_COUNTED:
            del self._received[next(iter(self._received))]
        return voters

    def drop(self, instance_id: InstanceId) -> None:
        self._received.pop(instance_id, None)
