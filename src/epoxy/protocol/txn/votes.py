"""Votes that were heard of, besides one's own: a slow quorum in one ballot is a decision, whoever counts it.

So a replica learns a slow decision one way after the votes, not after their way to the coordinator and its way back:
under contention everybody waits for the farthest coordinator.
"""

from collections.abc import Iterable, Set

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.instances import Instance, InstanceId, OrderedAccept, OrderedVote, Phase, Voted

MAX_COUNTED = 4096
"""Instances whose votes are counted. All replicas together have fewer under way; of more, the oldest are not counted
any longer, and learned from their coordinators."""


def decides(state: Instance, voters: Set[int], ballot: Ballot, me: int, slow: int) -> bool:
    """Whether what is held here was decided by these votes. My own must be among them: it says for what."""
    is_voted = state.phase is Phase.ACCEPTED and state.accepted == ballot
    return is_voted and me in voters and len(voters) >= slow


class VoteBroadcast(Struct, frozen=True):
    """A vote that was just given. When it is durable, the voter itself counts it, and these others hear of it."""

    vote: OrderedVote
    others: tuple[int, ...]


def vote_broadcast(me: int, voters: Iterable[int], request: object, reply: object) -> VoteBroadcast | None:
    """None: that was no vote. Whoever asked for it has its answer; the others need not wait for what comes of that."""
    if not isinstance(request, OrderedAccept) or not isinstance(reply, Voted):
        return None
    asker = request.ballot.replica_id or request.id.replica_id
    vote = OrderedVote(sender=me, id=request.id, ballot=request.ballot)
    return VoteBroadcast(vote, tuple([voter for voter in voters if voter not in (me, asker)]))


class Votes:
    """By instance those who voted in the highest ballot heard of. Not durable: a vote that is forgotten in a crash only
    makes a decision known later."""

    def __init__(self) -> None:
        self._heard: dict[InstanceId, tuple[Ballot, set[int]]] = {}

    def count(self, voter: int, instance_id: InstanceId, ballot: Ballot) -> Set[int]:
        """All who are known to have voted in that ballot; nobody if a higher one was heard of."""
        newest, voters = self._heard.get(instance_id, (ballot, set()))
        if ballot < newest:
            return frozenset()
        if ballot > newest:
            voters = set()
        voters.add(voter)
        self._heard[instance_id] = ballot, voters
        if len(self._heard) > MAX_COUNTED:
            del self._heard[next(iter(self._heard))]
        return voters

    def drop(self, instance_id: InstanceId) -> None:
        self._heard.pop(instance_id, None)
