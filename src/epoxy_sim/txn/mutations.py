"""Broken rules, to be planted in place of the right ones. Each does one thing wrong, and only that."""

# They stand in for production rules and keep their signatures, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable, Mapping, Set
from functools import partial

from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.instances import (
    Catchup,
    Command,
    Deps,
    Instance,
    InstanceId,
    OrderedAccept,
    OrderedCommit,
    Phase,
    PreAccept,
    PreAcceptOk,
    Recover,
    Validate,
    Voted,
)
from epoxy.model.quorum import Quorums
from epoxy.model.transactions import Add
from epoxy.model.writes import Path
from epoxy.node.txn import replica
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.replica import OrderedReplica
from epoxy.ports import Transaction
from epoxy.protocol.effects import Context, Local
from epoxy.protocol.txn import acceptor, coordinator, graph, log, recovery, votes
from epoxy.protocol.txn.coordinator import Abandoned, CommandDecided, Ending, Poll
from epoxy.protocol.txn.effects import Begin, Flow, Seen, TxnOp
from epoxy.protocol.txn.graph import ExecutionPlan, Walk
from epoxy.protocol.txn.interference import Interference
from epoxy.protocol.txn.log import InstanceLog
from epoxy.protocol.txn.recovery import FastPathCheck, Learn, Propose
from epoxy.protocol.txn.votes import Votes
from epoxy.store.txn_rows import TermSpace
from epoxy_sim.patching import replaces

_conclude, _submitted, _weigh = acceptor.conclude, OrderedEngine._submitted, recovery.check_rivals
_count, _decides = Votes.count, votes.decides


@replaces(acceptor, "joined")
def one_ballot_for_both(state: Instance, ballot: Ballot) -> Instance:
    """The bug of the first EPaxos: joining a ballot overwrites in which one the vote was given."""
    return replace(state, ballot=ballot, accepted=ballot)


@replaces(acceptor, "accept")
def vote_in_any_ballot(state: Instance, message: OrderedAccept) -> acceptor.Step:
    return acceptor.voted(replace(state, ballot=max(state.ballot, message.ballot)), message), Voted()


@replaces(acceptor, "pre_accept")
def pre_accept_again(log: InstanceLog, state: Instance, message: PreAccept) -> acceptor.Step:
    """Whatever ballot was joined meanwhile."""
    more = log.outside(message.id, message.command, message.deps)
    after = replace(acceptor.pre_accepted(message, message.deps.plus(more)), ballot=state.ballot)
    return after, PreAcceptOk(also=acceptor.added_deps(after))


@replaces(acceptor, "remember_command")
def forget_command(state: Instance, message: Validate) -> Instance:
    """A replica is asked about a command, and does not remember it."""
    return state


@replaces(recovery, "took_as_sent")
def took_it_somehow(each: Instance) -> bool:
    return each.phase is Phase.PREACCEPTED


@replaces(recovery, "check_fast_path")
def believe_at_once(
    request: Recover, choice: FastPathCheck, asked: set[int], ctx: Context
) -> Flow[Propose | Learn | None]:
    """Without asking other replicas whether it can have been committed."""
    yield from ()
    return Propose(choice.command, choice.deps)


@replaces(recovery, "check_rivals")
def rivals_do_not_matter(
    request: Recover, choice: FastPathCheck, seen: Seen, quorums: Quorums
) -> Propose | Learn | None:
    mine = seen.instances[0]
    return _weigh(request, choice, replace(seen, instances=(mine,), waiting=(0,)), quorums)


@replaces(Poll, "is_fast")
def fast_whatever_they_say(self: Poll) -> bool:
    return len(self.answered) >= self._quorums.fast


@replaces(coordinator, "submit")
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


@replaces(graph, "in_order")
def by_slot(group: list[InstanceId]) -> list[InstanceId]:
    """A number that may tie, as `seq` may; then the order of discovery decides."""
    return sorted(group, key=lambda instance_id: instance_id.slot)


@replaces(graph, "plan")
def as_it_comes(log: InstanceLog, root: InstanceId, stuck: Mapping[InstanceId, InstanceId]) -> ExecutionPlan:
    """What is decided is executed, whatever it depends on."""
    return ExecutionPlan([[root]], None, [])


