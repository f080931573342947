"""Plans with many clients on few keys: what they are made of, and that writes are folded and carried in them."""

import itertools
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.model.messages import Carry
from epoxy.model.records import ProposalId
from epoxy.model.writes import ConsensusFailed, Outcome, Write
from epoxy.node.keys.driver import LEAST_CARRY_MS, Driver
from epoxy.node.keys.owners import Owners
from epoxy.protocol.effects import Timing
from epoxy.protocol.keys.carrying import packed
from epoxy.protocol.keys.folding import STILL_HANDED_OVER, UNANSWERED
from epoxy.protocol.keys.operations import PendingWrite
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, MembersChangePlan, Weather
from epoxy_sim.keys.plans.hot import APART, HOT_ASKS, SIZES, hot
from epoxy_sim.keys.simulation import run
from epoxy_sim.members.campaign import Setup
from epoxy_sim.patching import Patch, applied, nothing
from epoxy_sim.simulation import Failure
from tests.sim.keys.bench import KEY, Town, plan_of, step

PLANS = [hot(seed, None, None) for seed in range(120)]


def test_many_clients_share_few_keys() -> None:
    assert {len(plan.keys()) for plan in PLANS} == {1, 2}
    assert {plan.n for plan in PLANS} == set(SIZES)
    for plan in PLANS:
        assert 8 <= len(plan.clients) <= 24
    steps = [step for plan in PLANS for client in plan.clients for step in client.steps]
    assert {step.ask for step in steps} == set(HOT_ASKS)
    assert any(max(Counter(c.home for c in plan.clients).values()) >= 0.8 * len(plan.clients) for plan in PLANS)


def test_values_are_apart_so_that_sums_tell_them() -> None:
    for plan in PLANS:
        numbers = [step.value for client in plan.clients for step in client.steps if step.value > 0]
        assert len(set(numbers)) == len(numbers)
        assert all(number % APART == 0 for number in numbers)


def test_in_every_fourth_plan_nothing_breaks() -> None:
    assert all(plan.is_fair for plan in PLANS if plan.seed % 4 == 0)
    faults = {fault.kind for plan in PLANS for fault in plan.faults}
    assert {FaultKind.CRASH, FaultKind.PAUSE, FaultKind.CRASH_ON_SEND, FaultKind.CRASH_ON_ANSWER} <= faults
    for dial in ("carry_loss", "carry_again", "carry_late"):
        assert {getattr(plan.weather, dial) > 0 for plan in PLANS} == {False, True}


def test_members_change_in_some() -> None:
    plans = [Setup(workload="hot").plan(seed) for seed in range(24)]
    assert [bool(plan.changes) for plan in plans] == [seed % 6 == 5 for seed in range(24)]
    assert not any(Setup(workload="hot", n=3).plan(seed).changes for seed in range(24))


def test_writes_are_folded_carried_and_taken_back() -> None:
    folds: Counter[str] = Counter()
    for seed in range(24):
        report = run(hot(seed, None, None))
        assert report.failure is None, f"seed {seed}: {report.failure}"
        folds.update(report.folds)
    assert folds["folds"] > 50
    assert folds["writes in folds"] > 2.5 * folds["folds"]
    assert folds["carried"] > 100
    assert folds["taken back"] > 5


# Fair plans


WRITER = ClientPlan(home=1, steps=(step(Ask.PUT),))
FAIR = replace(plan_of(clients=(WRITER,)), timing=Timing(hedge_ms=50, round_timeout_ms=50))


def test_a_plan_is_fair_if_nothing_breaks_and_timers_are_long() -> None:
    assert FAIR.is_fair
    assert not replace(FAIR, faults=(Fault(at_us=0, kind=FaultKind.PAUSE, machines=(1,)),)).is_fair
    assert not replace(FAIR, changes=(MembersChangePlan(at_us=0, home=1, members=(1, 2)),)).is_fair
    assert not replace(FAIR, timing=Timing(hedge_ms=1, round_timeout_ms=50)).is_fair
    assert not replace(FAIR, places=(0.0, 40.0, 0.0)).is_fair
    for dial in Weather.__struct_fields__:
        assert not replace(FAIR, weather=Weather(**{dial: 3.0})).is_fair


