"""Flows that raise: each ends once, is counted and reported, and what must go on goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from epoxy.model.cluster import CHANGE_REQUEST_KEY
from epoxy.model.errors import InvariantViolation, StoreFailed, StoreUnavailable
from epoxy.model.instances import Deps, InstanceId, Missed, OrderedCommit
from epoxy.model.transactions import Add, Executed, Txn, TxnOutcome, TxnRefused
from epoxy.node.keys.changelog_gc import ChangelogGc
from epoxy.node.members import member, txn_sync
from epoxy.node.txn.catchup import CatchUp
from epoxy.node.txn.replica import OrderedReplica
from epoxy.ports import Clock
from epoxy.protocol.effects import Local
from epoxy.protocol.keys.effects import Flow as KeyFlow
from epoxy.protocol.keys.operations import Peek
from epoxy.protocol.members import effects as membership_effects
from epoxy.protocol.txn.effects import Begin, FinishFast, Flow, Join, Look, TxnOp
from epoxy.protocol.txn.queue import Flight, QueuedTransaction
from epoxy.runtime import flow as flows
from epoxy.runtime.flow import FLOWS, FlowFailures, FlowRunner
from epoxy_sim.patching import Patch, applied
from tests.node import bench as driver_bench
from tests.node.bench import HandClock
from tests.node.keys import test_changelog_gc
from tests.node.members.test_member import Bench
from tests.node.members.town import Town
from tests.node.txn.test_engine import Cluster, put
from tests.protocol.keys.harness import prop
from tests.protocol.txn.cluster import write
from tests.runtime.host import HandHost

ADD = Txn(then=(Add(key=b"k", amount=1),))

perform = OrderedReplica.perform


class Reports:
    """What a node's log would say."""

    def __init__(self, *sources: FlowFailures) -> None:
        self.seen: list[tuple[str, Exception]] = []
        for failures in sources:
            failures.report = lambda flow, error: self.seen.append((flow, error))

    @property
    def flows(self) -> list[str]:
        return [flow for flow, _ in self.seen]


def reported(cluster: Cluster) -> Reports:
    return Reports(*(node.engine.failures for node in cluster.nodes.values()))


def raising_at(
    kind: type, me: int | None, times: int = 1, *, after: bool = False
) -> Callable[[OrderedReplica, TxnOp], object]:
    """The replica, with a bug: some operations of one kind fail, before or after they are done."""
    left = [times]

    def broken(self: OrderedReplica, op: TxnOp) -> object:
        fails = isinstance(op, kind) and me in (None, self.me) and left[0] > 0
        left[0] -= fails
        if fails and not after:
            raise RuntimeError("a bug")
        result = perform(self, op)
        if fails:
            raise RuntimeError("a bug")
        return result

    return broken


@pytest.mark.pure("plants a fault in the replica")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", [Begin, FinishFast])
def test_after_one_exception_in_a_transaction_the_next_on_that_key_are_executed(kind: type, after: bool) -> None:
    cluster = Cluster()
    assert isinstance(cluster.txn(1, ADD), Executed)
    reports = reported(cluster)
    lost: list[TxnOutcome] = []
    with applied((Patch(OrderedReplica, "perform", raising_at(kind, 1, after=after)),)):
        cluster.nodes[1].transactions.run(ADD, lost.append)
        cluster.run(100)
    assert reports.flows == ["transaction"]
    assert cluster.nodes[1].engine.failures.count["transaction"] == 1
    assert [type(cluster.txn(home, ADD)) for home in (1, 2, 1)] == [Executed] * 3
    never_begun = kind is Begin and not after
    assert [type(outcome) for outcome in lost] == [TxnRefused if never_begun else Executed]
    assert cluster.nodes[1].engine.held(b"k").value == (b"4" if never_begun else b"5"), (
        "executed once, or refused and never"
    )
    cluster.run(30_000)
    assert not any(node.engine.replica.log.instances for node in cluster.nodes.values()), "nothing is left behind"


@pytest.mark.pure("plants a fault in the replica")
def test_a_transaction_waits_behind_one_whose_flow_failed_no_longer_than_its_recovery_takes() -> None:
    cluster = Cluster()
    cluster.txn(1, ADD)
    reported(cluster)
    told: list[TxnOutcome] = []
    with applied((Patch(OrderedReplica, "perform", raising_at(FinishFast, 1)),)):
        for _ in range(2):
            cluster.nodes[1].transactions.run(ADD, told.append)
            cluster.run(5)
        cluster.run(50)
    assert [type(outcome) for outcome in told] == [Executed] * 2


