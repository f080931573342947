"""Whole runs: pure functions of their seed, that hold, and that fail when something is wrong."""

import hashlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.model.writes import Consistency, ReadFailed
from epoxy.node.keys.direct_round import DirectRound, RoundPlan
from epoxy.node.keys.quiet_read import QuietRead
from epoxy.protocol.effects import Context
from epoxy.protocol.keys import acceptor, proposer, reader, rounds
from epoxy.protocol.keys.effects import Flow
from epoxy.runtime.flow import FlowRunner
from epoxy_sim import history, linearizability
from epoxy_sim.disk.memory_disk import MemoryDisk
from epoxy_sim.keys import simulation
from epoxy_sim.keys.client import Client
from epoxy_sim.keys.generate import HOT, WORKLOADS, generate
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.nemesis import Nemesis
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.plan import OF_CHANGES, OF_COPIES, Ask, ClientPlan, Fault, FaultKind, Plan, Weather
from epoxy_sim.keys.plans.disk_copies import has_disk_copies
from epoxy_sim.keys.simulation import CALM_LIMIT_US, last_look, run
from epoxy_sim.patching import Patch, applied
from epoxy_sim.simulation import Report
from tests.sim.elsewhere import printed
from tests.sim.keys.bench import plan_of, step

BOTH = sorted(WORKLOADS)
HELD_SEEDS = 60

RESERVE = ClientPlan(home=1, steps=(step(Ask.RESERVE, value=5),))
RIVALS = tuple(ClientPlan(home=home, steps=(step(Ask.RESERVE, value=home),)) for home in (1, 2, 3))


def nothing(*_: object) -> None:
    return None


def rule_of(report: Report[Plan]) -> str | None:
    return report.failure.rule if report.failure is not None else None


def lines_of(report: Report[Plan]) -> list[str]:
    return [*(report.trace or []), *map(str, report.history)]


# The same again


@pytest.mark.parametrize("workload", BOTH)
def test_a_seed_is_a_run(workload: str) -> None:
    for seed in range(12):
        first, second = (run(generate(seed, workload), tracing=True) for _ in range(2))
        assert first == second
        assert first.trace
        assert first.history


@pytest.mark.parametrize("workload", BOTH)
def test_watching_changes_nothing(workload: str) -> None:
    for seed in range(8):
        seen, unseen = (run(generate(seed, workload), tracing=tracing) for tracing in (True, False))
        assert unseen.trace is None
        assert (seen.history, seen.events, seen.virtual_us) == (unseen.history, unseen.events, unseen.virtual_us)


FINGERPRINT = "from tests.sim.keys.test_simulation import fingerprint; print(fingerprint())"


def fingerprint() -> str:
    told = hashlib.sha256()
    for workload in BOTH:
        for seed in range(8):
            told.update("\n".join(lines_of(run(generate(seed, workload), tracing=True))).encode())
    return told.hexdigest()


def test_a_run_is_the_same_in_every_process() -> None:
    """Whatever order sets and dicts take there."""
    processes = [printed(FINGERPRINT, hash_seed) for hash_seed in ("1", "2")]
    assert processes == [fingerprint()] * 2


def test_hash_seeds_would_be_noticed() -> None:
    """The check above is worth nothing if this order does not change."""
    program = "print([hash(str(i)) % 97 for i in range(9)])"
    orders = {printed(program, hash_seed) for hash_seed in ("1", "2")}
    assert len(orders) == 2


# Runs hold


@pytest.mark.parametrize("workload", BOTH)
def test_runs_hold(workload: str) -> None:
    faults: set[str] = set()
    paths: set[str] = set()
    for seed in (*range(HELD_SEEDS), *filter(has_disk_copies, range(HELD_SEEDS, 5 * HELD_SEEDS))):
        report = run(generate(seed, workload))
        assert report.failure is None, f"seed {seed}: {report.failure}"
        assert set(report.verdicts) == {"Linearizable"}
        assert report.operations == len(report.history) > 0
        faults |= report.faults.keys()
        paths |= report.paths.keys()
    elsewhere = (*OF_CHANGES, *((FaultKind.DISK_FULL, *OF_COPIES) if workload == HOT else ()))
    assert {kind.value for kind in FaultKind if kind not in elsewhere} <= faults
    assert {"lost", "duplicated", "delayed"} <= faults
    assert paths == {"fast", "slow", "local"} if workload == "per-key" else {"fast", "slow"} <= paths