def test_in_a_fair_plan_no_client_may_fail() -> None:
    def give_up(_: Driver, __: Write, answered: Callable[[Outcome], None]) -> None:
        answered(ConsensusFailed(reason="planted"))

    assert run(FAIR).failure is None
    with applied((Patch(Driver, "write", give_up),)):
        fair, unfair = run(FAIR).failure, run(replace(FAIR, weather=Weather(loss=0.1))).failure
    assert fair is not None
    assert (fair.rule, "nothing broke, and yet c1 was told" in fair.detail) == ("liveness", True)
    assert unfair is not None
    assert "calm, and yet last-1 was told" in unfair.detail


def answered_instead(outcome: Outcome, *, every: int) -> Failure | None:
    """A fair run of sixty writes in which one of so many is told this."""
    count = itertools.count(1)
    write = Driver.write

    def answer(driver: Driver, each: Write, answered: Callable[[Outcome], None]) -> None:
        write(driver, each, (lambda _: answered(outcome)) if next(count) % every == 0 else answered)

    clients = (ClientPlan(home=1, steps=(step(Ask.PUT),) * 60),)
    with applied((Patch(Driver, "write", answer),)):
        return run(replace(FAIR, clients=clients)).failure


def test_of_what_was_handed_on_little_may_be_unknown_and_of_an_answer_that_is_on_its_way_nothing() -> None:
    assert answered_instead(STILL_HANDED_OVER, every=50) is None
    for failure in (answered_instead(STILL_HANDED_OVER, every=10), answered_instead(UNANSWERED, every=50)):
        assert failure is not None
        assert failure.rule == "liveness"


@pytest.mark.parametrize("seed", [1272, 4220, 5868, 8504, 22324])
def test_an_answer_that_is_on_its_way_is_waited_for(seed: int) -> None:
    """These were told "it took effect, but what it answered is not known" while an owner's answer was on its way, or
    (1272) that another owner may still fold what one had refused."""
    assert run(hot(seed, None, None)).failure is None


# A silent owner


SILENT_MS = 600


def wait_for_silent_owner() -> float:
    """A owns the key and falls silent. How long a client of B needs for six writes after that."""
    busy = tuple(ClientPlan(home=1, steps=tuple(step(Ask.PUT, at_us=20_000 * i) for i in range(28))) for _ in range(6))
    before = tuple(step(Ask.PUT, at_us=20_000 * i) for i in range(25))
    after = tuple(step(Ask.PUT, at_us=1_000 * (SILENT_MS + 50)) for _ in range(6))
    faults = (
        Fault(at_us=1_000 * SILENT_MS, kind=FaultKind.PAUSE, machines=(1,)),
        Fault(at_us=12_000_000, kind=FaultKind.RESUME, machines=(1,)),
    )
    clients = (ClientPlan(home=2, steps=(*before, *after)), *busy)
    plan = replace(FAIR, clients=clients, faults=faults, faults_end_us=12_000_000)
    report = run(plan, tracing=True)
    assert report.failure is None
    assert report.folds["carried"] > 10
    told = [line for line in report.trace or [] if " c1 is told" in line]
    assert len(told) == len(before) + len(after)
    return float(told[-1].split()[0]) - SILENT_MS


def test_a_silent_owner_costs_one_hedge_and_not_one_for_each_write() -> None:
    assert wait_for_silent_owner() < 2 * LEAST_CARRY_MS


def test_a_hint_that_is_believed_for_ever_would_cost_each_write_a_hedge() -> None:
    def believed(owners: Owners, key: bytes, _: float) -> int | None:
        hint = owners._hints.get(key)
        return hint[0] if hint is not None else None

    with applied((Patch(Owners, "forget", nothing), Patch(Owners, "of", believed))):
        believing = wait_for_silent_owner()
    assert believing > 2 * wait_for_silent_owner()


# Carried writes on the network


def carry() -> Carry:
    write = PendingWrite(write=Write(key=KEY, value=b"x", mutable=True), proposal_id=ProposalId(1, 1), floor=0)
    return Carry(key=KEY, epoch=1, sender=1, receiver=0, number=1, writes=(packed(write),))


def arrivals(weather: Weather, within_ms: float) -> int:
    town = Town(plan_of(weather=weather))
    mail = town.mailbox(2)
    town.send(1, 2, carry())
    town.pass_ms(within_ms)
    return len(mail)


def test_carried_writes_are_lost_late_and_repeated() -> None:
    assert arrivals(Weather(), 50) == 1
    assert arrivals(Weather(carry_loss=1.0), 10_000) == 0
    assert (arrivals(Weather(carry_late=1.0), 150), arrivals(Weather(carry_late=1.0), 10_000)) == (0, 1)
    assert (arrivals(Weather(carry_again=1.0), 150), arrivals(Weather(carry_again=1.0), 10_000)) == (1, 2)
