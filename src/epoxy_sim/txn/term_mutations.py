"""Broken rules of terms, to be planted in place of the right ones. Each does one thing wrong, and only that."""

# They stand in for production rules and keep their signatures, used or not.
# ruff: noqa: ARG001

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import InstanceId, InTerm, Term
from epoxy.model.members import Kept, Pair
from epoxy.model.messages import Failed, Reply
from epoxy.model.quorum import Quorums
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.replica import OrderedReplica
from epoxy.node.txn.submission import Submissions
from epoxy.node.txn.terms import Terms
from epoxy.ports import Transaction
from epoxy.protocol.members.effects import Span
from epoxy.protocol.txn import terms
from epoxy.protocol.txn.log import InstanceLog
from epoxy.protocol.txn.terms import Ends, Part
from epoxy.store.txn_pages import ValueSpace
from epoxy_sim.patching import replaces

_adopted = terms.adopted


@replaces(terms, "enough")
def one_is_enough(told: Mapping[int, object], quorums: Quorums) -> bool:
    return bool(told)


@replaces(terms, "votes_on")
def vote_while_closing(part: Part, ends: Ends | None, instance_id: InstanceId) -> bool:
    """After its answer it goes on voting until the end is known."""
    return part in (Part.OPEN, Part.CLOSING) or (part is Part.ENDING and not terms.is_beyond(ends, instance_id))


@replaces(terms, "votes_on")
def vote_beyond_the_end(part: Part, ends: Ends | None, instance_id: InstanceId) -> bool:
    return part in (Part.OPEN, Part.ENDING)


@replaces(terms, "is_beyond")
def nothing_is_beyond(ends: Ends | None, instance_id: InstanceId) -> bool:
    """What is beyond the end is not taken for nothing."""
    return False


@replaces(OrderedEngine, "handle")
def whatever_the_term(self: OrderedEngine, message: InTerm) -> Reply:
    """Slots begin again in every term, and the term is not checked."""
    if not self.is_member:
        return Failed(reason="no member")
    self._wake()
    return self.replica.handle(message.request)


@replaces(terms, "is_over")
def over_when_it_is_decided(ends: Ends | None, log: InstanceLog) -> bool:
    return ends is not None


@replaces(terms, "adopted")
def end_with_the_joint_epoch_alone(term: Term, config: ClusterConfig, me: int) -> Term:
    """A member that never heard of the joint epoch goes on."""
    after = _adopted(term, config, me)
    return after if config.is_joint and term.number == config.term else replace(after, ending=term.ending)


@replaces(ValueSpace, "replace")
def no_values(self: ValueSpace, tx: Transaction, spans: Sequence[Span], pairs: Sequence[Pair]) -> int:
    return 0


@replaces(Terms, "keep")
def keep_nothing(self: Terms, kept: tuple[Kept, ...]) -> None:
    """A newcomer has all values, and nothing for members that ask for what they missed."""


@replaces(Terms, "is_complete")
def complete_at_any_time(self: Terms, term: int) -> bool:
    return self._replica.term is not None


@replaces(OrderedReplica, "forget_earlier")
def forget_at_once(self: OrderedReplica) -> None:
    """Although a member may still need it."""
    if self.keeps_more and self.part is Part.OPEN:
        self._store.transact(lambda tx: self.space.drop_kept(tx, self.number))
        self.keeps_more = False


@replaces(OrderedEngine, "turned")
def flows_go_on(self: OrderedEngine) -> None:
    """From one term into the next."""
    self._closing = None
    self.submissions.follow_replica()
    self._wake()
    self._look_soon()
    self.submissions.pump_soon()


@replaces(Submissions, "end_flights")
def flights_are_begun_again(self: Submissions) -> None:
    """Whatever the new term knows nothing of counts as never begun, also what was decided in the one before."""
    self.term = self._host.replica.number
    for instance_id in list(self.flights):
        self.take_back(instance_id)
