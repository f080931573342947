"""Actors and envoys in virtual time: promises hold, a run is a function of its seed, and planted faults are seen."""

import pytest

from epoxy.model.actors import Start
from epoxy.protocol.placement.records import EnvoyPool
from epoxy_sim.placement.campaign import PlacementSetup
from epoxy_sim.placement.generate import generate
from epoxy_sim.placement.judge import ActorJudge
from epoxy_sim.placement.mutants import MUTANTS
from epoxy_sim.placement.plan import AskKind
from epoxy_sim.placement.simulation import run
from epoxy_sim.placement.trace_format import condense, describe
from epoxy_sim.simulation import Violation

CAUGHT = {
    "rows-stay": ("never-visible", 0),
    "surplus-stays": ("ring", 3),
    "expire-unseeing": ("one-runner", 293),
    "no-fence": ("one-runner", 218),
    "no-reservation": ("one-owner", 0),
    "everybody-hosts": ("one-creation", 0),
    "same-id": ("one-creation", 6),
    "answer-at-once": ("one-creation", 116),
    "slot-kept": ("slots", 0),
    "slot-twice": ("slots", 1),
    "moved-at-once": ("one-runner", 108),
    "failed-is-over": ("one-actor", 4),
    "lost-forgotten": ("liveness", 4),
    "nobody-waits": ("liveness", 4),
    "not-told-again": ("liveness", 14),
    "no-sweep": ("liveness", 0),
    "ping-when-quiet": ("interrupted", 0),
    "no-lost-timeout": ("liveness", 5),
    "lease-kept": ("liveness", 74),
    "wall-clock": ("liveness", 36),
    "namespaces-share": ("liveness", 4),
    "forgiven-at-start": ("back-off", 0),
    "successor-at-once": ("one-runner", 35),
    "start-beside": ("one-runner", 632),
    "goodbye-first": ("one-runner", 322),
    "any-process": ("one-runner", 5),
    "lost-is-definite": ("definite", 408),
    "failed-is-refused": ("definite", 0),
}


@pytest.mark.parametrize("chunk", range(4))
def test_the_promises_hold(chunk: int) -> None:
    for seed in range(6 * chunk, 6 * (chunk + 1)):
        report = run(generate(seed))
        assert report.failure is None, f"epoxy sim placement --replay {seed}: {report.failure}"


def test_runs_have_everything_in_them() -> None:
    answers: dict[str, int] = {}
    faults: set[str] = set()
    for seed in range(40):
        report = run(generate(seed))
        faults |= report.faults.keys()
        for word, count in report.paths.items():
            answers[word] = answers.get(word, 0) + count
    assert {"found", "exists", "missing", "unknown"} <= answers.keys()
    assert {"call-responded", "call-unavailable", "call-unknown"} <= answers.keys()
    assert {"kill-envoy", "cut-envoy", "drain-envoy", "fail-actors", "twin-envoy", "crash", "partition"} <= faults


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


def test_a_run_is_a_function_of_its_seed() -> None:
    assert PlacementSetup().digest(run(generate(7))) == PlacementSetup().digest(run(generate(7), tracing=True))
    assert PlacementSetup().digest(run(generate(7))) != PlacementSetup().digest(run(generate(8)))


def test_every_planted_fault_has_its_story() -> None:
    assert set(CAUGHT) == set(MUTANTS)


@pytest.mark.pure("a fault is planted in the sources")
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_fault_is_caught(name: str) -> None:
    rule, seed = CAUGHT[name]
    played = PlacementSetup(mutant=name)
    with played.planted():
        found = played.run(played.plan(seed))
    assert found.failure is not None
    assert found.failure.rule == rule
    assert run(generate(seed)).failure is None


@pytest.mark.pure("a fault is planted in the sources")
def test_a_failure_is_shrunk_to_a_short_story() -> None:
    setup = PlacementSetup(mutant="moved-at-once")
    with setup.planted():
        shrunk = setup.shrink(generate(108), "one-runner")
    assert shrunk.report.failure is not None
    assert len(shrunk.report.plan.steps) == 1
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


def test_a_destroy_that_was_never_answered_may_still_happen() -> None:
    judge = ActorJudge(EnvoyPool("n", "p"))
    judge.destroying(0, 5)
    told(judge, 10, 20, 1)
    told(judge, 30, 40, 2)


def test_one_owner_one_creation_one_runner() -> None:
    judge = ActorJudge(EnvoyPool("n", "p"))
    told(judge, 0, 10, 1, created=True)
    with pytest.raises(Violation, match="one-creation"):
        told(judge, 20, 30, 1, created=True)
    with pytest.raises(Violation, match="one-owner"):
        judge.told(0, 40, 50, bytes(17) + b"\0\2", created=False)
    judge.runs(start("a"), "e1#1")
    for another in (start("a"), start("b"), start("a", generation=2)):
        with pytest.raises(Violation, match="one-runner"):
            judge.runs(another, "e2#2")
    judge.stops(start("a"))
    judge.runs(start("a"), "e2#3")
    assert judge.runner("a") == "e2"


def start(actor_id: str, generation: int = 1) -> Start:
    return Start(actor_id=actor_id, generation=generation, namespace="n", name="room", key="lobby")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_ran_is_not_denied(order: tuple[int, int]) -> None:
    judge = ActorJudge(EnvoyPool("n", "p"))
    judge.ran(b"1")
    judge.refused(b"2")
    said = (judge.ran, judge.refused)
    said[order[0]](b"3")
    with pytest.raises(Violation, match="definite"):
        said[order[1]](b"3")
