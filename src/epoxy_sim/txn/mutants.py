"""Planted faults of the ordered engine."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import (
    Catchup,
    Command,
    Deps,
    Instance,
    InstanceId,
    InTerm,
    OrderedAccept,
    OrderedCommit,
    Phase,
    PreAccept,
    PreAcceptOk,
    Recover,
    Term,
    Validate,
    Voted,
)
from epoxy.model.messages import Failed, Reply, Request
from epoxy.model.quorum import Quorums
from epoxy.model.transactions import Add
from epoxy.model.writes import Path
from epoxy.node.members.peer_gate import PeerGate
from epoxy.node.txn import replica
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.replica import OrderedReplica
from epoxy.node.txn.submission import Submissions
from epoxy.node.txn.terms import Terms
from epoxy.protocol.effects import Context, Local
from epoxy.protocol.txn import acceptor, coordinator, graph, log, recovery, terms, votes
from epoxy.protocol.txn.coordinator import Abandoned, CommandDecided, Ending, Poll
from epoxy.protocol.txn.effects import Begin, Flow, Seen, TxnOp
from epoxy.protocol.txn.graph import ExecutionPlan, Walk
from epoxy.protocol.txn.interference import Interference
from epoxy.protocol.txn.log import InstanceLog
from epoxy.protocol.txn.queue import Flight
from epoxy.protocol.txn.recovery import FastPathCheck, Learn, Propose
from epoxy.protocol.txn.terms import Ends, Part
from epoxy.protocol.txn.votes import Votes
from epoxy.store.memory import MemoryStore
from epoxy.store.txn_pages import ValueSpace
from epoxy.store.txn_rows import TermSpace
from epoxy_sim.keys.mutants import acknowledge_at_once
from epoxy_sim.patching import Mutant, Mutants, Patch, constant, never, nothing

_submitted, _weigh = OrderedEngine._submitted, recovery.check_rivals
_serves = PeerGate.serves
_count, _decides, _adopted = Votes.count, votes.decides, terms.adopted

MUTANTS = Mutants(Mutant)
mutant = MUTANTS.mutant


def added_only(command: Command) -> set[bytes]:
    """Keys of which it wants nothing but to add to them."""
    operations = [op for txn in command.txns for op in (*txn.then, *txn.otherwise)]
    others = {op.key for op in operations if not isinstance(op, Add)}
    seen = {key for txn in command.txns for key in (*txn.reads, *(compare.key for compare in txn.compares))}
    return {op.key for op in operations} - others - seen


def touching(command: Command, footprint: dict[bytes, bool]) -> Command:
    """The same command, as if it touched these keys alone."""
    part = Command(txns=command.txns)
    vars(part)["footprint"] = footprint
    return part


@mutant(acceptor, "joined", "single-ballot", "joining a ballot hides in which one a vote was given", since=280)
def one_ballot_for_both(state: Instance, ballot: Ballot) -> Instance:
    """The bug of the first EPaxos: joining a ballot overwrites in which one the vote was given."""
    return replace(state, ballot=ballot, accepted=ballot)


@mutant(acceptor, "accept", "vote-below-ballot", "votes in ballots that are over")
def vote_in_any_ballot(state: Instance, message: OrderedAccept) -> acceptor.Step:
    return acceptor.voted(replace(state, ballot=max(state.ballot, message.ballot)), message), Voted()


@mutant(acceptor, "pre_accept", "pre-accept-late", "pre-accepts what is being recovered", since=1610)
def pre_accept_again(log: InstanceLog, state: Instance, message: PreAccept) -> acceptor.Step:
    """Whatever ballot was joined meanwhile."""
    more = log.outside(message.id, message.command, message.deps)
    after = replace(acceptor.pre_accepted(message, message.deps.plus(more)), ballot=state.ballot)
    return after, PreAcceptOk(also=acceptor.added_deps(after))


mutant(acceptor, "overtaken", "fast-after-joining", "commits fast after joining a ballot", since=900)(never)


@mutant(Poll, "is_fast", "unequal-is-fast", "answers that differ count as equal")
def fast_whatever_they_say(self: Poll) -> bool:
    return len(self.answered) >= self._quorums.fast


@mutant(coordinator, "submit", "merge-unequal", "answers that differ are merged and committed")
def commit_the_union(instance_id: InstanceId, command: Command, ctx: Context) -> Flow[Ending]:
    """Answers that differ are merged, and the result counts as fast."""
    begun: PreAccept = yield Local(Begin(id=instance_id, command=command))
    poll = Poll(begun.deps, ctx)
    yield from coordinator.collect_answers(poll, begun, ctx)
    if poll.decided is not None or poll.overtaken or not poll.is_enough:
        return Abandoned()
    commit = OrderedCommit(id=instance_id, command=command, deps=poll.union)
    yield Local(commit)
    yield coordinator.broadcast_commit(commit, ctx)
    return CommandDecided(Path.FAST)


@mutant(recovery, "check_fast_path", "skip-validate", "recovers without validating", since=300)
def believe_at_once(
    request: Recover, choice: FastPathCheck, asked: set[int], ctx: Context
) -> Flow[Propose | Learn | None]:
    """Without asking other replicas whether it can have been committed."""
    yield from ()
    return Propose(choice.command, choice.deps)


@mutant(acceptor, "remember_command", "validate-forgets", "validates and does not remember the command", since=300)
def forget_command(state: Instance, message: Validate) -> Instance:
    return state


@mutant(
    recovery,
    "check_rivals",
    "rivals-ignored",
    "does not wait for rivals",
    Patch(recovery, "rule_out", never),
    since=430,
)
def rivals_do_not_matter(
    request: Recover, choice: FastPathCheck, seen: Seen, quorums: Quorums
) -> Propose | Learn | None:
    mine = seen.instances[0]
    return _weigh(request, choice, replace(seen, instances=(mine,), waiting=(0,)), quorums)


mutant(recovery, "took_as_sent", "nop-in-doubt", "takes what may be committed for nothing")(never)


@mutant(recovery, "took_as_sent", "unequal-votes-count", "counts replicas that added dependencies", since=450)
def took_it_somehow(each: Instance) -> bool:
    return each.phase is Phase.PREACCEPTED


mutant(
    recovery,
    "coordinator_answered",
    "coordinator-forgiven",
    "does not rule out a coordinator that answered",
    since=1430,
)(never)


@mutant(replica, "decides", "quorum-one-less", "takes one vote less than a slow quorum for a decision")
def one_vote_less(state: Instance, voters: Set[int], ballot: Ballot, me: int, slow: int) -> bool:
    return _decides(state, voters, ballot, me, slow - 1)


@mutant(Votes, "count", "any-ballot", "adds up told votes of several ballots")
def votes_of_any_ballot(self: Votes, voter: int, instance_id: InstanceId, ballot: Ballot) -> Set[int]:
    return _count(self, voter, instance_id, NO_BALLOT)


@mutant(replica, "decides", "whatever-i-voted-for", "takes told votes of one ballot for its own in another")
def whatever_i_voted_for(state: Instance, voters: Set[int], ballot: Ballot, me: int, slow: int) -> bool:
    """Takes a slow quorum's votes in one ballot for what this replica voted for in another."""
    return state.phase is Phase.ACCEPTED and len(voters) >= slow


