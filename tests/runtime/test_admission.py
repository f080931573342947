"""How many are let in: as many as get done in the time that one may be kept waiting."""

from epoxy.model.writes import Path
from epoxy.node.keys.latency import RoundLatency
from epoxy.node.observer import Unobserved
from epoxy.runtime.admission import BURST, GRAIN_MS, QUEUE_S, Admission, Caller
from tests.node.bench import HandClock


def busy(pending: Admission[str], rate: int, seconds: int = 1) -> None:
    """So many begin and end in each second."""
    for _ in range(seconds):
        for _ in range(rate):
            pending.begin(lambda _: None)("done")
        pending.adapt(1.0)


def test_a_burst_is_let_in_whatever_was_before() -> None:
    pending = Admission(HandClock(), 10_000, 1000, "late")
    assert pending.limit == BURST
    busy(pending, 0, seconds=10)
    assert pending.limit == BURST


def test_the_limit_follows_what_gets_done_up_and_down() -> None:
    pending = Admission(HandClock(), 10_000, 1000, "late")
    busy(pending, 8000, seconds=10)
    assert 0.99 * 8000 * QUEUE_S < pending.limit <= 8000 * QUEUE_S
    busy(pending, 2000, seconds=10)
    assert 2000 * QUEUE_S <= pending.limit < 1.01 * 2000 * QUEUE_S + 10
    busy(pending, 0, seconds=10)
    assert pending.limit == BURST


def test_never_above_what_was_configured() -> None:
    pending = Admission(HandClock(), 1000, 1000, "late")
    busy(pending, 8000, seconds=10)
    assert pending.limit == 1000
    assert Admission(HandClock(), 3, 1000, "late").limit == 3


def test_those_whose_clients_have_gone_count_until_they_end() -> None:
    clock, told = HandClock(), list[str]()
    pending = Admission(clock, 10, 1000, "late")
    ticket = pending.begin(told.append)
    clock.advance(1000)
    assert (told, pending.count) == (["late"], 1)
    ticket("done")
    assert (told, pending.count) == (["late"], 0)


class Ear(Unobserved):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        self.heard.append((outcome, path, seconds, prepares, retries, bumps))


def test_the_pace_is_that_of_fast_rounds_since_the_last_look() -> None:
    pace = RoundLatency()
    assert pace.mean_ms() == 0
    pace.proposal_done("Committed", Path.FAST, 0.010)
    pace.proposal_done("Committed", Path.FAST, 0.030)
    pace.proposal_done("Committed", Path.SLOW, 9.0)
    pace.proposal_done("ConsensusFailed", None, 9.0)
    assert pace.mean_ms() == 20
    assert pace.mean_ms() == 0


def test_everything_heard_is_passed_on() -> None:
    pace, ear = RoundLatency(), Ear()
    pace.then = ear
    pace.proposal_done("Committed", Path.FAST, 0.1, prepares=1, retries=2, bumps=3)
    assert ear.heard == [("Committed", Path.FAST, 0.1, 1, 2, 3)]


def test_each_client_has_its_own_time_limit_and_never_more_than_the_operation() -> None:
    clock, told = HandClock(), list[str]()
    pending = Admission(clock, 10, 1000, "late")
    for name, caller in (("slow", None), ("long", Caller(5000)), ("short", Caller(400)), ("also", Caller(400))):
        pending.begin(lambda _, name=name: told.append(f"{name} {clock.now:.0f}"), caller)  # type: ignore[misc]
    clock.advance(399)
    assert told == []
    clock.advance(1)
    assert told == ["short 400", "also 400"]
    clock.advance(600 + GRAIN_MS)
    assert told[2:] == ["slow 1000", "long 1000"]


def test_what_waits_is_withdrawn_when_its_client_leaves_and_nothing_else() -> None:
    clock, withdrawn = HandClock(), list[str]()
    pending = Admission(clock, 10, 1000, "late", "unbegun")
    leaving, staying = Caller(), Caller()
    waits, runs, began, other = (pending.begin(lambda _: None, who) for who in (leaving, leaving, leaving, staying))
    for name, ticket in (("waits", waits), ("began", began), ("other", other)):
        ticket.wait(lambda name=name: withdrawn.append(name))  # type: ignore[misc]
    assert began.begin()
    leaving.leave()
    assert (withdrawn, pending.abandoned, runs.begun) == (["waits"], 1, True)
    for ticket in (waits, runs, began, other):
        ticket("done")
    leaving.leave()
    staying.leave()
    assert (withdrawn, pending.count) == (["waits"], 0), "what has ended is not withdrawn"


def test_what_waits_at_its_time_limit_is_withdrawn() -> None:
    clock, told, withdrawn = HandClock(), list[str](), list[str]()
    pending = Admission(clock, 10, 1000, "late", "unbegun")
    pending.begin(told.append).wait(lambda: withdrawn.append("it"))
    clock.advance(1000)
    assert (told, withdrawn, pending.abandoned) == (["unbegun"], ["it"], 0)
