"""Planted faults of commands that hold several transactions, and of how these wait; beside all others of the ordered
engine."""

from collections.abc import Iterable, Sequence

from epoxy.model.ballot import NO_BALLOT
from epoxy.model.instances import Command, Instance, InstanceId
from epoxy.model.transactions import Executed
from epoxy.node.txn.executor import Executor, Results
from epoxy.node.txn.submission import Submissions
from epoxy.ports import Transaction
from epoxy.protocol.txn import execution
from epoxy.protocol.txn.execution import ExecutionState, execute
from epoxy.protocol.txn.queue import Flight, Queue, answer_all
from epoxy_sim.patching import Mutant, Mutants, Patch, nothing
from epoxy_sim.txn import mutants

_executed = Submissions.executed

MUTANTS = Mutants(Mutant, mutants.MUTANTS)
mutant = MUTANTS.mutant


def executed_in(order: Iterable[int], command: Command, state: ExecutionState) -> list[Executed]:
    """Each with its own result, whatever the order."""
    results = {at: execute(command.txns[at], state) for at in order}
    return [results[at] for at in range(len(command.txns))]


@mutant(Executor, "_apply", "batch-order", "replicas execute the transactions of one command in different orders")
def order_of_each_replica(
    self: Executor, group: list[InstanceId], before: Instance | None, tx: Transaction
) -> dict[InstanceId, Results]:
    """Every second replica begins with the last."""
    replica = self._replica
    if before is not None:
        replica.rows.save(tx, before, replica.log.get(before.id))
    state = ExecutionState(lambda key: replica.space.held(tx, key))
    results: dict[InstanceId, Results] = {}
    for instance_id in group:
        command = replica.log.get(instance_id).chosen
        places: Sequence[int] = range(len(command.txns)) if command is not None else ()
        order = places if replica.me % 2 else places[::-1]
        results[instance_id] = None if command is None else executed_in(order, command, state)
        replica.rows.mark_executed(tx, instance_id)
    for key, value in state.written.items():
        replica.space.set_held(tx, key, value)
    return results


@mutant(execution, "execute_command", "batch-member-lost", "the last transaction of a command is not executed")
def all_but_the_last(command: Command, state: ExecutionState) -> list[Executed]:
    """It is answered with what it would have seen."""
    results = [execute(txn, state) for txn in command.txns[:-1]]
    return [*results, execute(command.txns[-1], ExecutionState(state.get) if results else state)]


@mutant(execution, "execute_command", "batch-apart", "transactions of one command do not see each other's effects")
def each_for_itself(command: Command, state: ExecutionState) -> list[Executed]:
    states = [ExecutionState(state.get) for _ in command.txns]
    results = [execute(txn, own) for txn, own in zip(command.txns, states, strict=True)]
    for own in states:
        state.written.update(own.written)
    return results


@mutant(Flight, "executed", "batch-answers-mixed", "a client gets the answer of another transaction of its command")
def answers_of_others(self: Flight, results: Iterable[Executed]) -> None:
    answer_all(zip(self.tickets, reversed(list(results)), strict=True))


@mutant(Submissions, "executed", "batch-answered-early", "a command is answered before its execution is durable")
def answer_at_once(self: Submissions, instance_id: InstanceId, results: Results) -> None:
    if results is None:
        self.take_back(instance_id)
        return
    flight = self._land(instance_id)
    if flight is not None:
        flight.executed(results)
    self.pump_soon()


@mutant(Submissions, "executed", "batch-again", "a command that a recovery decided is proposed again")
def recovered_is_nothing(self: Submissions, instance_id: InstanceId, results: Results) -> None:
    """Its coordinator has joined the ballot of another, and takes that for a Nop."""
    is_recovered = self._host.replica.log.get(instance_id).ballot != NO_BALLOT
    _executed(self, instance_id, None if is_recovered else results)


mutant(
    Submissions,
    "_gathered",
    "gathering-endless",
    "waits for clients and for its turn without end",
    Patch(Submissions, "_waited", nothing),
)(nothing)


mutant(Queue, "_release", "parked-for-ever", "does not look again at transactions that had to wait")(nothing)