@mutant(graph, "in_order", "seq-ties", "orders a group by a number that may tie")
def by_slot(group: list[InstanceId]) -> list[InstanceId]:
    """A number that may tie, as `seq` may; then the order of discovery decides."""
    return sorted(group, key=lambda instance_id: instance_id.slot)


@mutant(graph, "plan", "no-dependencies", "executes in the order of commits")
def as_it_comes(log: InstanceLog, root: InstanceId, stuck: Mapping[InstanceId, InstanceId]) -> ExecutionPlan:
    """What is decided is executed, whatever it depends on."""
    return ExecutionPlan([[root]], None, [])


@mutant(graph, "plan", "missing-is-done", "does not wait for what is missing")
def until_something_is_missing(
    log: InstanceLog, root: InstanceId, stuck: Mapping[InstanceId, InstanceId]
) -> ExecutionPlan:
    walk = Walk(log, stuck)
    missing = walk.from_root(root)
    return ExecutionPlan(walk.groups if missing is None else [*walk.groups, [root]], None, [])


mutant(TermSpace, "mark_executed", "execute-twice", "forgets in a restart what was executed")(nothing)


@mutant(OrderedEngine, "_submitted", "given-up-again", "puts forward again what may be decided yet")
def given_up_is_nothing(
    self: OrderedEngine, instance_id: InstanceId, flight: Flight | None, ending: Ending | None
) -> None:
    _submitted(self, instance_id, flight, ending)
    if isinstance(ending, Abandoned):
        self.submissions.take_back(instance_id)


