"""From a seed to a plan: always the same one, within bounds, and all kinds of them."""

from functools import cache

import pytest

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy_sim.keys.generate import EPISODES, HOT, LENT, LENT_ASKS, SIZES, WORKLOADS, generate
from epoxy_sim.keys.plan import OF_CHANGES, OF_COPIES, Ask, FaultKind, Plan
from epoxy_sim.keys.plans.disk_copies import has_disk_copies
from tests.sim.elsewhere import printed

SEEDS = range(400)
every = pytest.mark.parametrize("workload", sorted(WORKLOADS))
both = pytest.mark.parametrize("workload", sorted(WORKLOADS.keys() - {HOT}))
"""The workload with many clients on few keys is in `test_hot.py`."""


@cache
def plans(workload: str) -> list[Plan]:
    return [generate(seed, workload) for seed in SEEDS]


@every
def test_a_plan_is_a_function_of_its_seed(workload: str) -> None:
    assert [generate(seed, workload) for seed in SEEDS[:50]] == plans(workload)[:50]
    assert len(set(map(repr, plans(workload)))) == len(SEEDS)


def test_workloads_do_not_share_their_plans() -> None:
    assert all(a != b for a, b in zip(plans("per-key"), plans("mutable"), strict=True))


def test_a_plan_does_not_depend_on_the_process() -> None:
    program = "from epoxy_sim.keys.generate import generate; print([generate(s, 'mutable') for s in range(12)])"
    assert {printed(program, hash_seed) for hash_seed in ("0", "1")} == {f"{plans('mutable')[:12]}"}


@both
def test_every_size_and_policy_comes_up(workload: str) -> None:
    assert {plan.n for plan in plans(workload)} == set(SIZES) == set(range(1, 10))
    assert {plan.policy for plan in plans(workload)} == set(QuorumPolicy)
    assert {plan.encoded for plan in plans(workload)} == {False, True}


@both
def test_every_fault_comes_up(workload: str) -> None:
    assert {fault.kind for plan in plans(workload) for fault in plan.faults} == set(FaultKind) - set(OF_CHANGES)
    assert any(not plan.faults for plan in plans(workload))
    for dial in ("loss", "commit_loss", "duplicate", "long_delay"):
        assert {getattr(plan.weather, dial) > 0 for plan in plans(workload)} == {False, True}
    assert any(rate != 1.0 for plan in plans(workload) for rate in plan.skew)


def test_the_episodes_name_every_fault() -> None:
    elsewhere = {*OF_CHANGES, *OF_COPIES, FaultKind.CUT}
    assert {kind for episode in EPISODES.values() for kind in episode} == set(FaultKind) - elsewhere


@both
def test_every_ask_and_every_read_comes_up(workload: str) -> None:
    steps = [step for plan in plans(workload) for client in plan.clients for step in client.steps]
    lent = {ask for asks in LENT_ASKS.values() for ask in asks} if workload in LENT else set()
    assert {step.ask for step in steps} == {*WORKLOADS[workload], *lent}
    assert {step.consistency for step in steps if step.ask is Ask.READ} == set(Consistency)


def test_the_mutable_workload_asks_for_everything() -> None:
    assert {*WORKLOADS["mutable"], *(ask for asks in LENT_ASKS.values() for ask in asks)} == set(Ask)


def test_two_clients_ask_for_one_value_now_and_then() -> None:
    """An equal value is not the same write."""
    shared = 0
    for plan in plans("per-key"):
        wanted = [
            {step.value for step in client.steps if step.ask is Ask.RESERVE and step.key == 0}
            for client in plan.clients
        ]
        shared += any(a & b for i, a in enumerate(wanted) for b in wanted[:i])
    assert shared > 10


def test_everybody_races_for_a_fresh_key() -> None:
    """From every replica, for one key nobody has written yet, within one step."""
    assert any(
        plan.n >= 3
        and {client.home for client in plan.clients} == set(range(1, plan.n + 1))
        and len({client.steps[0].key for client in plan.clients}) == 1
        and all(client.steps[0].ask is Ask.RESERVE for client in plan.clients)
        for plan in plans("per-key")
    )


@every
def test_options_are_respected(workload: str) -> None:
    for n in (1, 4, 9):
        for policy in QuorumPolicy:
            for seed in SEEDS[:24]:
                plan = generate(seed, workload, n=n, policy=policy)
                assert (plan.seed, plan.n, plan.policy) == (seed, n, policy)
                assert_in_range(plan)


@every
def test_everything_is_in_range(workload: str) -> None:
    for plan in plans(workload):
        assert_in_range(plan)


def assert_in_range(plan: Plan) -> None:
    members = set(range(1, plan.n + 1))
    assert len(plan.places) == len(plan.skew) == plan.n
    assert all(place >= 0 for place in plan.places)
    assert all(0.8 <= rate <= 1.25 for rate in plan.skew)
    assert plan.clients
    assert {client.home for client in plan.clients} <= members
    keys = plan.keys()
    assert 0 <= keys[0] <= keys[-1] < 6
    for client in plan.clients:
        assert client.steps
        assert all(step.at_us >= 0 for step in client.steps)
    for fault in plan.faults:
        assert set(fault.machines) <= members
        assert fault.machines
        assert 0 <= fault.at_us <= plan.faults_end_us
        assert 0.0 <= fault.keep <= 1.0
        assert fault.count >= 1
    assert list(plan.faults) == sorted(plan.faults, key=lambda fault: fault.at_us)


@both
def test_a_partition_may_cut_off_a_majority(workload: str) -> None:
    sides = [
        (len(fault.machines), plan.n)
        for plan in plans(workload)
        for fault in plan.faults
        if fault.kind is FaultKind.PARTITION
    ]
    assert any(2 * side > n > 1 for side, n in sides)


def test_every_fourth_seed_lies_in_wait() -> None:
    for plan in plans("per-key"):
        traps = [fault for fault in plan.faults if fault.kind.value.startswith("crash-on")]
        if plan.seed % 4 == 3 and not has_disk_copies(plan.seed):
            (trap,) = traps
            assert any(client.home in trap.machines for client in plan.clients)


def test_an_unknown_workload_fails_loudly() -> None:
    for seed in (0, 3):
        with pytest.raises(KeyError):
            generate(seed, "no such workload")


def test_some_plans_create_lend_keep_and_touch() -> None:
    asks = {
        workload: {
            step.ask
            for seed in range(first, 210, 7)
            for client in generate(seed, workload).clients
            for step in client.steps
        }
        for workload, first in (("mutable", 2), ("hot", 0))
    }
    assert all({Ask.CREATE, Ask.LEND, Ask.KEEP, Ask.TOUCH} <= drawn for drawn in asks.values())
    assert Ask.TOUCH not in {step.ask for client in generate(3, "mutable").clients for step in client.steps}
