"""Elections in virtual time: runs are functions of their seeds, plans are lawful, judges can fail."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect.lint import lint
from epoxy.protocol.elect.lists import Lists, list_of
from epoxy.protocol.elect.messages import Acceptance, Announce
from epoxy.protocol.elect.send_queue import SendQueue
from epoxy.protocol.elect.terms import ElectRecord, Mode
from epoxy_sim.campaign import Campaign
from epoxy_sim.elect.campaign import ElectSetup
from epoxy_sim.elect.generate import generate
from epoxy_sim.elect.judge import ElectJudge
from epoxy_sim.elect.plan import ElectFault, ElectPlan, ElectWeather, Kind, Roll
from epoxy_sim.elect.simulation import ElectSimulation, config_of, run
from epoxy_sim.elect.trace_format import condense, describe
from epoxy_sim.simulation import Violation


def calm(n: int = 3, *faults: ElectFault, **settings: object) -> ElectPlan:
    plan = generate(0, n=n)
    usual = {
        "priorities": (100,) * n,
        "skew": (1.0,) * n,
        "weather": ElectWeather(),
        "begun": False,
        "stranger": False,
        "odd": 0,
        "min_replicas": 0,
        "sync_ms": 1,
        "faults": faults,
    }
    return replace(plan, **{**usual, **settings})


def test_elections_hold() -> None:
    summary = Campaign(ElectSetup(), 0, 40).run()
    assert summary.failed == []
    assert summary.tally.verdicts["elections"] > 20
    assert summary.tally.paths["acknowledged"] > 500


def test_the_number_of_processes_changes_nothing() -> None:
    one, two = (Campaign(ElectSetup(n=3), 0, 8, jobs=jobs).run() for jobs in (1, 2))
    assert (one.digest, one.tally) == (two.digest, two.tally)


def test_a_run_is_a_function_of_its_plan() -> None:
    plan = generate(5)
    assert run(plan) == run(plan)
    assert ElectSetup().digest(run(plan)) != ElectSetup().digest(run(generate(6)))


@pytest.mark.parametrize("seed", range(0, 400, 7))
def test_every_plan_has_a_config_that_would_be_accepted(seed: int) -> None:
    plan = generate(seed)
    assert [finding for finding in lint(config_of(plan)) if finding.fatal] == []
    assert all(fault.at_ms < plan.faults_end_ms for fault in plan.faults)


def test_all_kinds_of_trouble_come_up() -> None:
    struck = {fault.kind for seed in range(300) for fault in generate(seed).faults}
    assert struck == set(Kind)


def test_a_cluster_survives_the_loss_of_its_primary() -> None:
    report = run(calm(3, ElectFault(at_ms=600, kind=Kind.CRASH, target=(0,), for_ms=900)), tracing=True)
    assert report.failure is None
    assert report.verdicts["openings"] == 2
    assert any("b takes writes as primary of epoch 2" in line for line in report.trace or [])


def test_a_planned_handover_goes_to_the_heir() -> None:
    report = run(calm(3, ElectFault(at_ms=600, kind=Kind.HANDOVER, target=(3,), for_ms=0)), tracing=True)
    assert report.failure is None
    assert any("c takes writes" in line for line in report.trace or [])
    assert any("HANDOVER" in line for line in report.trace or [])


def test_a_server_takes_no_write_behind_its_deadline() -> None:
    simulation = ElectSimulation(calm(3), tracing=False)
    machine = simulation.machines["a"]
    machine.start()
    machine.server.mode, machine.server.until_ms = Mode.OPEN, 10
    assert machine.server.write(1)
    simulation.world.after(10_000, lambda: None)
    simulation.world.run_until(lambda: False, 10_000)
    assert not machine.server.write(2)


def judge() -> tuple[ElectJudge, ElectSimulation]:
    simulation = ElectSimulation(calm(3), tracing=False)
    for machine in simulation.machines.values():
        machine.server.start()
    return simulation.judge, simulation


def test_two_primaries_of_an_epoch_are_seen() -> None:
    seen, _ = judge()
    seen.led("b", 2)
    with pytest.raises(Violation, match="two primaries of an epoch"):
        seen.led("c", 2)


def test_two_unfenced_primaries_are_seen() -> None:
    seen, simulation = judge()
    for name in "ab":
        server = simulation.machines[name].server
        server.mode, server.until_ms = Mode.OPEN, 1_000
    with pytest.raises(Violation, match="two unfenced primaries"):
        seen.opened(simulation.machines["a"])


def test_a_lost_write_is_seen_if_it_was_on_enough_nodes() -> None:
    seen, simulation = judge()
    seen.acknowledged(1, {"a"}, 2)
    seen.promoted(simulation.machines["b"], 2)
    seen.acknowledged(2, {"a", "c"}, 2)
    with pytest.raises(Violation, match="acknowledged write lost"):
        seen.promoted(simulation.machines["b"], 3)
    seen.wiped("c")
    seen.promoted(simulation.machines["b"], 4)


def test_a_list_in_force_without_the_data_is_seen() -> None:
    seen, simulation = judge()
    simulation.machines["a"].server.log = simulation.machines["b"].server.log = [(1, 0), (1, 7)]
    seen.acknowledged(7, {"a", "b"}, 2)
    seen.saved("a", ElectRecord(leader="a", lists=Lists(stage=2, counted=(list_of(config_of(calm(3))),))))
    simulation.machines["b"].server.log = []
    with pytest.raises(Violation, match="a list in force without the data"):
        seen.saved("a", ElectRecord(leader="a", lists=Lists(stage=4, counted=(list_of(config_of(calm(3))),))))


def test_a_rolling_restart_ends_with_the_new_list_everywhere() -> None:
    roll = Roll(at_ms=600, nodes=(2, 3, 4), order=(3, 2), gap_ms=300, min_replicas=0, stay=False)
    plan = calm(3, rolls=(roll,), priorities=(100,) * 4, skew=(1.0,) * 4)
    simulation = ElectSimulation(plan, tracing=True)
    simulation.play()
    assert {name for name, machine in simulation.machines.items() if machine.listed} == set("bcd")
    assert all(m.record is not None and m.record.lists is not None for m in simulation.machines.values())
    assert "from 600 ms: a rolling restart to b, c, d: c, b, 300 ms apart" in describe(plan)


def test_votes_are_watched() -> None:
    seen, _ = judge()
    durable = ElectRecord(epoch=4, voted_for="a", leader="a")
    seen.sends("c", Acceptance(epoch=4, node="c", candidate="a"), durable)
    with pytest.raises(Violation, match="second vote"):
        seen.sends("c", Acceptance(epoch=4, node="c", candidate="b"), durable)
    with pytest.raises(Violation, match="told before it was durable"):
        seen.sends("c", Acceptance(epoch=5, node="c", candidate="b"), durable)
    with pytest.raises(Violation, match="a leader without an election"):
        seen.saved("c", ElectRecord(epoch=2, leader_epoch=2, leader="b"))
    with pytest.raises(Violation, match="an epoch without an election"):
        seen.saved("c", ElectRecord(epoch=9, leader_epoch=1, leader="a"))


def test_a_forgotten_announcement_is_seen() -> None:
    seen, _ = judge()
    message, box = Announce(epoch=3, node="a", address="a:1"), SendQueue()
    box.put(message)
    seen.announced("a", "b", message, box)
    assert len(box) == 1
    with pytest.raises(Violation, match="announcement dropped"):
        seen.announced("a", "b", message, SendQueue())


def test_a_plan_in_words() -> None:
    told = list(describe(calm(3, ElectFault(at_ms=600, kind=Kind.CRASH, target=(0, 2), for_ms=900))))
    assert told[0] == "3 nodes (a, b, c), a leads first, 0 replicas needed to write"
    assert "at 600 ms: crash the primary, b, for 900 ms" in told
    lines = ["  1.000 ms  write 1 is acknowledged, on a", "  2.000 ms  write 4 is acknowledged, on a"]
    assert condense(lines) == ["  1.000 ms  writes 1 to 4 are acknowledged, on a"]