@mutant(OrderedReplica, "forget", "forget-early", "throws away what others lack")
def forget_what_i_executed(self: OrderedReplica) -> int:
    """Without asking whether others have."""
    ends = [end for end in self.log.floors() if end.slot > self.log.forgotten.get(end.replica_id, 0)]
    self._store.transact(lambda tx: self.rows.forget(tx, ends))
    return len(self.log.forget(ends))


mutant(
    InstanceLog, "_is_archived", "archive-unread", "takes what has only its rows left for something it never heard of"
)(never)


mutant(
    InstanceLog, "_archived_beyond", "archive-is-free", "what has only its rows left interferes with nothing", since=100
)(lambda *_: [])


@mutant(OrderedEngine, "ask", "told-too-early", "tells what it executed before that is durable")
def say_it_before_it_is_durable(self: OrderedEngine, to: int, known: tuple[InstanceId, ...]) -> None:
    request = Catchup(sender=self.me, executed=self.replica.log.floors(), known=known)
    self.send(to, request, partial(self._missed, to, self.replica.number, known))


@mutant(log, "Interference", "adds-commute", "adds of one key do not interfere")
class AddsApart(Interference):
    """Adds of one key interfere with everything but each other."""

    def __init__(self) -> None:
        super().__init__()
        self._adders = Interference()

    def add(self, instance_id: InstanceId, command: Command) -> None:
        for table, part in self._parts(command):
            Interference.add(table, instance_id, part)

    def remove(self, instance_id: InstanceId, command: Command) -> None:
        for table, part in self._parts(command):
            Interference.remove(table, instance_id, part)

    def outside(self, instance_id: InstanceId, command: Command, deps: Deps) -> frozenset[InstanceId]:
        _, (_, rest) = self._parts(command)
        beside = Interference.outside(self._adders, instance_id, rest, deps)
        return super().outside(instance_id, command, deps) | beside

    def _parts(self, command: Command) -> list[tuple[Interference, Command]]:
        added, touched = added_only(command), command.footprint
        return [
            (self._adders, touching(command, {key: True for key in touched if key in added})),
            (self, touching(command, {key: writes for key, writes in touched.items() if key not in added})),
        ]


@mutant(Interference, "outside", "reads-are-free", "reads interfere with nothing")
def only_writes_count(
    self: Interference, instance_id: InstanceId, command: Command, deps: Deps
) -> frozenset[InstanceId]:
    wanted = [key for key, writes in command.footprint.items() if writes]
    found = {
        InstanceId(replica_id, slot)
        for key in wanted
        for replica_id, slots in self._writers.get(key, {}).items()
        for slot in slots
    }
    return frozenset(each for each in found if each != instance_id and each not in deps)


mutant(MemoryStore, "when_durable", "answer-before-fsync", "answers before anything is durable")(acknowledge_at_once)


@mutant(OrderedEngine, "_perform_local", "go-on-before-fsync", "a coordinator goes on before its own vote is durable")
def go_on_before_durable(self: OrderedEngine, op: TxnOp, done: Callable[[object], None]) -> None:
    done(self.replica.perform(op))


@mutant(terms, "enough", "seal-asks-one", "takes one replica's word for how far a term came")
def one_is_enough(told: Mapping[int, object], quorums: Quorums) -> bool:
    return bool(told)


