"""Executes decisions of one term in their order, in bounded turns of the event loop."""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from epoxy.model.instances import Instance, InstanceId
from epoxy.model.transactions import Executed
from epoxy.ports import Store, Transaction
from epoxy.protocol.txn import graph, terms
from epoxy.protocol.txn.execution import ExecutionState, Values, execute_command

if TYPE_CHECKING:
    from epoxy.node.txn.replica import OrderedReplica

Results = list[Executed] | None
"""Of the transactions of a command; None: it is a Nop."""

EXECUTED_AT_ONCE = 64
"""Instances that are executed in one turn of the event loop: some milliseconds."""


class Executor:
    def __init__(self, replica: "OrderedReplica", store: Store) -> None:
        self._replica = replica
        self._store = store
        self.blocked: dict[InstanceId, list[InstanceId]] = {}
        """By undecided instance, the decided ones that wait for it."""
        self._stuck: dict[InstanceId, InstanceId] = {}
        """The inverse: by waiting instance, the undecided one."""
        self._roots: deque[InstanceId] = deque()
        """Decided, and to be executed with their dependencies."""
        self._groups: deque[list[InstanceId]] = deque()
        """The next to be executed, each in one transaction: their dependencies are executed, or are before them
        here."""
        self._written: Values = {}
        """By the group that was executed last."""

    def add(self, *decided: InstanceId) -> None:
        self._roots.extend(decided)

    def execute_some(self) -> bool:
        """Whether more is left."""
        left = EXECUTED_AT_ONCE
        while left > 0 and (self._groups or self._roots):
            if self._groups:
                group = self._groups.popleft()
                self.execute(group)
                left -= len(group)
            else:
                self._plan_from(self._roots.popleft())
                left -= 1
        return bool(self._groups or self._roots)

    def _plan_from(self, root: InstanceId) -> None:
        if self._replica.log.is_executed(root) or root in self._stuck:
            return
        plan = self._plan(root)
        self._groups.extend(plan.groups)
        if plan.missing is not None:
            self.blocked.setdefault(plan.missing, []).extend(plan.held)
            self._stuck.update(dict.fromkeys(plan.held, plan.missing))
            self._replica.log.note_slot(plan.missing)

    def _plan(self, root: InstanceId) -> graph.ExecutionPlan:
        """Dependencies beyond the end of the term become Nops on the way."""
        plan = graph.plan(self._replica.log, root, self._stuck)
        while plan.missing is not None and terms.is_beyond(self._replica.ends, plan.missing):
            before, nothing = self._replica.log.get(plan.missing), self._replica.nop(plan.missing)
            self._replica.log.put(nothing)
            self._store.transact(partial(self._replica.rows.save, before=before, after=nothing))
            plan = graph.plan(self._replica.log, root, self._stuck)
        return plan

    def free(self, decided: InstanceId) -> list[InstanceId]:
        """The instances that waited for it. They may wait for another one now."""
        waited = self.blocked.pop(decided, [])
        for each in waited:
            del self._stuck[each]
        return waited

    def execute(self, group: list[InstanceId], before: Instance | None = None) -> None:
        """In one transaction: after half a group the rest would get another order. With `before`, the only instance of
        the group is decided in the same transaction: one sync for both."""
        results = self._store.transact(partial(self._apply, group, before))
        if self._written:
            self._replica.on_written(self._written)
        for instance_id in group:
            self._replica.log.mark_executed(instance_id)
        for instance_id in group:
            self._replica.on_executed(instance_id, results[instance_id])

    def _apply(self, group: list[InstanceId], before: Instance | None, tx: Transaction) -> dict[InstanceId, Results]:
        if before is not None:
            self._replica.rows.save(tx, before, self._replica.log.get(before.id))
        state = ExecutionState(lambda key: self._replica.space.held(tx, key))
        results: dict[InstanceId, Results] = {}
        for instance_id in group:
            command = self._replica.log.get(instance_id).chosen
            results[instance_id] = None if command is None else execute_command(command, state)
            self._replica.rows.mark_executed(tx, instance_id)
        for key, held in state.written.items():
            self._replica.space.set_held(tx, key, held)
        self._written = state.written
        return results
