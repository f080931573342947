"""The ordered engine on replicas side by side: execution, catching up, restarts, and who owns a key."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT
from epoxy.model.cluster import first_epoch
from epoxy.model.instances import (
    MAX_DEPENDENCIES,
    Deps,
    Instance,
    InstanceId,
    InTerm,
    OrderedAccept,
    OrderedCommit,
    OrderedVote,
    Phase,
    Voted,
)
from epoxy.model.marks import OWNED
from epoxy.model.messages import Reply, Request
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import (
    NO_ROW,
    Add,
    Executed,
    Get,
    OrderedValue,
    Put,
    Txn,
    TxnOutcome,
    TxnRefused,
    TxnUnknown,
)
from epoxy.model.writes import Committed, Outcome, Path, Write
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.replica import OrderedReplica
from epoxy.node.txn.transactions import LATE, UNCLAIMED, Transactions
from epoxy.protocol.effects import Timing
from epoxy.protocol.txn.log import InstanceLog
from epoxy.protocol.txn.terms import Part
from epoxy.runtime.admission import Admission
from epoxy.store.memory import MemoryStore
from epoxy_sim.world import Event, World
from tests.protocol.txn.cluster import Replicas, write


class Cluster:
    """Three nodes in virtual time; a message takes a millisecond if nothing else is said, and whoever is `down` hears
    nothing."""

    def __init__(self, n: int = 3, policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> None:
        self.world = World()
        self.config = first_epoch(tuple(range(1, n + 1)), policy)
        self.down: set[int] = set()
        self.way_us = 1000
        self.dice = Random(7)
        self.stores = {i: MemoryStore() for i in range(1, n + 1)}
        self.nodes = {i: Node(self, i) for i in self.stores}

    def run(self, virtual_ms: float) -> None:
        end_us = self.world.now_us + int(virtual_ms * 1000)
        self.world.after(end_us - self.world.now_us, lambda: None)
        self.world.run_until(lambda: self.world.now_us >= end_us, end_us)

    def txn(self, home: int, txn: Txn) -> TxnOutcome:
        told: list[TxnOutcome] = []
        self.nodes[home].transactions.run(txn, told.append)
        self.run(3000)
        assert len(told) == 1
        return told[0]

    def restart(self, i: int) -> None:
        self.nodes[i].engine.stop()
        self.nodes[i] = Node(self, i)


class Node:
    def __init__(self, cluster: Cluster, me: int) -> None:
        self._cluster = cluster
        self.me = me
        store = cluster.stores[me]
        self.replica = Replica(me, store, cluster.config, self.alarm)
        self.driver = Driver(self.replica, self, self, self, Timing(), self.alarm)
        self.engine = OrderedEngine(me, store, cluster.config, self, self, self, self.alarm)
        self.replica.ordered = self.engine.handle
        pending: Admission[TxnOutcome] = Admission(self, 100, 10_000.0, LATE)
        self.transactions = Transactions(self.engine, self.driver, pending)
        self.engine.start()

    def alarm(self, text: str) -> None:
        raise AssertionError(text)

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        def arrive() -> None:
            if not self._is_cut(to):
                self._cluster.nodes[to].replica.handle(requests, answer)

        def answer(reply: Reply) -> None:
            if answered is not None:
                self._cluster.world.after(self._cluster.way_us, lambda: None if self._is_cut(to) else answered(reply))

        self._cluster.world.after(self._cluster.way_us, arrive)

    def _is_cut(self, to: int) -> bool:
        return bool({self.me, to} & self._cluster.down)

    def now_ms(self) -> float:
        return self._cluster.world.now_us / 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        return self._cluster.world.after(int(delay_ms * 1000), then)

    def uniform(self) -> float:
        return self._cluster.dice.random()

    def nonce(self) -> int:
        return self._cluster.dice.getrandbits(64)


def put(key: bytes, value: bytes) -> Txn:
    return Txn(then=(Put(key=key, value=value),))


def executed(outcome: TxnOutcome) -> Executed:
    assert isinstance(outcome, Executed), outcome
    return outcome


def test_a_transaction_is_executed_everywhere_and_then_forgotten() -> None:
    cluster = Cluster()
    executed(cluster.txn(1, put(b"k", b"v")))
    cluster.run(20_000)
    assert {node.engine.held(b"k").value for node in cluster.nodes.values()} == {b"v"}
    assert all(not node.engine.replica.log.instances for node in cluster.nodes.values())
    rows = cluster.stores[2].newest().range(b"\x00", b"\xff", limit=100)
    cluster.txn(1, put(b"k", b"v"))
    cluster.run(20_000)
    assert len(cluster.stores[2].newest().range(b"\x00", b"\xff", limit=100)) == len(rows), "nothing piles up"


def test_without_rivals_one_round_is_enough() -> None:
    cluster = Cluster()
    for i in range(5):
        executed(cluster.txn(1 + i % 3, put(b"k", b"%d" % i)))
    fast = sum(node.engine.paths[Path.FAST] for node in cluster.nodes.values())
    slow = sum(node.engine.paths[Path.SLOW] for node in cluster.nodes.values())
    assert (fast, slow) == (5, 0)


def test_many_at_once_share_instances() -> None:
    cluster = Cluster()
    told: list[TxnOutcome] = []
    for i in range(100):
        cluster.nodes[1].transactions.engine.txn(Txn(then=(Add(key=b"%d" % (i % 50), amount=1),)), told.append)
    cluster.run(3000)
    assert len(told) == 100
    assert cluster.nodes[1].engine.replica.log.highest[1] <= 4


def test_who_was_away_catches_up() -> None:
    cluster = Cluster()
    executed(cluster.txn(1, put(b"k", b"0")))
    cluster.down.add(3)
    for i in range(200):
        cluster.nodes[1 + i % 2].engine.txn(put(b"k%d" % (i % 7), b"%d" % i), lambda _: None)
        cluster.run(30)
    assert cluster.nodes[3].engine.held(b"k1").value is None
    cluster.down.clear()
    cluster.run(20_000)
    assert cluster.nodes[3].engine.held(b"k1").value == cluster.nodes[1].engine.held(b"k1").value is not None
    assert not cluster.nodes[1].engine.replica.log.instances, "nobody needs them any more"


def test_a_coordinator_one_of_whose_peers_is_silent_decides_on_the_slow_path_itself() -> None:
    """Before anybody takes it for stuck."""
    cluster = Cluster(policy=QuorumPolicy.FAST_PAXOS)
    executed(cluster.txn(1, put(b"k", b"0")))
    cluster.down.add(3)
    engine = cluster.nodes[1].engine
    told: list[TxnOutcome] = []
    engine.txn(put(b"k", b"1"), told.append)
    cluster.run(engine.timing.recover_ms * 0.9)
    assert [type(outcome) for outcome in told] == [Executed]
    assert engine.paths == {Path.FAST: 1, Path.SLOW: 1}


def test_a_coordinator_that_would_have_to_name_too_much_waits_until_it_knows_more() -> None:
    cluster = Cluster()
    executed(cluster.txn(1, put(b"k", b"0")))
    engine = cluster.nodes[1].engine
    unknown = [InstanceId(2, slot) for slot in range(1, MAX_DEPENDENCIES + 2)]
    for instance_id in unknown:
        engine.replica.log.put(
            Instance(id=instance_id, phase=Phase.PREACCEPTED, command=write(b"k", b"x"), deps=Deps(), initial=Deps())
        )
    told: list[TxnOutcome] = []
    engine.txn(put(b"k", b"1"), told.append)
    cluster.run(100)
    assert told == []
    assert engine.replica.log.highest[1] == 1, "it was not put forward"
    for instance_id in unknown:
        commit = OrderedCommit(id=instance_id, command=write(b"k", b"x"), deps=Deps())
        for node in cluster.nodes.values():
            node.engine.replica.handle(commit)
    cluster.run(1000)
    assert [type(outcome) for outcome in told] == [Executed]
    assert cluster.nodes[2].engine.held(b"k").value == b"1"


def test_a_coordinator_that_dies_holds_nobody_up_for_long() -> None:
    """It has put its command forward and is gone. Whoever meets it recovers it, and goes on."""
    cluster = Cluster()
    executed(cluster.txn(1, put(b"k", b"0")))
    lost: list[TxnOutcome] = []
    cluster.nodes[1].engine.txn(put(b"k", b"1"), lost.append)
    cluster.run(1.5)
    cluster.down.add(1)
    told: list[TxnOutcome] = []
    began_ms = cluster.world.now_us / 1000
    cluster.nodes[2].engine.txn(Txn(then=(Get(key=b"k"),)), told.append)
    while not told:
        cluster.run(10)
    timeout_ms = cluster.nodes[2].engine.timing.recover_ms
    assert cluster.world.now_us / 1000 - began_ms < 2 * timeout_ms
    assert not lost


def test_peers_that_are_slower_than_the_time_out_are_heard_in_the_end() -> None:
    """Disks and processors may be busy for longer than anybody thought. Rounds that end before an answer comes would be
    begun again for ever."""
    cluster = Cluster()
    cluster.way_us = 1_500_000
    told: list[TxnOutcome] = []
    for home, node in cluster.nodes.items():
        assert 2 * cluster.way_us / 1000 > 2 * node.engine.timing.round_timeout_ms
        node.engine.txn(put(b"k", b"%d" % home), told.append)
    cluster.run(60_000)
    assert [type(outcome) for outcome in told] == [Executed] * 3


def test_what_was_decided_before_a_crash_is_executed_after_it() -> None:
    at = Replicas(3)
    begun = at.begin(1, write(b"k", b"v"))
    at.at[2].log.note_slot(InstanceId(1, 1))
    at.stores[2].transact(lambda tx: at.at[2].rows.save(tx, at.at[2].log.get(begun.id), at.at[1].log.get(begun.id)))
    replica = at.restart(2)
    assert not replica.log.is_executed(begun.id)
    replica.handle(OrderedCommit(id=begun.id, command=begun.command, deps=begun.deps))
    assert replica.space.held(at.stores[2].newest(), b"k").value == b"v"
    again = at.restart(2)
    assert again.log.is_executed(begun.id)


def test_what_depends_on_each_other_is_executed_in_one_transaction() -> None:
    """Half of it, after a crash, would be continued in another order."""
    at = Replicas(3)
    ids = [InstanceId(replica, 1) for replica in (1, 2)]
    commits = [
        OrderedCommit(id=each, command=write(b"k", b"%d" % each.replica_id), deps=Deps(also=(other,)))
        for each, other in zip(ids, reversed(ids), strict=True)
    ]
    at.tell(commits[0], (3,))
    assert not at.at[3].log.is_executed(ids[0])
    before = at.stores[3].commits
    at.tell(commits[1], (3,))
    assert at.stores[3].commits == before + 2, "the decision, and both executions"
    assert at.at[3].space.held(at.stores[3].newest(), b"k").value == b"2", "in the order of ids"


class CountedLog(InstanceLog):
    """How often somebody looks at an instance."""

    looks = 0

    def get(self, instance_id: InstanceId) -> Instance:
        self.looks += 1
        return super().get(instance_id)


def looks_for(count: int) -> int:
    """A chain of commands is learned, but for the first of them, and these at last, the latest first."""
    replica = OrderedReplica(1, MemoryStore(), first_epoch((1, 2, 3)))
    log = replica.log = CountedLog()
    chain = [InstanceId(2, slot) for slot in range(1, count + 1)]
    deps = [Deps(also=tuple(chain[max(0, i - 3) : i])) for i in range(count)]
    commits = [OrderedCommit(id=each, command=write(), deps=deps[i]) for i, each in enumerate(chain)]
    missed = count // 8
    backlog: list[None] = []
    replica.on_backlog = lambda: backlog.append(None)
    for commit in [*commits[missed:], *reversed(commits[:missed])]:
        replica.handle(commit)
        while backlog:
            backlog.clear()
            replica.execute_some()
    assert replica.log.floors() == (chain[-1],)
    return log.looks


def test_who_was_away_does_not_walk_the_same_way_for_every_command_it_learns() -> None:
    """That would be the cube of their number, and a second becomes a minute."""
    assert looks_for(400) < 24 * looks_for(100)


def test_what_was_not_put_forward_in_time_never_is() -> None:
    """The first is on its way when nobody answers any more, the second waits for it, and both clients' time passes."""
    cluster = Cluster()
    executed(cluster.txn(1, Txn(then=(Add(key=b"n", amount=1),))))
    cluster.down |= {2, 3}
    told: list[TxnOutcome] = []
    transactions = cluster.nodes[1].transactions
    for _ in range(2):
        transactions.run(Txn(then=(Add(key=b"n", amount=1),)), told.append)
        cluster.run(10)
    cluster.run(15_000)
    assert [type(outcome) for outcome in told] == [TxnUnknown, TxnRefused], "one may take effect yet, the other not"
    assert isinstance(told[1], TxnRefused)
    assert "nothing was done" in told[1].reason
    assert transactions._admission.count == 1, "what was withdrawn takes no room"
    cluster.down.clear()
    cluster.run(10_000)
    assert executed(cluster.txn(2, Txn(reads=(b"n",)))).found == (b"2",)
    assert transactions._admission.count == 0
    assert len(told) == 2


