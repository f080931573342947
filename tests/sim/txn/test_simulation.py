"""The simulator of transactions: it holds, it repeats itself, and each of its judges can fail."""

import pytest

from epoxy.model.ballot import Ballot
from epoxy.model.instances import Deps, Instance, InstanceId, Phase
from epoxy.model.transactions import Done, Executed, Get, Put, Txn
from epoxy.protocol.txn.log import InstanceLog
from epoxy_sim.campaign import Campaign
from epoxy_sim.mutation_testing import chase
from epoxy_sim.simulation import Violation
from epoxy_sim.txn.batch_mutants import MUTANTS
from epoxy_sim.txn.campaign import TxnSetup
from epoxy_sim.txn.generate import generate
from epoxy_sim.txn.history import Asked, explain
from epoxy_sim.txn.judge import TxnJudge
from epoxy_sim.txn.plan import TxnPlan, WalkPlan
from epoxy_sim.txn.plans.churn import churn
from epoxy_sim.txn.simulation import run
from epoxy_sim.txn.trace_format import describe
from epoxy_sim.txn.untimed import walk
from tests.protocol.txn.cluster import write

ONE, TWO = InstanceId(1, 1), InstanceId(2, 1)


def test_some_seeds_hold() -> None:
    summary = Campaign(TxnSetup(), 0, 48).run()
    assert summary.failed == []
    assert summary.tally.verdicts["answered"] > 200
    assert summary.tally.paths["fast"] > 0
    assert summary.tally.paths["slow"] > 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_run_is_a_function_of_its_plan(seed: int) -> None:
    first, second = (run(generate(seed), tracing=True) for _ in range(2))
    assert first.trace == second.trace
    assert first.trace


def test_sizes_are_those_that_are_asked_for() -> None:
    for n in (3, 5, 7):
        assert run(generate(4, n=n)).failure is None
        assert generate(5, n=n) == WalkPlan(seed=5, n=n)


@pytest.mark.pure("plants faults")
@pytest.mark.parametrize(
    "name",
    [
        "seq-ties",
        "no-dependencies",
        "missing-is-done",
        "unequal-is-fast",
        "merge-unequal",
        "skip-validate",
        "adds-commute",
    ],
)
def test_planted_faults_are_caught(name: str) -> None:
    catch = chase(TxnSetup(mutant=name), limit_seeds=400)
    assert catch.rule is not None
    assert MUTANTS[name].breaks == catch.breaks


@pytest.mark.pure("plants faults")
@pytest.mark.parametrize(
    ("name", "since"), [("quorum-one-less", 495), ("any-ballot", 65), ("whatever-i-voted-for", 125)]
)
def test_walks_catch_broken_rules_of_told_votes(name: str, since: int) -> None:
    """Within a hundred of them; the seeds are those before the first that is known to."""
    with TxnSetup(mutant=name).planted():
        failures = (walk(WalkPlan(seed=seed)).failure for seed in range(since, since + 200, 2))
        caught = next((failure for failure in failures if failure is not None), None)
    assert caught is not None
    assert caught.rule == "agreement"


@pytest.mark.pure("plants faults")
def test_a_failure_is_made_smaller() -> None:
    setup = TxnSetup(mutant="unequal-is-fast")
    with setup.planted():
        plan = next(plan for plan in map(setup.plan, range(0, 40, 2)) if run(plan).failure is not None)
        failure = run(plan).failure
        assert failure is not None
        small = setup.shrink(plan, failure.rule, limit_events=20_000)
    assert small.report.failure is not None
    assert small.report.failure.rule == failure.rule
    assert small.report.plan.size <= plan.size


# Changes of members


def test_members_change_and_everything_holds() -> None:
    reports = [run(churn(seed)) for seed in range(24)]
    assert [report.failure for report in reports] == [None] * len(reports)
    assert sum(report.verdicts["terms"] for report in reports) > 20
    assert {report.plan.n for report in reports if isinstance(report.plan, TxnPlan)} >= {3, 4, 5, 6}


def test_changes_are_given_up_members_come_back_with_empty_disks_and_some_hear_of_nothing() -> None:
    plans = [churn(seed) for seed in range(100)]
    changes = [change for plan in plans for change in plan.changes]
    assert any(change.given_up for change in changes)
    assert any(change.wiped for change in changes)
    assert any(plan.deaf for plan in plans)
    assert generate(4) == churn(4)
    assert "members" in " ".join(describe(generate(4)))


@pytest.mark.pure("plants faults")
@pytest.mark.parametrize(
    "name", ["seal-asks-one", "closing-votes", "term-ignored", "enters-early", "newcomer-empty", "flows-go-on"]
)
def test_broken_changes_are_caught(name: str) -> None:
    begin = MUTANTS[name].since // 8 * 8 + 4
    with TxnSetup(mutant=name).planted():
        failures = (run(churn(seed)).failure for seed in range(begin, begin + 400, 8))
        assert next((failure for failure in failures if failure is not None), None) is not None


# Judges


def committed(instance_id: InstanceId, *deps: InstanceId) -> Instance:
    rest = Deps(also=tuple(sorted(deps)))
    return Instance(id=instance_id, phase=Phase.COMMITTED, command=write(), deps=rest)