@pytest.mark.pure("plants a fault in the replica")
def test_a_recovery_that_fails_is_begun_again() -> None:
    cluster = Cluster()
    cluster.txn(1, ADD)
    reports = reported(cluster)
    cluster.nodes[1].engine.txn(ADD, lambda _: None)
    cluster.run(1.5)
    cluster.down.add(1)
    told: list[TxnOutcome] = []
    with applied((Patch(OrderedReplica, "perform", raising_at(Join, None, times=3)),)):
        cluster.nodes[2].engine.txn(ADD, told.append)
        cluster.run(20_000)
    assert reports.flows == ["recovery"] * 3
    assert [type(outcome) for outcome in told] == [Executed]


@pytest.mark.pure("plants a fault in the replica")
def test_a_look_that_fails_is_not_the_last() -> None:
    """Whoever looks after what is stuck must look again."""
    cluster = Cluster()
    cluster.txn(1, ADD)
    engine = cluster.nodes[2].engine

    def fails(*_: object) -> object:
        raise RuntimeError("a bug")

    cluster.nodes[1].engine.txn(put(b"k", b"x"), lambda _: None)
    cluster.run(1.5)
    cluster.down.add(1)
    with applied((Patch(OrderedReplica, "undecided", fails),)), pytest.raises(RuntimeError):
        cluster.run(5000)
    told: list[TxnOutcome] = []
    engine.txn(ADD, told.append)
    cluster.run(10_000)
    assert len(told) == 1


def test_one_client_that_fails_at_its_answer_does_not_silence_the_others_of_its_command() -> None:
    heard: list[TxnOutcome] = []

    def fails(_: TxnOutcome) -> None:
        raise RuntimeError("a bug of its own")

    result = Executed(succeeded=True, done=())
    flight = Flight(write(), [QueuedTransaction(ADD, answered) for answered in (heard.append, fails, heard.append)])
    with pytest.raises(RuntimeError):
        flight.executed([result] * 3)
    assert heard == [result] * 2


# Each engine: a flow that raises, and an effect whose result comes when that is over

Late = list[Callable[[object], None]]
Ended = list[object]


def run_by_driver(failures: FlowFailures, error: Exception, late: Late, ended: Ended) -> None:
    node = driver_bench.Node()
    node.driver.failures = failures

    def flow() -> KeyFlow[str]:
        yield Local(Peek(key=b"k", use_cache=False))
        return "not reached"

    def perform_late(_: object, done: Callable[[object], None]) -> None:
        late.append(done)
        raise error

    node.replica.perform = perform_late  # type: ignore[method-assign,assignment]
    FlowRunner(node.driver, "read", flow(), lambda _: "broken", ended.append).start()


def run_by_engine(failures: FlowFailures, error: Exception, late: Late, ended: Ended) -> None:
    engine = Cluster().nodes[1].engine
    engine.failures = failures

    def flow() -> Flow[str]:
        yield Local(Look(ids=()))
        return "not reached"

    def perform_late(_: object, done: Callable[[object], None]) -> None:
        late.append(done)
        raise error

    engine.perform = perform_late  # type: ignore[method-assign,assignment]
    FlowRunner(engine, "recovery", flow(), lambda _: "broken", ended.append).start()


def run_by_member(failures: FlowFailures, error: Exception, late: Late, ended: Ended) -> None:
    def flow() -> membership_effects.Flow[str]:
        yield membership_effects.CurrentConfig()
        return "not reached"

    def perform_late(_: object, done: Callable[[object], None]) -> None:
        late.append(done)
        raise error

    FlowRunner(HandHost(perform_late, failures), "learner", flow(), lambda _: "broken", ended.append).start()


ENGINES = [run_by_driver, run_by_engine, run_by_member]


@pytest.mark.pure("plants a fault in the replica")
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_ends_a_flow_once_counts_it_and_reports_it(engine: Callable[..., None]) -> None:
    failures, late, ended = FlowFailures(print), Late(), Ended()
    reports, error = Reports(failures), RuntimeError("a bug")
    engine(failures, error, late, ended)
    assert ended == ["broken"]
    ((flow, seen),) = reports.seen
    assert flow in FLOWS
    assert seen is error
    assert seen.__traceback__ is not None, "the log shows where"
    assert failures.count.total() == failures.count[flow] == 1
    late[0]("what was asked for comes back after all")
    assert (ended, failures.count.total()) == (["broken"], 1)


