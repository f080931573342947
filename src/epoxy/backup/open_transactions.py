"""The values of transactions in a rescue: those of the survivor that has executed most, and on top of them what others
have decided, executed in its order. So everything that any survivor has executed is in it, as one cut: what a survivor
executed it had decided, with all that comes before.

A transaction that no survivor knows to be decided is left out. Its coordinator, if that is lost, may have acknowledged
it: its keys are in doubt.
"""

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter

from msgspec import Struct

from epoxy.backup.format import Record
from epoxy.backup.open_writes import Doubt, OpenWrite
from epoxy.codec.tuple import strinc
from epoxy.codec.wire import encode_ordered_value
from epoxy.model.instances import Instance, InstanceId
from epoxy.model.transactions import NO_ROW
from epoxy.protocol.txn import graph
from epoxy.protocol.txn.execution import ExecutionState, Values, execute_command
from epoxy.protocol.txn.log import InstanceLog
from epoxy.store.embedded.offline import StoppedStore
from epoxy.store.keyspace import key_of
from epoxy.store.txn_rows import OrderedSpace, record_of


class ExecutedSoFar(Struct, frozen=True, kw_only=True):
    """How far a survivor has executed. It has executed all of the terms before its own; -1: it has no part in any."""

    replica: int
    store: StoppedStore
    term: int
    log: InstanceLog

    @property
    def executed(self) -> int:
        return sum(self.log.executed.values()) + len(self.log.beyond)


def values_of(stores: Sequence[tuple[int, StoppedStore]]) -> tuple[Iterator[Record], list[OpenWrite]]:
    """All values, in the order of keys, and the writes of transactions that are not decided."""
    all_of_them = [progress_of(replica, store) for replica, store in stores]
    furthest = max(all_of_them, key=lambda each: (each.term, each.executed))
    log = furthest.log
    for other in all_of_them:
        if other.term == furthest.term and other is not furthest:
            learn(log, other.log)
    rows = OrderedSpace(furthest.replica)
    written = execute_decided(log, ExecutionState(lambda key: rows.held(furthest.store.rows, key)))
    doubts = [*undecided(log, all_of_them, furthest.term), *rotten_values(furthest)]
    return merged(furthest, written), doubts


def progress_of(replica: int, store: StoppedStore) -> ExecutedSoFar:
    space = OrderedSpace(replica)
    term = space.term(store.rows)
    number = term.number if term is not None else 0
    log = space.within(number).load(store.rows)
    return ExecutedSoFar(replica=replica, store=store, term=number if term is not None else -1, log=log)


def learn(log: InstanceLog, other: InstanceLog) -> None:
    """What another survivor knows to be decided; of the rest, what is not known here at all."""
    for instance in other.instances.values():
        known = log.is_executed(instance.id) or log.get(instance.id).is_committed
        if not known and (instance.is_committed or instance.id not in log.instances):
            log.put(instance)


def execute_decided(log: InstanceLog, state: ExecutionState) -> Values:
    stuck: dict[InstanceId, InstanceId] = {}
    for instance in sorted(log.instances.values(), key=lambda each: each.id):
        if instance.is_committed and not log.is_executed(instance.id) and instance.id not in stuck:
            plan = graph.plan(log, instance.id, stuck)
            for each in [each for group in plan.groups for each in group]:
                command = log.get(each).chosen
                if command is not None:
                    execute_command(command, state)
                log.mark_executed(each)
            if plan.missing is not None:
                stuck |= dict.fromkeys(plan.held, plan.missing)
    return state.written


def undecided(log: InstanceLog, all_of_them: Sequence[ExecutedSoFar], term: int) -> Iterator[OpenWrite]:
    for instance in sorted(log.instances.values(), key=lambda each: each.id):
        if not log.is_executed(instance.id) and instance.command is not None and not instance.nop:
            holders = tuple(each.replica for each in all_of_them if each.term == term and knows(each.log, instance))
            for key, writes in sorted(instance.command.footprint.items()):
                if writes:
                    yield OpenWrite(key=key, doubt=Doubt.TRANSACTION, replicas=holders)


def knows(log: InstanceLog, instance: Instance) -> bool:
    return instance.id in log.instances


def merged(furthest: ExecutedSoFar, written: Values) -> Iterator[Record]:
    stored = ((key, 1, value) for key, value in stored_values(furthest))
    changed = (
        (key, 0, None if held == NO_ROW else encode_ordered_value(held)) for key, held in sorted(written.items())
    )
    last = None
    for key, _, value in heapq.merge(changed, stored, key=itemgetter(0, 1)):
        if key != last and value is not None:
            yield key, value
        last = key


def stored_values(furthest: ExecutedSoFar) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys, and the records of what is held of them; None: it is rotten."""
    root = OrderedSpace(furthest.replica).value_rows()
    found = furthest.store.scan(root, strinc(root))
    return ((key_of(row, root), None if value is None else record_of(row, value)) for row, value in found)


def rotten_values(furthest: ExecutedSoFar) -> Iterator[OpenWrite]:
    """One of them is lost: other survivors may have it as of another moment."""
    for key, value in stored_values(furthest):
        if value is None:
            yield OpenWrite(key=key, doubt=Doubt.ROTTEN, replicas=(furthest.replica,))
