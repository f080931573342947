"""In which order decided commands are executed: dependencies first, and what depends on each other in the order of ids.

Tarjan's walk, without recursion and without waiting: where something is not decided yet it ends, and says what that is.
Everything it found closed by then may be executed.
"""

from collections.abc import Iterator

from msgspec import Struct

from epoxy.model.ordered import NOTHING, InstanceId
from epoxy.ordered.log import Log


class Plan(Struct, frozen=True):
    """Groups to execute, one after the other, each in one piece. `missing`: what has to be decided first for the
    rest."""

    groups: list[list[InstanceId]]
    missing: InstanceId | None


class Visit:
    __slots__ = ("deps", "index", "low")

    def __init__(self, index: int, deps: Iterator[InstanceId]) -> None:
        self.index = index
        self.low = index
        self.deps = deps


class Walk:
    def __init__(self, log: Log) -> None:
        self.groups: list[list[InstanceId]] = []
        self._log = log
        self._visits: dict[InstanceId, Visit] = {}
        self._stack: list[InstanceId] = []
        self._on_stack: set[InstanceId] = set()

    def from_root(self, root: InstanceId) -> InstanceId | None:
        """What is missing, if anything is."""
        if not self._enter(root):
            return root
        path = [root]
        while path:
            visit = self._visits[path[-1]]
            below = next(visit.deps, None)
            if below is None:
                self._leave(path)
            elif below in self._on_stack:
                visit.low = min(visit.low, self._visits[below].index)
            elif below not in self._visits:
                if not self._enter(below):
                    return below
                path.append(below)
        return None

    def _enter(self, instance_id: InstanceId) -> bool:
        instance = self._log.get(instance_id)
        if not instance.is_committed:
            return False
        deps = NOTHING if instance.nop or instance.deps is None else instance.deps
        self._visits[instance_id] = Visit(len(self._visits), self._log.unexecuted(deps))
        self._stack.append(instance_id)
        self._on_stack.add(instance_id)
        return True

    def _leave(self, path: list[InstanceId]) -> None:
        here = path.pop()
        visit = self._visits[here]
        if path:
            above = self._visits[path[-1]]
            above.low = min(above.low, visit.low)
        if visit.low == visit.index:
            group = [self._stack.pop()]
            while group[-1] != here:
                group.append(self._stack.pop())
            self._on_stack.difference_update(group)
            self.groups.append(in_order(group[::-1]))


def plan(log: Log, root: InstanceId) -> Plan:
    """What has to be executed for `root`, itself included."""
    walk = Walk(log)
    missing = walk.from_root(root)
    return Plan(walk.groups, missing)


def in_order(group: list[InstanceId]) -> list[InstanceId]:
    """A total order that every replica finds: ids do not tie, as sequence numbers may."""
    return sorted(group)