@pytest.mark.pure("plants a fault in the replica")
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_raises_the_alarm_for_a_broken_invariant(engine: Callable[..., None]) -> None:
    alarms, ended = list[str](), Ended()
    engine(FlowFailures(alarms.append), InvariantViolation("two decisions"), Late(), ended)
    assert (alarms, ended) == (["two decisions"], ["broken"])


@pytest.mark.pure("plants a fault in the replica")
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_passes_on_that_the_store_failed_and_answers_nobody(engine: Callable[..., None]) -> None:
    failures, ended = FlowFailures(print), Ended()
    Reports(failures)
    with pytest.raises(StoreFailed):
        engine(failures, StoreFailed("fsync failed"), Late(), ended)
    assert (ended, failures.count.total()) == ([], 0)


# What runs for ever


@pytest.mark.pure("plants a fault in the member")
@pytest.mark.parametrize(
    ("name", "flow"), [("learn", "learner"), ("coordinate", "coordinator"), ("mirror", "mirror")], ids=lambda each: each
)
def test_a_flow_that_must_run_for_ever_is_begun_again(name: str, flow: str) -> None:
    room: Any = txn_sync if name == "mirror" else member
    good, left = getattr(room, name), [3]

    def broken(*args: object, **options: object) -> membership_effects.Flow[object]:
        if left[0] > 0:
            left[0] -= 1
            yield membership_effects.CurrentConfig()
            raise RuntimeError("a bug")
        return (yield from good(*args, **options))

    def failed() -> int:
        return sum(life.node.failures.count[flow] for life in town.lives.values())

    with applied((Patch(flows, "propagate", lambda *_: None), Patch(room, name, broken))):
        town = Town()
        town.order(1, add=(4,))
        town.until(lambda: town.lives[4].holds((1, 2, 3, 4)), "the fourth is a member")
    assert failed() == 3
    assert isinstance(town.txn(4, ADD), Executed)


def test_a_wish_that_cannot_be_read_here_is_reported_and_not_known() -> None:
    bench = Bench()
    failures = bench.driver.failures
    reports = Reports(failures)
    bench.replica.learn(CHANGE_REQUEST_KEY, prop(b"\xff written by a later version", mutable=True))
    assert bench.perform(membership_effects.ReadChangeRequest()) == [False]
    assert reports.flows == ["coordinator"]
    assert failures.count["coordinator"] == 1


@pytest.mark.pure("plants a fault in the changelog's gc")
def test_a_sweep_that_fails_is_not_the_last() -> None:
    bench = test_changelog_gc.Bench()
    bench.commit(3)

    def fails(*_: object) -> bool:
        raise RuntimeError("a bug")

    with applied((Patch(ChangelogGc, "_remove_some", fails),)), pytest.raises(RuntimeError):
        bench.look()
    bench.look()
    assert bench.rows() == 0


class Host:
    """Of a replica that catches up, and cannot learn one of the decisions."""

    behind, round_timeout_ms = 0, 1000.0

    def __init__(self, bad: InstanceId, clock: Clock) -> None:
        self.clock = clock
        self.learned: list[InstanceId] = []
        self.bad = bad

    def learn(self, commit: OrderedCommit) -> None:
        if commit.id == self.bad:
            raise RuntimeError("a bug")
        self.learned.append(commit.id)

    def ask(self, to: int, known: tuple[InstanceId, ...]) -> None:
        raise AssertionError(f"{to} is asked beyond {known}, and there is no other page")

    def caught_up(self) -> None:
        raise AssertionError("it was never far behind")


def test_a_decision_that_cannot_be_learned_does_not_keep_the_others_back() -> None:
    ids = [InstanceId(2, slot) for slot in range(1, 5)]
    clock = HandClock()
    host = Host(ids[1], clock)
    catchup = CatchUp(host)
    commits = tuple(OrderedCommit(id=each, command=write(), deps=Deps()) for each in ids)
    catchup.took(2, (), Missed(executed=(), commits=commits, more=False))
    with pytest.raises(RuntimeError):
        clock.advance(0)
    clock.advance(0)
    assert host.learned == [ids[0], *ids[2:]]
    assert not catchup.is_under_way, "it may be asked for again"


def test_a_database_that_does_not_answer_is_no_bug_of_a_flow() -> None:
    failures, ended = FlowFailures(alarm=print), []
    reports = Reports(failures)
    failures.ended("read", StoreUnavailable("away"), lambda: ended.append(True))
    assert ended == [True]
    assert not reports.seen
    assert flows.reason_of(StoreUnavailable("away")) == "away"