def test_all_that_everybody_has_executed_is_forgotten_however_much_it_is() -> None:
    """It was a thousand slots of each replica in a second: with more put forward in each, the log grew for ever."""
    cluster = Cluster()
    for node in cluster.nodes.values():
        for slot in range(1, 5001):
            node.engine.replica.handle(OrderedCommit(id=InstanceId(2, slot), command=write(), deps=Deps()))
        node.engine.wake()
    cluster.run(4000)
    for node in cluster.nodes.values():
        assert node.engine.replica.log.forgotten == {2: 5000}
        assert node.engine.replica.log.instances == {}


def test_a_restart_goes_on_with_the_next_slot() -> None:
    cluster = Cluster()
    executed(cluster.txn(1, put(b"k", b"1")))
    cluster.restart(1)
    executed(cluster.txn(1, put(b"k", b"2")))
    assert cluster.nodes[2].engine.replica.log.highest[1] == 2


def test_a_key_belongs_to_one_engine() -> None:
    cluster = Cluster()
    told: list[Outcome] = []
    cluster.nodes[2].driver.write(Write(key=b"mine", value=b"v", mutable=True), told.append)
    cluster.run(1000)
    found = executed(cluster.txn(1, Txn(reads=(b"mine", b"new"))))
    assert found.reads == (OrderedValue(value=b"v", version=1), NO_ROW), "handed over with what it held"
    executed(cluster.txn(3, put(b"new", b"v")))
    cluster.nodes[2].driver.write(Write(key=b"new", value=b"v", mutable=True), told.append)
    cluster.run(1000)
    assert type(told[-1]).__name__ == "ImmutableKey"
    here = cluster.nodes[2].replica.peek(b"new", use_cache=False)
    assert here is not None
    assert here.value == OWNED