def test_a_calm_run_is_fast_and_reports_what_it_did() -> None:
    report = run(plan_of(clients=(RESERVE,)))
    assert report.failure is None
    assert report.paths == {"fast": 1}
    assert report.faults == {}
    assert report.virtual_us >= report.plan.faults_end_us
    first = report.history[0]
    assert (first.kind, first.outcome) == (history.Reserve(value=b"5"), history.Won(version=1))
    assert report.messages > 0
    assert report.events > report.messages


def test_rivals_have_one_winner() -> None:
    for seed in range(10):
        report = run(plan_of(seed=seed, clients=RIVALS, weather=Weather(jitter=1.0)))
        assert report.failure is None
        won = [operation for operation in report.history if operation.outcome == history.Won(version=1)]
        assert len(won) == 1


def test_the_last_look_asks_everything_of_several_and_then_writes() -> None:
    for n, homes in ((1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (9, [1, 5, 9])):
        *looks, write = last_look(plan_of(n, clients=(RESERVE,)), range(1, n + 1))
        assert [look.home for look in looks] == homes
        for look in looks:
            assert {each.consistency for each in look.steps} == set(Consistency)
            assert {each.ask for each in look.steps} == {Ask.READ}
        assert [each.ask for each in write.steps] == [Ask.PUT]


def test_the_last_clients_come_one_after_the_other_when_all_is_calm() -> None:
    report = run(plan_of(clients=(RESERVE,)))
    last = [operation for operation in report.history if operation.client.startswith(simulation.LAST)]
    assert len(last) == 3 * 3 + 1
    for before, after in itertools.pairwise(last):
        assert before.returned is not None
        assert before.returned < after.invoked


# Planted: lost values


def forget_everything(disk: MemoryDisk, _: float) -> None:
    disk._contents, disk._store = {}, None


AMNESIA = (Patch(MemoryDisk, "crash", forget_everything), Patch(Judge, "started", nothing))
"""A disk that loses all, and a judge that does not compare: only those who look can find out."""


def crash_later(n: int) -> Plan:
    machines = tuple(range(1, n + 1))
    return plan_of(
        n,
        clients=(RESERVE,),
        faults=(
            Fault(at_us=500_000, kind=FaultKind.CRASH, machines=machines),
            Fault(at_us=600_000, kind=FaultKind.RESTART, machines=machines),
        ),
    )


def who_look(choose: Callable[[list[ClientPlan]], list[ClientPlan]]) -> Patch:
    return Patch(simulation, "last_look", lambda plan, members: choose(last_look(plan, members)))


@pytest.mark.parametrize("n", [1, 3])
def test_the_last_look_finds_a_lost_value(n: int) -> None:
    """Its readers do, and its writer does, and without them nobody would."""
    assert run(crash_later(n)).failure is None
    with applied(AMNESIA):
        for choose, rule in (
            (lambda all_of_them: all_of_them, "agreement"),
            (lambda all_of_them: all_of_them[:-1], "linearizability"),
            (lambda all_of_them: all_of_them[-1:], "agreement"),
            (lambda _: [], None),
        ):
            with applied((who_look(choose),)):
                assert rule_of(run(crash_later(n))) == rule


def test_an_optimistic_last_look_finds_that_a_taken_name_looks_free() -> None:
    def optimists(clients: list[ClientPlan]) -> list[ClientPlan]:
        steps = tuple(each for each in clients[0].steps if each.consistency is Consistency.OPTIMISTIC)
        return [ClientPlan(home=1, steps=steps)]

    with applied((*AMNESIA, who_look(optimists))):
        assert rule_of(run(crash_later(3))) == "optimistic read"


def test_the_judge_finds_it_at_the_restart() -> None:
    with applied(AMNESIA[:1]):
        assert rule_of(run(crash_later(3))) == "durable state lost"


# Planted: no end


def test_a_network_that_never_heals_is_no_life() -> None:
    plan = plan_of(clients=(RESERVE,), faults=(Fault(at_us=0, kind=FaultKind.PARTITION, machines=(1,)),))
    assert run(plan).failure is None
    with applied((Patch(Network, "calm", nothing),)):
        report = run(plan)
    assert rule_of(report) == "liveness"


def test_machines_that_stay_down_are_no_life() -> None:
    plan = plan_of(clients=(RESERVE,), faults=(Fault(at_us=0, kind=FaultKind.CRASH, machines=(1, 2, 3)),))
    assert run(plan).failure is None
    with applied((Patch(Nemesis, "relent", nothing),)):
        report = run(plan)
    assert rule_of(report) == "liveness"
    assert report.failure is not None
    assert "300 s" in report.failure.detail
    assert report.virtual_us <= plan.faults_end_us + CALM_LIMIT_US


def test_a_driver_that_forgets_to_answer_is_no_life() -> None:
    with applied(
        (
            Patch(DirectRound, "_finish", nothing),
            Patch(FlowRunner, "_finish", nothing),
        )
    ):
        report = run(plan_of(clients=(RESERVE,)))
    assert rule_of(report) == "liveness"


def test_a_read_that_fails_although_all_is_calm_is_no_life() -> None:
    """An answer in time is not enough: "I could not" is none when everybody is there."""

    def gives_up(read: QuietRead) -> None:
        read._driver.clock.call_later(1.0, partial(read._finish, ReadFailed(reason="planted")))

    with applied((Patch(QuietRead, "start", gives_up),)):
        report = run(plan_of(clients=(RESERVE,)))
    assert rule_of(report) == "liveness"
    assert report.failure is not None
    assert "planted" in report.failure.detail


def test_a_client_that_is_never_done_is_no_life() -> None:
    with applied((Patch(Client, "_life_that_votes", nothing),)):
        report = run(plan_of(clients=(RESERVE,)))
    assert rule_of(report) == "liveness"


# Planted: wrong answers, no answers, bugs


def test_a_checker_that_does_not_decide_fails_the_run() -> None:
    real = linearizability.check

    def hurried(operations: list[history.Operation], **known: Any) -> list[linearizability.Verdict]:
        return real(operations, limit=0, **known)

    with applied((Patch(linearizability, "check", hurried),)):
        report = run(plan_of(clients=(RESERVE,)))
    assert rule_of(report) == "linearizability"
    assert report.verdicts == {"Undecided": 1}


def test_everybody_a_winner_is_not_linearizable_and_the_judge_says_so_first() -> None:
    always: Callable[..., bool] = lambda *_: True  # noqa: E731
    wins = (Patch(proposer, "is_mine", always),)
    with applied(wins):
        rules = {rule_of(run(plan_of(seed=seed, clients=RIVALS))) for seed in range(5)}
    assert rules & {"agreement", "two winners"}
    with applied((*wins, Patch(Judge, "write_answered", nothing))):
        rules = {rule_of(run(plan_of(seed=seed, clients=RIVALS))) for seed in range(5)}
    assert "linearizability" in rules


@pytest.mark.parametrize(("error", "rule"), [(AssertionError("a bug"), "assertion"), (KeyError("x"), "KeyError")])
def test_a_bug_in_the_engine_fails_the_run(error: Exception, rule: str) -> None:
    def broken(*_: object) -> object:
        raise error

    with applied((Patch(acceptor, "accept", broken),)):
        report = run(plan_of(clients=(RESERVE,)))
    assert report.failure is not None
    assert report.failure.rule == rule
    assert report.failure.detail


def test_a_failed_run_still_reports_how_it_came_to_it() -> None:
    with applied(AMNESIA[:1]):
        report = run(crash_later(3), tracing=True)
    assert report.failure is not None
    assert report.trace
    assert "fault: restart" in report.trace[-1]
    assert report.faults == {"crash": 1, "restart": 1}
    assert report.history[0].outcome == history.Won(version=1)


# Reads that ask the nearest quorum first


def with_neighbours(seed: int) -> Plan:
    """Everybody thinks the same few near, itself among them: whom a read asks first is no matter of safety."""
    plan = generate(seed, "mutable")
    near = tuple(1 + (seed + i) % plan.n for i in range(plan.n))
    return replace(plan, timing=replace(plan.timing, near=near))


@pytest.mark.parametrize("seed", range(40))
def test_reads_of_the_nearest_quorum_hold(seed: int) -> None:
    assert run(with_neighbours(seed)).failure is None


def test_a_read_content_with_fewer_than_a_quorum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    gather = rounds.gather

    def hasty(*asked: Any, need: int, **how: Any) -> Flow[rounds.Gathered]:
        return gather(*asked, need=need - 1, **how)

    monkeypatch.setattr(reader, "gather", hasty)
    failures = (run(with_neighbours(seed)).failure for seed in range(60, 90))
    assert {failure.rule for failure in failures if failure is not None} == {"linearizability"}


def test_a_quiet_read_content_with_fewer_than_a_quorum_is_caught() -> None:
    begin = RoundPlan.__init__

    def hasty(standing: RoundPlan, ctx: Context) -> None:
        begin(standing, ctx)
        standing.slow -= 1

    with applied((Patch(RoundPlan, "__init__", hasty),)):
        failures = [run(with_neighbours(seed)).failure for seed in range(40, 80)]
    assert {failure.rule for failure in failures if failure is not None} == {"linearizability"}
