"""Actors and envoys in virtual time: promises hold, a run is a function of its seed, and planted faults are seen."""

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from msgspec.structs import replace

from epoxy.model.envoy_messages import Start
from epoxy.protocol.placement.records import EnvoyPool
from epoxy_sim.placement.campaign import PlacementSetup
from epoxy_sim.placement.envoy import SimEnvoy
from epoxy_sim.placement.generate import AIMED, generate
from epoxy_sim.placement.judge import ActorJudge
from epoxy_sim.placement.plan import AskKind, PlacementPlan
from epoxy_sim.placement.process import WAKE_US, Standstill
from epoxy_sim.placement.simulation import PlacementSimulation, run
from epoxy_sim.placement.state_mutants import MUTANTS
from epoxy_sim.placement.trace_format import condense, describe
from epoxy_sim.simulation import Report, Violation

CAUGHT = {
    "rows-stay": ("never-visible", 0),
    "surplus-stays": ("ring", 4),
    "expire-unseeing": ("one-runner", 31),
    "no-fence": ("one-runner", 215),
    "no-reservation": ("one-actor", 0),
    "everybody-hosts": ("liveness", 1),
    "same-id": ("undead", 8),
    "answer-at-once": ("forgotten", 5),
    "slot-kept": ("slots", 0),
    "slot-twice": ("slots", 1),
    "moved-at-once": ("one-runner", 31),
    "failed-is-over": ("forgotten", 1),
    "lost-forgotten": ("liveness", 5),
    "nobody-waits": ("liveness", 2),
    "not-told-again": ("liveness", 10),
    "no-sweep": ("liveness", 0),
    "ping-when-quiet": ("interrupted", 2),
    "no-lost-timeout": ("liveness", 4),
    "lease-kept": ("liveness", 2),
    "wall-clock": ("liveness", 10),
    "namespaces-share": ("liveness", 2),
    "forgiven-at-start": ("back-off", 3),
    "successor-at-once": ("one-runner", 15),
    "start-beside": ("one-runner", 11),
    "goodbye-first": ("one-runner", 7),
    "any-process": ("one-runner", 1),
    "lost-is-definite": ("definite", 19),
    "failed-is-refused": ("definite", 2),
    "no-watchdog": ("one-runner", 29),
    "no-deadline": ("liveness", 39),
    "no-raise": ("one-writer", 24),
    "save-over": ("one-writer", 47),
    "reply-at-once": ("too-soon", 2),
    "not-undone": ("not-undone", 2),
    "no-kept-answers": ("doubled", 2),
    "lease-for-ever": ("lease", 6),
    "not-fenced": ("late", 19),
    "local-lease": ("one-runner", 29),
    "no-epoch": ("one-writer", 19),
    "not-re-homed": ("late", 19),
    "not-buried": ("undead", 23),
    "refused-dropped": ("drained", 61),
    "alarm-lost": ("alarm", 29),
}


@cache
def played(seed: int) -> Report[PlacementPlan]:
    """Without a fault: several tests look at the same run."""
    return run(generate(seed))


@pytest.mark.parametrize("chunk", range(4))
def test_the_promises_hold(chunk: int) -> None:
    for seed in range(6 * chunk, 6 * (chunk + 1)):
        report = played(seed)
        assert report.failure is None, f"epoxy sim placement --replay {seed}: {report.failure}"


def test_runs_have_everything_in_them() -> None:
    answers: dict[str, int] = {}
    faults: set[str] = set()
    for seed in range(40):
        report = played(seed)
        faults |= report.faults.keys()
        for word, count in report.paths.items():
            answers[word] = answers.get(word, 0) + count
    assert {"found", "exists", "missing", "unknown"} <= answers.keys()
    assert {"call-responded", "call-unavailable", "call-unknown"} <= answers.keys()
    assert {"kill-envoy", "cut-envoy", "drain-envoy", "fail-actors", "twin-envoy", "crash", "partition"} <= faults
    assert {"stop-envoy", "block-envoy", "suspend-envoy", "watchdog"} <= faults


def test_a_destroy_whose_outcome_is_unknown_may_come_late() -> None:
    """A message that was seconds on its way; the judge once held it against the engine. And one that arrived twice,
    which destroyed the next actor of the name: so relays repeat no destroy, and TCP no request."""
    assert run(generate(630)).failure is None
    assert run(generate(3673)).failure is None


def test_an_actor_that_ends_between_hello_and_welcome_is_told_of() -> None:
    """The node sleeps, the envoy says hello again, and then fences itself. It once kept that to itself."""
    assert run(generate(5466)).failure is None


def test_the_next_actor_of_a_name_waits_for_a_clean_up_that_outlasts_its_lease() -> None:
    """In the same worker, which knew them apart by their ids."""
    assert run(generate(1376)).failure is None


def test_an_actor_that_sleeps_where_slots_are_few_may_lose_its_own() -> None:
    """To one that never sleeps. The judge once wanted its requests answered all the same."""
    assert run(generate(420)).failure is None


