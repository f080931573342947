"""One message of the ordered engine, one transaction; and the execution of what is decided.

The log in memory is what the rows say, so nothing is read to answer a message. What is answered waits for the disk, as
with the per-key engine: whoever calls `handle` or `perform` sees to that.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import assert_never

from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.ordered import (
    MAX_PAGE,
    MAX_PAGE_BYTES,
    Catchup,
    Closed,
    Instance,
    InstanceId,
    Missed,
    Noted,
    OrderedAccept,
    OrderedCommit,
    OrderedReply,
    OrderedRequest,
    Seal,
    Validate,
    Waiting,
)
from epoxy.model.transactions import Executed
from epoxy.ordered import acceptor, graph
from epoxy.ordered.effects import Begin, Conclude, HomeOp, Join, Look, Seen
from epoxy.ordered.execution import State, execute
from epoxy.ports import Store, Transaction
from epoxy.store.ordered import OrderedSpace

Results = list[Executed] | None
"""Of the transactions of a command; None: it came to nothing."""

FORGOTTEN_AT_ONCE = 1024
"""Slots of a replica that are thrown away in one transaction: some milliseconds."""


class OrderedReplica:
    def __init__(self, me: int, store: Store, config: ClusterConfig | None) -> None:
        """`config` is that of the first start; later ones go on with what was written down then. None: it is not known
        yet who decides, and this replica says nothing until it is (`found`)."""
        self.me = me
        self.space = OrderedSpace(me)
        self.founders: ClusterConfig | None = store.transact(partial(self.space.founders, config=config))
        self.log = self.space.load(store.newest())
        self.on_news: Callable[[InstanceId], None] = lambda _: None
        """Told of an instance that was decided, or that somebody waits for."""
        self.on_executed: Callable[[InstanceId, Results], None] = lambda _, __: None
        """Told right after the transaction, before it is durable."""
        self.on_change: Callable[[Instance], None] = lambda _: None
        """Told of every change, as above."""
        self._store = store
        self._blocked: dict[InstanceId, list[InstanceId]] = {}
        """What is not decided, and who waits for it."""
        self._stuck: dict[InstanceId, InstanceId] = {}
        """The same, the other way around."""
        self._reached: dict[int, dict[int, int]] = {}

    def found(self, config: ClusterConfig) -> None:
        """When this replica is first let in. Later than in the first epoch, it is no founder, also if one had its id:
        it does not remember what that one said."""
        if self.founders is None:
            members = config if config.epoch == 1 else without(config, self.me)
            self.founders = self._store.transact(partial(self.space.founders, config=members))

    @property
    def voters(self) -> tuple[int, ...]:
        return self.founders.voters if self.founders is not None else ()

    def start(self) -> None:
        """What was decided before a crash and not executed is executed now."""
        for instance in sorted(self.log.instances.values(), key=lambda instance: instance.id):
            if instance.is_committed:
                self._execute_from(instance.id)

    def handle(self, request: OrderedRequest) -> OrderedReply:
        match request:
            case Waiting():
                return self._heard_waiting(request)
            case Catchup():
                return self._catch_up(request)
            case Seal():
                return Closed(term=0)
            case _:
                before = self.log.get(request.id)
                after, reply = acceptor.step(self.log, request)
                self._keep(before, after)
                return reply

    def perform(self, op: HomeOp) -> object:
        match op:
            case Begin():
                after, begun = acceptor.begin(self.log, op.id, op.command)
                self._keep(self.log.get(op.id), after)
                return begun
            case Conclude():
                before = self.log.get(op.id)
                after, concluded = acceptor.conclude(before)
                self._keep(before, after)
                return concluded
            case Join():
                before = self.log.get(op.id)
                after, request = acceptor.join(before, self.me, op.above)
                self._keep(before, after)
                return (before, request) if not before.is_committed else request
            case Look():
                instances = tuple([self.log.get(each) for each in op.ids])
                return Seen(instances=instances, waiting=tuple([self.log.waiting.get(each, 0) for each in op.ids]))
            case OrderedAccept() | OrderedCommit() | Validate():
                return self.handle(op)
            case _:
                assert_never(op)

    def waits_for(self, instance_id: InstanceId) -> bool:
        """Whether something that is decided cannot be executed without it."""
        return instance_id in self._blocked

    # Messages

    def _keep(self, before: Instance, after: Instance) -> None:
        if after is before or after == before:
            return
        self.log.put(after)
        waited = self._free(after.id) if after.is_committed else []
        plan = graph.plan(self.log, after.id, self._stuck) if after.is_committed else None
        if plan is not None and plan.groups == [[after.id]]:
            self._execute([after.id], before)
        else:
            self._store.transact(lambda tx: self.space.save(tx, before, after))
        self.on_change(after)
        if after.is_committed:
            for each in (after.id, *waited):
                self._execute_from(each)
            self.on_news(after.id)

    def _heard_waiting(self, request: Waiting) -> OrderedReply:
        known = self.log.waiting.get(request.id, 0)
        if request.count > known and not self.log.is_executed(request.id):
            self.log.waiting[request.id] = request.count
            self.on_news(request.id)
        return Noted()

    def _catch_up(self, request: Catchup) -> Missed:
        """Tell what the sender lacks and this replica has executed without gaps."""
        self.reached(request.sender, request.executed)
        theirs = {end.replica_id: end.slot for end in request.executed}
        commits: list[OrderedCommit] = []
        size = 0
        for end in self.log.floors():
            first = max(theirs.get(end.replica_id, 0), self.log.forgotten.get(end.replica_id, 0)) + 1
            for slot in range(first, end.slot + 1):
                if len(commits) >= MAX_PAGE or size >= MAX_PAGE_BYTES:
                    return Missed(executed=self.log.floors(), commits=tuple(commits), more=True)
                commit = acceptor.commit_of(self.log.get(InstanceId(end.replica_id, slot)))
                commits.append(commit)
                size += commit.command.size if commit.command is not None else 0
        return Missed(executed=self.log.floors(), commits=tuple(commits), more=False)

    # Execution

    def _execute_from(self, root: InstanceId) -> None:
        if self.log.is_executed(root) or root in self._stuck:
            return
        plan = graph.plan(self.log, root, self._stuck)
        for group in plan.groups:
            self._execute(group)
        if plan.missing is not None:
            self._blocked.setdefault(plan.missing, []).extend(plan.held)
            self._stuck.update(dict.fromkeys(plan.held, plan.missing))
            self.log.mention(plan.missing)

    def _free(self, decided: InstanceId) -> list[InstanceId]:
        """Those who waited for it. They may wait for something else."""
        waited = self._blocked.pop(decided, [])
        for each in waited:
            del self._stuck[each]
        return waited

    def _execute(self, group: list[InstanceId], before: Instance | None = None) -> None:
        """In one transaction: half a group is none, for the rest of it would be put into another order. With `before`,
        the only one of the group is decided in it, too: one sync for both."""
        results = self._store.transact(partial(self._apply, group, before))
        for instance_id in group:
            self.log.mark_executed(instance_id)
        for instance_id in group:
            self.on_executed(instance_id, results[instance_id])

    def _apply(self, group: list[InstanceId], before: Instance | None, tx: Transaction) -> dict[InstanceId, Results]:
        if before is not None:
            self.space.save(tx, before, self.log.get(before.id))
        state = State(lambda key: self.space.value(tx, key))
        results: dict[InstanceId, Results] = {}
        for instance_id in group:
            command = self.log.get(instance_id).chosen
            results[instance_id] = None if command is None else [execute(txn, state) for txn in command.txns]
            self.space.mark_executed(tx, instance_id)
        for key, value in state.written.items():
            self.space.set_value(tx, key, value)
        return results

    # Throwing away

    def reached(self, sender: int, executed: tuple[InstanceId, ...]) -> None:
        """How far somebody has come. Only ever further."""
        known = self._reached.setdefault(sender, {})
        for end in executed:
            known[end.replica_id] = max(known.get(end.replica_id, 0), end.slot)
            self.log.mention(end)

    def forget(self) -> int:
        """Throw away what everybody has executed."""
        others = [self._reached.get(other, {}) for other in self.voters if other != self.me]
        ends: list[InstanceId] = []
        for end in self.log.floors():
            known = self.log.forgotten.get(end.replica_id, 0)
            last = min([end.slot, known + FORGOTTEN_AT_ONCE, *(their.get(end.replica_id, 0) for their in others)])
            if last > known:
                ends.append(InstanceId(end.replica_id, last))
        if ends:
            self._store.transact(lambda tx: self.space.forget(tx, ends))
            return len(self.log.forget(ends))
        return 0

    @property
    def is_idle(self) -> bool:
        """Everything that anybody knows of was executed by everybody."""
        log = self.log
        return not log.instances and all(log.executed.get(r, 0) >= highest for r, highest in log.highest.items())

    def undecided(self, limit: int) -> list[InstanceId]:
        """What is known of and not decided here, the oldest of each replica first."""
        return list(islice(self.log.gaps(), limit))


def without(config: ClusterConfig, me: int) -> ClusterConfig:
    """The same members, of which this one learns."""
    replicas = [replace(each, status=ReplicaStatus.LEARNING) if each.id == me else each for each in config.replicas]
    if not any(each.status is ReplicaStatus.ACTIVE for each in replicas):
        replicas.append(ReplicaInfo(id=max(each.id for each in replicas) + 1))
    return ClusterConfig(epoch=1, coordinator_id=config.coordinator_id, replicas=tuple(replicas))
