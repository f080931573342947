"""Those who judge the ordered engine. They see what replicas hold and execute, and know nothing of the faults.

Only what is durable counts: a decision or an execution that a crash took back was never told to anybody.
"""

from itertools import combinations, pairwise

from epoxy.model.ordered import Instance, InstanceId, OrderedCommit, Phase
from epoxy.ordered.acceptor import commit_of
from epoxy.ordered.log import Log
from epoxy.sim import judge as per_key
from epoxy.sim.judge import Violation
from epoxy.sim.words import NAMES

PHASES = list(Phase)


class Judge(per_key.Judge):
    def __init__(self, n: int) -> None:
        super().__init__()
        self._n = n
        self.decisions: dict[InstanceId, OrderedCommit] = {}
        self.orders: dict[int, list[InstanceId]] = {}
        """What each replica executed, in its order."""
        self._held: dict[tuple[int, InstanceId], Instance] = {}
        self._under_way: dict[int, list[InstanceId]] = {}
        self._done: dict[tuple[int, InstanceId], OrderedCommit] = {}
        self._over: dict[InstanceId, frozenset[InstanceId]] = {}
        """What everybody had executed when an instance was decided."""

    # While it runs

    def held(self, replica: int, instance: Instance) -> None:
        """Durable now. An instance is decided once, and ballots do not fall."""
        before = self._held.get((replica, instance.id))
        if before is not None and not before.is_committed and instance.ballot < before.ballot:
            raise Violation("ballot falls", f"{NAMES[replica]}, {instance.id}: {before.ballot} to {instance.ballot}")
        self._held[replica, instance.id] = instance
        if instance.is_committed:
            self._one_decision(instance, NAMES[replica])

    def _one_decision(self, instance: Instance, witness: str) -> None:
        commit = commit_of(instance)
        if instance.id not in self.decisions:
            self._over[instance.id] = self._executed_by_all()
        first = self.decisions.setdefault(instance.id, commit)
        if first != commit:
            raise Violation("agreement", f"{instance.id} is {say(first)}, and at {witness} {say(commit)}")

    def executes(self, replica: int, instance: Instance) -> None:
        """Not durable yet."""
        instance_id = instance.id
        self._done[replica, instance_id] = commit_of(instance)
        under_way = self._under_way.setdefault(replica, [])
        if instance_id in self.orders.get(replica, ()) or instance_id in under_way:
            raise Violation("executed twice", f"{NAMES[replica]} executes {instance_id} again")
        under_way.append(instance_id)

    def executed(self, replica: int, instance_id: InstanceId) -> None:
        self._under_way[replica].remove(instance_id)
        self.orders.setdefault(replica, []).append(instance_id)

    def reads(self, replica: int, log: Log) -> None:
        """A replica has started. What was durable is still there; what was on its way may have got there."""
        order = self.orders.setdefault(replica, [])
        order += [each for each in self._under_way.pop(replica, []) if log.is_executed(each)]
        for instance in log.instances.values():
            if instance.is_committed:
                self._one_decision(instance, NAMES[replica])
        for instance_id in order:
            self.decisions.setdefault(instance_id, self._done[replica, instance_id])
            if not log.is_executed(instance_id):
                raise Violation("durable state lost", f"{NAMES[replica]} forgot that it executed {instance_id}")
        for (owner, instance_id), known in self._held.items():
            if owner == replica and not log.is_forgotten(instance_id):
                found = log.get(instance_id)
                if standing(found) < standing(known):
                    raise Violation("durable state lost", f"{NAMES[replica]}, {instance_id}: {known} became {found}")

    @property
    def is_busy(self) -> bool:
        return any(self._under_way.values())

    # At the end

    def sum_up(self) -> None:
        self.see_each_other()
        self.same_order()

    def see_each_other(self) -> None:
        """Of two that interfere, one knows of the other; or one was over when the other was decided."""
        for one, other in combinations(self.decisions.values(), 2):
            if not (together(one, other) or self._knows(one, other) or self._knows(other, one)):
                raise Violation("visibility", f"{one.id} {say(one)} and {other.id} {say(other)}")

    def _knows(self, one: OrderedCommit, other: OrderedCommit) -> bool:
        return other.id in one.deps or other.id in self._over.get(one.id, ())

    def _executed_by_all(self) -> frozenset[InstanceId]:
        if len(self.orders) < self._n:
            return frozenset()
        return frozenset(set.intersection(*map(set, self.orders.values())))

    def same_order(self) -> None:
        for first, replica in pairwise(sorted(self.orders)):
            place = {instance_id: i for i, instance_id in enumerate(self.orders[replica])}
            shared = [each for each in self.orders[first] if each in place]
            for one, other in combinations(shared, 2):
                if place[one] > place[other] and not together(self.decisions[one], self.decisions[other]):
                    raise Violation(
                        "order of execution",
                        f"{NAMES[first]} executes {one} before {other}, {NAMES[replica]} after it",
                    )


def together(one: OrderedCommit, other: OrderedCommit) -> bool:
    """Whether they may be executed in any order."""
    if one.command is None or other.command is None:
        return True
    theirs = other.command.footprint
    return not any(key in theirs and (writes or theirs[key]) for key, writes in one.command.footprint.items())


def standing(instance: Instance) -> tuple[bool, object, object, int]:
    return instance.is_committed, instance.ballot, instance.accepted, PHASES.index(instance.phase)


def say(commit: OrderedCommit) -> str:
    what = "nothing" if commit.command is None else " ".join(k.decode() for k in sorted(commit.command.footprint))
    named = " ".join([*(f"..{end}" for end in commit.deps.upto), *map(str, commit.deps.also)])
    return f"({what}) after ({named})"
