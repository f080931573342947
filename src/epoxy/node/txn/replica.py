"""One message of the ordered engine, one transaction; and the execution of decisions.

The log in memory mirrors the rows, so nothing is read to answer a message. The callers of `handle` and `perform` let
the answer go when the store is durable."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import islice
from typing import assert_never

from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.errors import InvariantViolation
from epoxy.model.instances import (
    NOTHING,
    Catchup,
    Closed,
    Ended,
    Instance,
    InstanceId,
    Missed,
    Noted,
    OrderedAccept,
    OrderedCommit,
    OrderedReply,
    OrderedRequest,
    OrderedVote,
    Seal,
    Sealed,
    Term,
    Validate,
    Waiting,
)
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import ExpiryEntry
from epoxy.model.transactions import OrderedValue
from epoxy.node.txn.executor import Executor, Results
from epoxy.ports import Store
from epoxy.protocol.txn import acceptor, terms
from epoxy.protocol.txn.catchup import dependencies_first, page_of
from epoxy.protocol.txn.effects import Begin, FinishFast, Join, Look, Seen, TxnOp
from epoxy.protocol.txn.execution import Values
from epoxy.protocol.txn.log import InstanceLog
from epoxy.protocol.txn.terms import Ends, Part
from epoxy.protocol.txn.votes import Votes, decides
from epoxy.store.txn_rows import OrderedSpace, TermArchive

FAR_BEHIND = 4096
"""Instances that others have executed and a replica has not: then it proposes nothing until it has caught up. Fewer are
learned within a second, and a busy replica may lack as many at any moment."""

MAX_HELD = 1 << 13
"""Instances that stay in memory for members that have not executed them: some 13 MB. The rows of more stay on disk."""

FORGOTTEN_AT_ONCE = 256
"""Slots of a replica that are forgotten in one transaction: some milliseconds."""

SHELVED_AT_ONCE = 1024


@lru_cache(maxsize=64)
def members_of(voters: tuple[int, ...], policy: QuorumPolicy) -> ClusterConfig:
    """Cached, because every command needs it. A process has one at a time, a simulation a few."""
    return first_epoch(voters, policy)


class OrderedReplica:
    def __init__(self, me: int, store: Store, config: ClusterConfig | None) -> None:
        """`config` is the one in force. None: not known yet; a replica that is in a term goes on with it."""
        self.me = me
        self.config = config
        self.space = OrderedSpace(me)
        self.term: Term | None = self.space.term(store.newest())
        self.on_news: Callable[[InstanceId], None] = lambda _: None
        """Called for an instance that was decided, or for which a recovery elsewhere waits."""
        self.on_executed: Callable[[InstanceId, Results], None] = lambda _, __: None
        """Called right after the transaction, before it is durable."""
        self.on_written: Callable[[Values], None] = lambda _: None
        """Called with what was written, as above."""
        self.on_change: Callable[[Instance], None] = lambda _: None
        """Called for every change, as above."""
        self.on_backlog: Callable[[], None] = lambda: None
        """Called when `execute_some` is to be called again, in another turn of the event loop."""
        self.most_held = MAX_HELD
        """Executed instances that stay in memory."""
        self._store = store
        self._begin_term()
        if config is not None:
            if config.epoch == 1:
                self.found(config)
            self.adopt(config)

    def _begin_term(self) -> None:
        """With what is stored of the term this replica is in."""
        self.rows = self.space.within(self.number)
        self.log: InstanceLog = self.rows.load(
            self._store.newest(), TermArchive(self._store, self.rows), self.most_held
        )
        self.ends: Ends | None = None
        """How the term ended, once that is known."""
        self.keeps_more = bool(self.space.kept(self._store.newest(), None, self.number, 1))
        """Whether decisions of earlier terms are still here."""
        self._executor = Executor(self, self._store)
        self._votes = Votes()
        self._reached: dict[int, dict[int, int]] = {}
        self._furthest: dict[int, int] = {}
        """By replica, the slot up to which at least one other replica has executed everything."""
        self._arrived: set[int] = set()
        """Replicas known to be in this term, or in a later one."""

    # Terms

    @property
    def number(self) -> int:
        return self.term.number if self.term is not None else 0

    @property
    def part(self) -> Part:
        return terms.part_of(self.term, self.ends, self.config, self.me)

    @property
    def voters(self) -> tuple[int, ...]:
        return self.term.voters or () if self.term is not None else ()

    @property
    def members(self) -> ClusterConfig:
        """Of this term. If they are not known, those of the configuration: they can tell how the term ended."""
        if self.term is not None and self.term.voters is not None:
            return members_of(self.term.voters, self.term.policy)
        assert self.config is not None, "nothing is proposed before the voters are known"
        return members_of(self.config.electorate, self.config.quorum_policy)

    @property
    def others(self) -> list[int]:
        """Replicas to ask for decisions that this one missed."""
        members = self.config.electorate if self.config is not None else self.voters
        return [each for each in members if each != self.me]

    @property
    def is_behind(self) -> bool:
        """Whether its term ends, or ended long ago."""
        return self.term is not None and self.term.ending

    @property
    def behind(self) -> int:
        """Instances known to be executed elsewhere, or to count in a term that ends, and not executed here."""
        wanted = dict(self._furthest)
        for replica_id, slot in (self.ends or {}).items():
            wanted[replica_id] = max(wanted.get(replica_id, 0), slot)
        return sum([max(0, slot - self.log.executed.get(replica_id, 0)) for replica_id, slot in wanted.items()])

    def votes_on(self, instance_id: InstanceId) -> bool:
        return terms.votes_on(self.part, self.ends, instance_id)

    def found(self, config: ClusterConfig) -> None:
        """Begin term 0, when this replica first serves and the members are still those of the first epoch. The epoch
        may be a later one, in which only the identities of stores were recorded. After a change of members it is no
        founder, even under a founder's id: it does not have the votes of that one."""
        if self.term is None and config.term == 0 and self.me in config.electorate:
            self._move(Term(number=0, voters=config.electorate, policy=config.quorum_policy, ending=False))

    def adopt(self, config: ClusterConfig) -> None:
        if self.config is None or config.epoch >= self.config.epoch:
            self.config = config
            if self.term is not None:
                self._move(terms.adopted(self.term, config, self.me))

    def _move(self, term: Term) -> None:
        if term != self.term:
            self.term = term
            self._store.transact(lambda tx: self.space.set_term(tx, term))

    def learn_end(self, ends: Iterable[InstanceId]) -> None:
        """Instances beyond the end are Nops, by the decision how the term ended."""
        found = {end.replica_id: end.slot for end in ends}
        beyond = [each for each in {*self.log.instances, *self._executor.blocked} if terms.is_beyond(found, each)]
        for instance_id in beyond:
            if self.log.get(instance_id).is_committed and not self.log.get(instance_id).nop:
                raise InvariantViolation(f"{instance_id} was decided in a term that ended before it: {found}")
        self.ends = found
        for replica_id, slot in found.items():
            self.log.note_slot(InstanceId(replica_id, slot))
        for instance_id in sorted(beyond):
            self._keep(self.log.get(instance_id), self.nop(instance_id))

    def nop(self, instance_id: InstanceId) -> Instance:
        return acceptor.committed(self.log.get(instance_id), None, NOTHING)

    def advance(self) -> bool:
        """To the next term, if this one is over here."""
        if not terms.is_over(self.ends, self.log):
            return False
        self.arrive(self.number + 1)
        return True

    def arrive(self, number: int) -> None:
        """In a term: all before were executed here, or by the replica the values were copied from."""
        term = Term(number=number, voters=None, policy=QuorumPolicy.OPTIMAL, ending=False)
        self.term = terms.adopted(term, self.config, self.me) if self.config is not None else term
        self._store.transact(partial(self.space.arrive, term=self.term))
        self._begin_term()

    def newest(self, key: bytes) -> OrderedValue:
        """As far as transactions were executed here, durable or not."""
        return self.space.held(self._store.newest(), key)

    def expiring(self, after: bytes | None, limit: int) -> list[tuple[bytes, ExpiryEntry]]:
        """The next keys beyond `after` whose value ends."""
        return self.space.expiring(self._store.newest(), after, limit)

    def start(self) -> None:
        """Execute what was decided before a crash and not executed."""
        if self.part is Part.OUT:
            return
        for instance in sorted(self.log.instances.values(), key=lambda instance: instance.id):
            if instance.is_committed and not self.log.is_executed(instance.id):
                self._executor.add(instance.id)
        self.execute_some()

    def handle(self, request: OrderedRequest) -> OrderedReply:
        match request:
            case Waiting():
                return self._heard_waiting(request)
            case Catchup():
                return self._catch_up(request)
            case Seal():
                return self._seal()
            case OrderedVote():
                return self._heard_vote(request)
            case _:
                before = self.log.get(request.id)
                if not (isinstance(request, OrderedCommit) or before.is_committed or self.votes_on(request.id)):
                    return Closed(term=self.number)
                after, reply = acceptor.step(self.log, request)
                self._keep(before, after)
                return reply

    def perform(self, op: TxnOp) -> object:
        match op:
            case Begin():
                assert self.votes_on(op.id), op
                after, begun = acceptor.begin(self.log, op.id, op.command)
                self._keep(self.log.get(op.id), after)
                return begun
            case FinishFast():
                before = self.log.get(op.id)
                after, concluded = acceptor.conclude(before)
                self._keep(before, after)
                return concluded
            case Join():
                assert self.votes_on(op.id), op
                before = self.log.get(op.id)
                after, request = acceptor.join(before, self.me, op.above)
                self._keep(before, after)
                return (before, request) if not before.is_committed else request
            case Look():
                instances = tuple([self._seen(each) for each in op.ids])
                return Seen(instances=instances, waiting=tuple([self.log.waiting.get(each, 0) for each in op.ids]))
            case OrderedAccept() | OrderedCommit() | Validate() | Seal():
                return self.handle(op)
            case _:
                assert_never(op)

    def _seen(self, instance_id: InstanceId) -> Instance:
        """Beyond the end of the term it is a Nop, also if others do not know that yet."""
        beyond = terms.is_beyond(self.ends, instance_id)
        return self.nop(instance_id) if beyond else self.log.get(instance_id)

    def waits_for(self, instance_id: InstanceId) -> bool:
        """Whether a decided instance cannot be executed before it is decided."""
        return instance_id in self._executor.blocked

    # Messages

    def _keep(self, before: Instance, after: Instance) -> None:
        if after is before or after == before:
            return
        if not after.is_committed:
            # The row first: a vote that is only in memory would be told to the next replica that asks.
            self._store.transact(lambda tx: self.rows.save(tx, before, after))
            self.log.put(after)
            self.on_change(after)
            return
        self.log.put(after)
        waited = self._executor.free(after.id)
        if self._waits_for_nothing(after):
            self._executor.execute([after.id], before)
        else:
            self._store.transact(lambda tx: self.rows.save(tx, before, after))
        self.on_change(after)
        self._votes.drop(after.id)
        self._executor.add(after.id, *waited)
        self.execute_some()
        self.on_news(after.id)

    def _waits_for_nothing(self, decided: Instance) -> bool:
        return decided.nop or next(self.log.unexecuted(self.log.deps_of(decided)), None) is None

    def _heard_waiting(self, request: Waiting) -> OrderedReply:
        known = self.log.waiting.get(request.id, 0)
        if request.count > known and not self.log.is_executed(request.id):
            self.log.waiting[request.id] = request.count
            self.on_news(request.id)
        return Noted()

    def _heard_vote(self, vote: OrderedVote) -> OrderedReply:
        """This replica's own vote comes here too, when it is durable."""
        state = self.log.get(vote.id)
        if not state.is_committed and not self.log.is_forgotten(vote.id):
            voters = self._votes.count(vote.sender, vote.id, vote.ballot)
            if decides(state, voters, vote.ballot, self.me, self.members.quorums.slow):
                self._keep(state, acceptor.committed(state, state.chosen, self.log.deps_of(state)))
        return Noted()

    def _seal(self) -> OrderedReply:
        match self.part:
            case Part.ENDING:
                assert self.ends is not None
                return Ended(ends=tuple([InstanceId(replica, slot) for replica, slot in sorted(self.ends.items())]))
            case Part.CLOSING:
                return Sealed(ends=terms.last_slots(self.log))
            case _:
                return Closed(term=self.number)

    def _catch_up(self, request: Catchup) -> Missed:
        """Answer with what the sender lacks and this replica has executed without gaps."""
        self.arrived(request.sender)
        self.reached(request.sender, request.executed)
        known = {end.replica_id: end.slot for end in request.known}
        streams = {end.replica_id: self._stream(end, known.get(end.replica_id, 0)) for end in self.log.floors()}
        commits, more = page_of(dependencies_first(streams, known))
        return Missed(executed=self.log.floors(), commits=commits, more=more)

    def _stream(self, end: InstanceId, known: int) -> Iterator[OrderedCommit]:
        first = max(known, self.log.forgotten.get(end.replica_id, 0)) + 1
        return map(acceptor.commit_of, self.log.stretch(end.replica_id, first, end.slot))

    def catch_up_later(self, term: int, request: Catchup) -> Missed:
        """Answer a replica in an earlier term with what it lacks there: this one has executed all of it."""
        known = {end.replica_id: end.slot for end in request.known}
        streams = self.space.within(term).decided(self._store.newest(), known)
        commits, more = page_of(dependencies_first(streams, known))
        return Missed(executed=(), commits=commits, more=more)

    def execute_some(self) -> None:
        """A bounded part of what may be executed; `on_backlog` is called if that was not all."""
        if self._executor.execute_some():
            self.on_backlog()

    # Forgetting

    def arrived(self, sender: int) -> None:
        """The sender has executed everything before this term."""
        self._arrived.add(sender)

    def forget_earlier(self) -> None:
        """Delete the decisions of earlier terms when no voter of this one can need them."""
        if self.keeps_more and self.part is Part.OPEN and self._arrived | {self.me} >= set(self.voters):
            self._store.transact(partial(self.space.drop_kept, term=self.number))
            self.keeps_more = False

    def reached(self, sender: int, executed: tuple[InstanceId, ...]) -> None:
        """How far the sender has executed. It never falls."""
        known = self._reached.setdefault(sender, {})
        for end in executed:
            known[end.replica_id] = max(known.get(end.replica_id, 0), end.slot)
            self._furthest[end.replica_id] = max(self._furthest.get(end.replica_id, 0), end.slot)
            self.log.note_slot(end)

    def forget(self) -> int:
        """Delete a bounded part of what all voters have executed; returns how much that was."""
        if not self.voters:
            return 0
        others = [self._reached.get(other, {}) for other in self.voters if other != self.me]
        ends: list[InstanceId] = []
        for end in self.log.floors():
            known = self.log.forgotten.get(end.replica_id, 0)
            last = min([end.slot, known + FORGOTTEN_AT_ONCE, *(their.get(end.replica_id, 0) for their in others)])
            if last > known:
                ends.append(InstanceId(end.replica_id, last))
        if ends:
            self._store.transact(lambda tx: self.rows.forget(tx, ends))
            return len(self.log.forget(ends))
        return 0

    def shelve(self) -> int:
        """Drop instances from memory that are kept for absent members: they are read from the rows when needed. A
        bounded part of those above the limit; returns how much that was."""
        return self.log.shelve(max(self.most_held, len(self.log.instances) - SHELVED_AT_ONCE))

    @property
    def kept(self) -> int:
        """How many are executed here and not forgotten, because not all voters are known to have executed them."""
        return self._lacking(self.log.forgotten)

    @property
    def kept_for(self) -> list[int]:
        """The voters that lack FAR_BEHIND of them or more."""
        lacking = {other: self._lacking(self._reached.get(other, {})) for other in self.voters if other != self.me}
        return [other for other in sorted(lacking) if lacking[other] >= FAR_BEHIND]

    def _lacking(self, floors: Mapping[int, int]) -> int:
        return sum([max(0, slot - floors.get(replica_id, 0)) for replica_id, slot in self.log.executed.items()])

    @property
    def is_idle(self) -> bool:
        """Whether all known instances were executed by all voters. Those kept for a voter that is away count, also when
        none of them is in memory: it may have to be asked before it knows that it missed them."""
        log = self.log
        if self.keeps_more or self.is_behind or self.kept:
            return False
        return not log.instances and all(log.executed.get(r, 0) >= highest for r, highest in log.highest.items())

    def undecided(self, limit: int) -> list[InstanceId]:
        """Known instances that are not decided here, and that this replica may vote on; by replica, the oldest
        first."""
        part, ends = self.part, self.ends
        return list(islice((each for each in self.log.gaps() if terms.votes_on(part, ends, each)), limit))