def test_two_decisions_are_noticed() -> None:
    judge = TxnJudge(range(1, 3))
    judge.held(1, committed(ONE))
    judge.held(2, committed(ONE))
    with pytest.raises(Violation, match="agreement"):
        judge.held(2, committed(ONE, TWO))


def test_commands_that_do_not_see_each_other_are_noticed() -> None:
    judge = TxnJudge(range(1, 3))
    judge.held(1, committed(ONE))
    judge.held(1, committed(TWO, ONE))
    judge.see_each_other()
    judge.held(1, committed(InstanceId(3, 1)))
    with pytest.raises(Violation, match="visibility"):
        judge.see_each_other()


def executes(judge: TxnJudge, replica: int, *instances: Instance) -> None:
    for instance in instances:
        judge.held(replica, instance)
        judge.executes(replica, instance)
        judge.executed(replica, instance.id)


def test_another_order_and_a_second_execution_are_noticed() -> None:
    judge, one, two = TxnJudge(range(1, 3)), committed(ONE), committed(TWO, ONE)
    executes(judge, 1, one, two)
    with pytest.raises(Violation, match="executed twice"):
        judge.executes(1, one)
    executes(judge, 2, two, one)
    with pytest.raises(Violation, match="order of execution"):
        judge.same_order()


def test_what_is_lost_is_noticed() -> None:
    judge = TxnJudge(range(1, 2))
    executes(judge, 1, committed(ONE))
    with pytest.raises(Violation, match="durable state lost"):
        judge.reads(1, InstanceLog())


def test_what_was_copied_is_not_executed_again() -> None:
    judge = TxnJudge((1, 2))
    judge.copied(3, 1)
    judge.executes(3, committed(ONE), 2)
    with pytest.raises(Violation, match="executed twice"):
        judge.executes(3, committed(TWO), 1)
    judge.wiped(3)
    judge.executes(3, committed(TWO), 1)


def test_a_term_that_is_lost_is_noticed() -> None:
    judge = TxnJudge((1,))
    executes(judge, 1, committed(ONE))
    judge.reads(1, InstanceLog(), 1)
    judge.held(1, committed(TWO), 2)
    with pytest.raises(Violation, match="durable state lost"):
        judge.reads(1, InstanceLog(), 1)


def test_terms_come_one_after_the_other() -> None:
    judge = TxnJudge((1,))
    judge.held(1, committed(ONE))
    judge.held(1, committed(ONE), 1)
    judge.see_each_other()
    judge.executes(1, committed(ONE), 1)
    judge.executed(1, ONE, 1)
    executes(judge, 1, committed(ONE))
    executes(judge, 2, committed(ONE))
    judge.executes(2, committed(ONE), 1)
    judge.executed(2, ONE, 1)
    with pytest.raises(Violation, match=r"1\.1 of term 1 before 1\.1, B after it"):
        judge.same_order()


def test_ballots_that_fall_are_noticed() -> None:
    judge = TxnJudge(range(1, 2))
    judge.held(1, Instance(id=ONE, ballot=Ballot(2, 1)))
    with pytest.raises(Violation, match="ballot falls"):
        judge.held(1, Instance(id=ONE, ballot=Ballot(1, 1)))


# The history


def put(value: bytes) -> Txn:
    return Txn(then=(Put(key=b"k", value=value),))


GET = Txn(then=(Get(key=b"k"),))


def told(*values: bytes | None) -> Executed:
    return Executed(succeeded=True, done=tuple(Done(value=value, version=1) for value in values))


def asked(number: int, txn: Txn, invoked: int, returned: int, result: Executed) -> Asked:
    return Asked(number=number, client="c", txn=txn, invoked=invoked, returned=returned, result=result)


def history(*each: Asked) -> dict[int, Asked]:
    return {one.number: one for one in each}


def test_a_history_with_an_order_is_explained() -> None:
    writes = asked(1, put(b"1"), 1, 2, told(None))
    reads = asked(2, GET, 3, 4, told(b"1"))
    silent = Asked(number=3, client="c", txn=put(b"9"), invoked=1)
    assert explain(history(writes, reads, silent), [1, 2]) is None
    assert explain(history(writes, reads, silent), [1, 2, 3]) is None


@pytest.mark.parametrize(
    ("reads", "order", "words"),
    [
        (asked(2, GET, 3, 4, told(None)), [1, 2], "transaction 2 was told"),
        (asked(2, GET, 3, 4, told(None)), [2, 1], "contradicts the order in time"),
        (asked(2, GET, 3, 4, told(b"1")), [1], "answered and never executed"),
        (asked(2, GET, 3, 4, told(b"1")), [1, 2, 1], "executed twice"),
        (asked(2, GET, 1, 4, told(b"1")), [2, 1], "transaction 2 was told"),
    ],
    ids=["stale", "back in time", "lost", "twice", "from the future"],
)
def test_a_history_without_one_is_not(reads: Asked, order: list[int], words: str) -> None:
    writes = asked(1, put(b"1"), 1, 2, told(None))
    assert words in (explain(history(writes, reads), order) or "")