def test_a_run_is_a_function_of_its_seed() -> None:
    assert PlacementSetup().digest(run(generate(7))) == PlacementSetup().digest(run(generate(7), tracing=True))
    assert PlacementSetup().digest(run(generate(7))) != PlacementSetup().digest(run(generate(8)))


def test_every_planted_fault_is_caught() -> None:
    assert set(CAUGHT) == set(MUTANTS)


@pytest.mark.parametrize("aimed", AIMED)
def test_the_promises_hold_in_plans_that_aim_at_a_rule(aimed: Callable[[Random, int], PlacementPlan]) -> None:
    report = run(aimed(Random("test"), 2))
    assert report.failure is None, report.failure
    assert report.operations > 0


@pytest.mark.pure("a fault is planted in the sources")
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_fault_is_caught(name: str) -> None:
    rule, seed = CAUGHT[name]
    setup = PlacementSetup(mutant=name)
    with setup.planted():
        found = setup.run(setup.plan(seed))
    assert found.failure is not None
    assert found.failure.rule == rule
    assert played(seed).failure is None


@pytest.mark.pure("a fault is planted in the sources")
def test_a_failure_is_shrunk_to_a_short_story() -> None:
    setup = PlacementSetup(mutant="successor-at-once")
    with setup.planted():
        shrunk = setup.shrink(generate(15), "one-runner")
    assert shrunk.report.failure is not None
    assert len(shrunk.report.plan.steps) <= 3
    assert shrunk.report.plan.size < generate(4).size
    told = describe(shrunk.report.plan)
    assert any("get-or-create" in line or AskKind.CREATE.value in line for line in told)
    assert condense(shrunk.report.trace or [])


def told(judge: ActorJudge, asked_us: int, told_us: int, actor: int, *, created: bool = False) -> None:
    judge.told(0, asked_us, told_us, bytes((1, actor)) + bytes(15) + b"\0\1", created=created)


def test_two_actors_of_a_name_need_a_destroy_between_them() -> None:
    judge = ActorJudge(EnvoyPool("n", "p"))
    told(judge, 0, 10, 1)
    with pytest.raises(Violation, match="one-actor"):
        told(judge, 20, 30, 2)
    judge.destroying(0, 15).told_us = 18
    told(judge, 20, 30, 2)
    with pytest.raises(Violation, match="one-actor"):
        told(judge, 40, 50, 1)


def test_what_was_destroyed_stays_so() -> None:
    judge = ActorJudge(EnvoyPool("n", "p"))
    told(judge, 0, 10, 1)
    judge.destroyed(bytes((1, 1)) + bytes(15) + b"\0\1", 20)
    with pytest.raises(Violation, match="undead"):
        told(judge, 30, 40, 1)


def test_a_destroy_that_was_never_answered_may_still_happen() -> None:
    judge = ActorJudge(EnvoyPool("n", "p"))
    judge.destroying(0, 5)
    told(judge, 10, 20, 1)
    told(judge, 30, 40, 2)


def test_one_creation_one_runner() -> None:
    judge = ActorJudge(EnvoyPool("n", "p"))
    told(judge, 0, 10, 1, created=True)
    with pytest.raises(Violation, match="one-creation"):
        told(judge, 20, 30, 1, created=True)
    first, second = envoy(0), envoy(1)
    began = start("a")
    judge.runs(began, first)
    for another in (start("a"), start("b"), start("a", generation=2)):
        with pytest.raises(Violation, match="one-runner"):
            judge.runs(another, second)
    judge.stops(began)
    judge.runs(start("a"), second)
    assert judge.runner("a") == "e1-1"


def test_a_runner_that_is_stopped_may_take_one_more_step() -> None:
    judge, first, second = ActorJudge(EnvoyPool("n", "p")), envoy(0), envoy(1)
    began = start("a")
    judge.runs(began, first)
    first.process.stand_still(Standstill.STOP, 1_000)
    judge.runs(start("a", generation=2), second)
    first.world.run_until(lambda: first.process.still is None, 1_000)
    judge.step(began, first)
    first.world.now_us += 2 * WAKE_US
    with pytest.raises(Violation, match="one-runner"):
        judge.step(began, first)


def test_code_that_blocks_its_event_loop_runs() -> None:
    judge, first, second = ActorJudge(EnvoyPool("n", "p")), envoy(0), envoy(1)
    judge.runs(start("a"), first)
    first.process.stand_still(Standstill.BLOCK, 1_000)
    with pytest.raises(Violation, match="one-runner"):
        judge.runs(start("a", generation=2), second)


def envoy(number: int) -> SimEnvoy:
    played = PlacementSimulation(replace(generate(7), envoys=(1, 1), rates=(1.0, 1.0)), tracing=False)
    return played.envoys[number]


def start(actor_id: str, generation: int = 1) -> Start:
    return Start(actor_id=actor_id, generation=generation, namespace="n", name="room", key="lobby")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_ran_is_not_denied(order: tuple[int, int]) -> None:
    judge = ActorJudge(EnvoyPool("n", "p"))
    judge.ran("1")
    judge.refused("2")
    said = (judge.ran, judge.refused)
    said[order[0]]("3")
    with pytest.raises(Violation, match="definite"):
        said[order[1]]("3")