@mutant(terms, "votes_on", "closing-votes", "votes after it told how far a term came")
def vote_while_closing(part: Part, ends: Ends | None, instance_id: InstanceId) -> bool:
    """After its answer it goes on voting until the end is known."""
    return part in (Part.OPEN, Part.CLOSING) or (part is Part.ENDING and not terms.is_beyond(ends, instance_id))


@mutant(terms, "votes_on", "ending-votes-beyond", "votes on what is beyond the end of a term", since=150)
def vote_beyond_the_end(part: Part, ends: Ends | None, instance_id: InstanceId) -> bool:
    return part in (Part.OPEN, Part.ENDING)


mutant(terms, "is_beyond", "void-forgotten", "waits for what is beyond the end of a term", since=410)(never)


@mutant(OrderedEngine, "handle", "term-ignored", "takes messages of other terms")
def whatever_the_term(self: OrderedEngine, message: InTerm) -> Reply:
    """Slots begin again in every term, and the term is not checked."""
    if not self.is_member:
        return Failed(reason="no member")
    self.wake()
    return self.replica.handle(message.request)


@mutant(terms, "is_over", "enters-early", "begins a term before the one before is executed")
def over_when_it_is_decided(ends: Ends | None, log: InstanceLog) -> bool:
    return ends is not None


@mutant(terms, "adopted", "behind-goes-on", "goes on in a term whose end it missed")
def end_with_the_joint_epoch_alone(term: Term, config: ClusterConfig, me: int) -> Term:
    """A member that never heard of the joint epoch goes on."""
    after = _adopted(term, config, me)
    return after if config.is_joint and term.number == config.term else replace(after, ending=term.ending)


mutant(ValueSpace, "replace", "newcomer-empty", "newcomers begin without values")(constant(0))


mutant(Terms, "keep", "newcomer-keeps-nothing", "newcomers cannot tell what others missed", since=1660)(nothing)


@mutant(Terms, "is_complete", "copies-too-early", "newcomers copy from a member that has not finished", since=100)
def complete_at_any_time(self: Terms, term: int) -> bool:
    return self._replica.term is not None


@mutant(OrderedReplica, "forget_earlier", "forgets-the-absent", "throws away a term that a member missed")
def forget_at_once(self: OrderedReplica) -> None:
    """Although a member may still need it."""
    if self.keeps_more and self.part is Part.OPEN:
        self._store.transact(lambda tx: self.space.drop_kept(tx, self.number))
        self.keeps_more = False


@mutant(OrderedReplica, "is_idle", "kept-is-idle", "rests although decisions are kept for a member", since=3070)
def idle_without_instances(self: OrderedReplica) -> bool:
    """Looks at the instances in memory alone; those kept for a member that is away may all be on disk."""
    log = self.log
    if self.keeps_more or self.is_behind:
        return False
    return not log.instances and all(log.executed.get(r, 0) >= highest for r, highest in log.highest.items())


@mutant(OrderedEngine, "turned", "flows-go-on", "carries on in a term what was begun in another")
def flows_go_on(self: OrderedEngine) -> None:
    """From one term into the next."""
    self._closing = None
    self.submissions.follow_replica()
    self.wake()
    self._look_soon()
    self.submissions.pump_soon()


@mutant(
    Submissions,
    "end_flights",
    "flights-outlive-term",
    "takes what was under way in an earlier term for something that never began",
    since=360,
)
def flights_are_begun_again(self: Submissions) -> None:
    """Whatever the new term knows nothing of counts as never begun, also what was decided in the one before."""
    self.term = self._host.replica.number
    for instance_id in list(self.flights):
        self.take_back(instance_id)


def orders_uncleared(gate: PeerGate, requests: Sequence[Request]) -> bool:
    return _serves(gate, requests) or all(isinstance(request, InTerm) for request in requests)


mutant(
    PeerGate,
    "serves",
    "orders-uncleared",
    "a store that may be an older copy takes part in ordering",
    Patch(PeerGate, "may_send", orders_uncleared),
    since=952,
)(orders_uncleared)