def test_a_write_between_two_transactions_is_handed_over_with_the_key() -> None:
    """At another node, while the keys are claimed."""
    cluster = Cluster()
    told: list[TxnOutcome] = []
    write, written = Write(key=b"a", value=b"v", mutable=True), list[Outcome]()
    cluster.nodes[2].driver.write(write, written.append)
    cluster.nodes[1].transactions.run(Txn(reads=(b"a", b"b")), told.append)
    cluster.run(3000)
    before = OrderedValue(value=b"v", version=1) if isinstance(written[0], Committed) and written[0].mine else NO_ROW
    assert executed(told[0]).reads == (before, NO_ROW)
    executed(cluster.txn(3, put(b"b", b"v")))


@pytest.mark.parametrize("keys", [(b"a",), (b"a", b"b")])
def test_without_a_quorum_nothing_begins_and_that_is_told(keys: tuple[bytes, ...]) -> None:
    """Also not later, when there is one again: its client was told for certain."""
    cluster = Cluster()
    cluster.down = {2, 3}
    told: list[TxnOutcome] = []
    puts = tuple([Put(key=key, value=b"v") for key in keys])
    cluster.nodes[1].transactions.run(Txn(then=puts), told.append)
    cluster.run(11_000)
    (outcome,) = told
    assert isinstance(outcome, TxnRefused)
    assert outcome.reason.startswith(UNCLAIMED)
    cluster.down = set()
    cluster.run(20_000)
    assert all(node.engine.held(b"a").value is None for node in cluster.nodes.values())
    assert len(told) == 1


