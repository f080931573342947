"""The judge of transactions. It sees what replicas hold and execute, and knows nothing of the faults.

Only what is durable counts: a decision or an execution that a crash took back was never reported.
"""

from collections.abc import Collection
from itertools import combinations

from epoxy.model.instances import Instance, InstanceId, OrderedCommit, Phase
from epoxy.protocol.txn.acceptor import commit_of
from epoxy.protocol.txn.log import InstanceLog
from epoxy_sim.keys import judge as per_key
from epoxy_sim.simulation import Violation
from epoxy_sim.trace_format import NAMES

PHASES = list(Phase)

At = tuple[int, InstanceId]
"""Slots begin again in every term."""


class TxnJudge(per_key.Judge):
    def __init__(self, members: Collection[int]) -> None:
        super().__init__()
        self.members: dict[int, frozenset[int]] = {0: frozenset(members)}
        """The members of every term."""
        self.decisions: dict[At, OrderedCommit] = {}
        self.orders: dict[int, list[At]] = {}
        """What each replica executed, in its order."""
        self._held: dict[tuple[int, At], Instance] = {}
        self._under_way: dict[int, list[At]] = {}
        self._done: dict[tuple[int, At], OrderedCommit] = {}
        self._over: dict[At, frozenset[At]] = {}
        """What all members had executed when an instance was decided."""
        self._copied: dict[int, int] = {}
        """The last term of which a replica has a copy instead of its decisions."""

    def for_copy(self) -> "TxnJudge":
        return TxnJudge(self.members[0])

    def gone(self, replica: int) -> None:
        self._under_way.pop(replica, None)

    # While it runs

    def held(self, replica: int, instance: Instance, term: int = 0) -> None:
        """Durable now. An instance is decided once, and ballots do not fall."""
        at = term, instance.id
        before = self._held.get((replica, at))
        if before is not None and not before.is_committed and instance.ballot < before.ballot:
            raise Violation("ballot falls", f"{NAMES[replica]}, {named(at)}: {before.ballot} to {instance.ballot}")
        self._held[replica, at] = instance
        if instance.is_committed:
            self._one_decision(at, instance, NAMES[replica])

    def _one_decision(self, at: At, instance: Instance, witness: str) -> None:
        commit = commit_of(instance)
        if at not in self.decisions:
            self._over[at] = self._executed_by_all(at[0])
        first = self.decisions.setdefault(at, commit)
        if first != commit:
            raise Violation("agreement", f"{named(at)} is {say(first)}, and at {witness} {say(commit)}")

    def executes(self, replica: int, instance: Instance, term: int = 0) -> None:
        """Not durable yet."""
        at = term, instance.id
        self._done[replica, at] = commit_of(instance)
        under_way = self._under_way.setdefault(replica, [])
        if at in self.orders.get(replica, ()) or at in under_way or term <= self._copied.get(replica, -1):
            raise Violation("executed twice", f"{NAMES[replica]} executes {named(at)} again")
        under_way.append(at)

    def executed(self, replica: int, instance_id: InstanceId, term: int = 0) -> None:
        self._under_way[replica].remove((term, instance_id))
        self.orders.setdefault(replica, []).append((term, instance_id))

    def copied(self, replica: int, term: int) -> None:
        """Durable now: it has what others made of this term, and of those before."""
        self._copied[replica] = term

    def wiped(self, replica: int) -> None:
        """What it held is gone, and so is what it knew."""
        self.disk_lost(replica)
        self._held = {key: held for key, held in self._held.items() if key[0] != replica}
        for kept in (self.orders, self._under_way, self._copied):
            kept.pop(replica, None)

    def reads(self, replica: int, log: InstanceLog, term: int = 0) -> None:
        """A replica has started. What was durable is still there; what was on its way may have got there. Of terms
        before the one it is in only that counts."""
        self._epochs.pop(replica, None)
        order = self.orders.setdefault(replica, [])
        order += [at for at in self._under_way.pop(replica, []) if is_executed(at, log, term)]
        for instance in log.instances.values():
            if instance.is_committed:
                self._one_decision((term, instance.id), instance, NAMES[replica])
        for at in order:
            self.decisions.setdefault(at, self._done[replica, at])
            if not is_executed(at, log, term):
                raise Violation("durable state lost", f"{NAMES[replica]} forgot that it executed {named(at)}")
        for (owner, (of, instance_id)), known in self._held.items():
            if owner == replica and of >= term and not log.is_forgotten(instance_id):
                found = log.get(instance_id)
                if of > term or standing(found) < standing(known):
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
        for one, other in combinations(self.decisions, 2):
            if not (self._together(one, other) or self._knows(one, other) or self._knows(other, one)):
                both = [f"{named(at)} {say(self.decisions[at])}" for at in (one, other)]
                raise Violation("visibility", " and ".join(both))

    def _together(self, one: At, other: At) -> bool:
        return together(self.decisions[one], self.decisions[other])

    def _knows(self, one: At, other: At) -> bool:
        """All of a term comes before all of the next."""
        return one[0] > other[0] or other[1] in self.decisions[one].deps or other in self._over.get(one, ())

    def _executed_by_all(self, term: int) -> frozenset[At]:
        orders = [self.orders.get(member, ()) for member in self.members.get(term, ())]
        return frozenset(set.intersection(*map(set, orders))) if orders else frozenset()

    def same_order(self) -> None:
        for first, replica in combinations(sorted(self.orders), 2):
            place = {at: i for i, at in enumerate(self.orders[replica])}
            shared = [at for at in self.orders[first] if at in place]
            for one, other in combinations(shared, 2):
                if place[one] > place[other] and not self._together(one, other):
                    raise Violation(
                        "order of execution",
                        f"{NAMES[first]} executes {named(one)} before {named(other)}, {NAMES[replica]} after it",
                    )

    def order(self) -> list[At]:
        """Of everything: of each term, the order of a replica that executed most of it."""
        found: list[At] = []
        for term in sorted({at[0] for at in self.decisions}):
            orders = [[at for at in order if at[0] == term] for order in self.orders.values()]
            orders.sort(key=len)
            found += orders[-1] if orders else []
        return found


def named(at: At) -> str:
    term, instance_id = at
    return f"{instance_id} of term {term}" if term else str(instance_id)


def is_executed(at: At, log: InstanceLog, term: int) -> bool:
    """As far as a replica in this term knows."""
    return at[0] < term or (at[0] == term and log.is_executed(at[1]))


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
