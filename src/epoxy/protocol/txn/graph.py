"""The order in which decided commands are executed: dependencies first, and a strongly connected group in the order of
ids.

Tarjan's algorithm, without recursion: it stops at an instance that is not decided yet, and reports it. The groups
closed by then may be executed. Instances found to wait for another are remembered, and not walked through again before
that is decided: a replica that was away has thousands of them."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from epoxy.model.instances import NOTHING, InstanceId
from epoxy.protocol.txn.log import InstanceLog


class ExecutionPlan(Struct, frozen=True):
    """Groups to execute, one after the other, each in one transaction. `missing`: what has to be decided before the
    rest; `held`: instances found to wait for it."""

    groups: list[list[InstanceId]]
    missing: InstanceId | None
    held: list[InstanceId]


class Visit:
    __slots__ = ("at", "deps", "index", "low")

    def __init__(self, index: int, at: int, deps: Iterator[InstanceId]) -> None:
        self.index = index
        self.low = index
        self.at = at
        self.deps = deps


class Walk:
    """`stuck`: by instance, the undecided one it waits for."""

    def __init__(self, log: InstanceLog, stuck: Mapping[InstanceId, InstanceId]) -> None:
        self.groups: list[list[InstanceId]] = []
        self.stack: list[InstanceId] = []
        """Entered and not closed. Each of them leads to the current instance, so if that is missing, all of them wait
        for it."""
        self._log = log
        self._stuck = stuck
        self._visits: dict[InstanceId, Visit] = {}
        self._on_stack: set[InstanceId] = set()

    def from_root(self, root: InstanceId) -> InstanceId | None:
        """What is missing, if anything is."""
        missing = self._enter(root)
        path = [root] if missing is None else []
        while path:
            visit = self._visits[path[-1]]
            below = next(visit.deps, None)
            if below is None:
                self._leave(path)
            elif below in self._on_stack:
                visit.low = min(visit.low, self._visits[below].index)
            elif below not in self._visits:
                missing = self._enter(below)
                if missing is not None:
                    return missing
                path.append(below)
        return missing

    def _enter(self, instance_id: InstanceId) -> InstanceId | None:
        if (missing := self._stuck.get(instance_id)) is not None:
            return missing
        instance = self._log.get(instance_id)
        if not instance.is_committed:
            return instance_id
        deps = NOTHING if instance.nop or instance.deps is None else instance.deps
        self._visits[instance_id] = Visit(len(self._visits), len(self.stack), self._log.unexecuted(deps))
        self.stack.append(instance_id)
        self._on_stack.add(instance_id)
        return None

    def _leave(self, path: list[InstanceId]) -> None:
        here = path.pop()
        visit = self._visits[here]
        if path:
            above = self._visits[path[-1]]
            above.low = min(above.low, visit.low)
        if visit.low == visit.index:
            group = [self.stack.pop()]
            while group[-1] != here:
                group.append(self.stack.pop())
            self._on_stack.difference_update(group)
            self.groups.append(in_order(group[::-1]))


def plan(log: InstanceLog, root: InstanceId, stuck: Mapping[InstanceId, InstanceId]) -> ExecutionPlan:
    """What has to be executed for `root`, itself included."""
    walk = Walk(log, stuck)
    missing = walk.from_root(root)
    return ExecutionPlan(walk.groups, missing, walk.stack)


def in_order(group: list[InstanceId]) -> list[InstanceId]:
    """A total order, the same at every replica: ids do not tie, as sequence numbers may."""
    return sorted(group)