def test_a_value_that_looks_like_the_mark_is_none() -> None:
    """Any client may write those bytes into a mutable key: a value as others, handed over as others."""
    cluster = Cluster()
    cluster.nodes[2].driver.write(Write(key=b"a", value=OWNED, mutable=True), lambda _: None)
    cluster.run(1000)
    assert executed(cluster.txn(1, put(b"a", b"v"))).done[0].value == OWNED


def test_who_is_let_in_later_is_no_founder_whatever_its_id() -> None:
    """It may have the id of one whose disk was lost, and does not remember what that one said."""
    store = MemoryStore()
    replica = OrderedReplica(2, store, None)
    assert replica.part is Part.OUT
    replica.found(replace(first_epoch((1, 2, 3)), epoch=4, term=1))
    assert replica.part is Part.OUT
    founder = OrderedReplica(1, store, None)
    founder.found(first_epoch((1, 2, 3)))
    assert founder.voters == OrderedReplica(1, store, None).voters == (1, 2, 3), "written down"


def test_who_was_no_member_orders_nothing() -> None:
    cluster = Cluster()
    node = cluster.nodes[1]
    engine = OrderedEngine(9, MemoryStore(), cluster.config, node, node, node, node.alarm)
    told: list[TxnOutcome] = []
    engine.txn(put(b"k", b"v"), told.append)
    assert isinstance(told[0], TxnRefused)