@replaces(graph, "plan")
def until_something_is_missing(
    log: InstanceLog, root: InstanceId, stuck: Mapping[InstanceId, InstanceId]
) -> ExecutionPlan:
    """What is missing is not waited for."""
    walk = Walk(log, stuck)
    missing = walk.from_root(root)
    return ExecutionPlan(walk.groups if missing is None else [*walk.groups, [root]], None, [])


@replaces(InstanceLog, "_archived_beyond")
def nothing_is_archived(self: InstanceLog, deps: Deps) -> list[tuple[int, int, int]]:
    """What has only its rows left interferes with nothing."""
    return []


@replaces(TermSpace, "mark_executed")
def not_marked(self: TermSpace, tx: Transaction, instance_id: InstanceId) -> None:
    """After a restart it is not known what was executed."""


@replaces(OrderedReplica, "forget")
def forget_what_i_executed(self: OrderedReplica) -> int:
    """Without asking whether others have."""
    ends = [end for end in self.log.floors() if end.slot > self.log.forgotten.get(end.replica_id, 0)]
    self._store.transact(lambda tx: self.rows.forget(tx, ends))
    return len(self.log.forget(ends))


@replaces(OrderedEngine, "ask")
def say_it_before_it_is_durable(self: OrderedEngine, to: int, known: tuple[InstanceId, ...]) -> None:
    request = Catchup(sender=self.me, executed=self.replica.log.floors(), known=known)
    self.send(to, request, partial(self._missed, to, self.replica.number, known))


@replaces(OrderedEngine, "_perform_local")
def go_on_before_durable(self: OrderedEngine, op: TxnOp, done: Callable[[object], None]) -> None:
    done(self.replica.perform(op))


@replaces(OrderedEngine, "_submitted")
def given_up_is_nothing(self: OrderedEngine, instance_id: InstanceId, ending: Ending | None) -> None:
    """What was given up is put forward again, although it may be decided yet."""
    _submitted(self, instance_id, ending)
    if isinstance(ending, Abandoned):
        self.submissions.take_back(instance_id)


@replaces(replica, "decides")
def one_vote_less(state: Instance, voters: Set[int], ballot: Ballot, me: int, slow: int) -> bool:
    """Takes fewer votes than a slow quorum for a decision."""
    return _decides(state, voters, ballot, me, slow - 1)


@replaces(Votes, "count")
def votes_of_any_ballot(self: Votes, voter: int, instance_id: InstanceId, ballot: Ballot) -> Set[int]:
    """Adds up votes of all ballots."""
    return _count(self, voter, instance_id, NO_BALLOT)


@replaces(replica, "decides")
def whatever_i_voted_for(state: Instance, voters: Set[int], ballot: Ballot, me: int, slow: int) -> bool:
    """Takes a slow quorum's votes in one ballot for what this replica voted for in another."""
    return state.phase is Phase.ACCEPTED and len(voters) >= slow


def added_only(command: Command) -> set[bytes]:
    """Keys of which it wants nothing but to add to them."""
    operations = [op for txn in command.txns for op in (*txn.then, *txn.otherwise)]
    others = {op.key for op in operations if not isinstance(op, Add)}
    seen = {key for txn in command.txns for key in (*txn.reads, *(compare.key for compare in txn.compares))}
    return {op.key for op in operations} - others - seen


@replaces(log, "Interference")
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


def touching(command: Command, footprint: dict[bytes, bool]) -> Command:
    """The same command, as if it touched these keys alone."""
    part = Command(txns=command.txns)
    vars(part)["footprint"] = footprint
    return part


@replaces(Interference, "outside")
def only_writes_count(
    self: Interference, instance_id: InstanceId, command: Command, deps: Deps
) -> frozenset[InstanceId]:
    """Reads interfere with nothing."""
    wanted = [key for key, writes in command.footprint.items() if writes]
    found = {
        InstanceId(replica_id, slot)
        for key in wanted
        for replica_id, slots in self._writers.get(key, {}).items()
        for slot in slots
    }
    return frozenset(each for each in found if each != instance_id and each not in deps)