class Post:
    """Only notes what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Request]] = []

    def send(self, to: int, requests: Sequence[Request], _: object) -> None:
        self.sent += [(to, request) for request in requests]


def test_a_vote_is_told_to_the_others_when_it_is_durable() -> None:
    """Told earlier, a crash would take it back, and others had counted it."""
    cluster = Cluster()
    synced: list[Callable[[], None]] = []
    node, post = cluster.nodes[2], Post()
    engine = OrderedEngine(2, MemoryStore(synced.append), cluster.config, post, node, node, node.alarm)
    first = OrderedAccept(id=InstanceId(1, 1), ballot=NO_BALLOT, command=write(), deps=Deps())
    assert isinstance(engine.handle(InTerm(term=0, request=first)), Voted)
    assert post.sent == []
    while synced:
        synced.pop()()
    vote = OrderedVote(sender=2, id=first.id, ballot=NO_BALLOT)
    assert post.sent == [(3, InTerm(term=0, request=vote))], "who asked for it is answered"


def test_who_is_let_in_late_is_a_founder_as_long_as_members_have_not_changed() -> None:
    """The others may have written down whose stores these are, which is an epoch of its own, before it is ready."""
    late, newcomer = OrderedReplica(1, MemoryStore(), None), OrderedReplica(4, MemoryStore(), None)
    second = replace(first_epoch((1, 2, 3)), epoch=2)
    for each in (late, newcomer):
        each.found(second)
    assert late.voters == (1, 2, 3)
    assert newcomer.voters == ()
    joint = replace(first_epoch((1, 2, 3, 4)), epoch=3, previous=(1, 2, 3))
    newcomer.found(joint)
    assert newcomer.voters == (), "it votes in the joint epoch, and not in the term that this one ends"


def test_one_that_waits_no_longer_takes_nobody_else_s_news() -> None:
    """Two wait for one instance. One gives up: the other is still told, and in the end nothing is kept."""
    cluster = Cluster()
    engine, awaited, told = cluster.nodes[1].engine, InstanceId(2, 1), list[str]()
    both = [lambda: told.append("first"), lambda: told.append("second")]
    for tell in both:
        engine.watch((awaited,), tell)
    engine.unwatch((awaited,), both[0])
    engine._news(awaited)
    cluster.run(1)
    assert told == ["second"]
    engine.unwatch((awaited,), both[1])
    assert engine._watchers == {}
