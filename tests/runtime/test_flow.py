"""The runner of flows: rounds and their timers, pauses, re-entrancy, cancellation and the end of a flow."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from epoxy.model.errors import InvariantViolation, StoreFailed
from epoxy.model.instances import InstanceId
from epoxy.model.messages import AcceptOk, Failed, Reply
from epoxy.protocol.effects import Also, Answer, Expired, Local, News, Next, Open, Pause, Tell
from epoxy.runtime.flow import Done, FlowFailures, FlowRunner, reason_of
from tests.runtime.host import HandHost

OK = AcceptOk()
LATE = Failed(reason="late")
ONE, TWO = InstanceId(1, 1), InstanceId(2, 1)


class Watch:
    """Which flows are told of news."""

    def __init__(self) -> None:
        self.log: list[tuple[str, tuple[InstanceId, ...]]] = []
        self.tell: Callable[[], None] | None = None

    def watch(self, ids: tuple[InstanceId, ...], tell: Callable[[], None]) -> None:
        self.log.append(("watch", ids))
        self.tell = tell if ids else None

    def unwatch(self, ids: tuple[InstanceId, ...], tell: Callable[[], None]) -> None:
        assert tell is not None
        self.log.append(("unwatch", ids))


class Run:
    """A flow that yields given effects one after the other, and what it was resumed with."""

    def __init__(self, *effects: object, perform: Callable[[Any, Done], None] | None = None) -> None:
        self.results: list[object] = []
        self.finished: list[object] = []
        self.waiting: list[Done] = []
        self.watch = Watch()
        self.host = HandHost(perform or (lambda _, done: self.waiting.append(done)))
        self.runner = FlowRunner(
            self.host, "write", self._flow(effects), lambda reason: reason, self.finished.append, self.watch
        )
        self.runner.start()

    def _flow(self, effects: tuple[object, ...]) -> Generator[object, object, str]:
        for effect in effects:
            self.results.append((yield effect))
        return "done"

    def answer(self, nth: int, reply: Reply = OK) -> None:
        _, _, answered = self.host.sent[nth]
        assert answered is not None
        answered(reply)

    @property
    def told(self) -> list[tuple[int, object]]:
        return [(to, message) for to, message, _ in self.host.sent]


def asking(*to: int, timer_ms: float = 50.0) -> Open[str]:
    return Open(envelopes=dict.fromkeys(to, "asked"), timer_ms=timer_ms)


def yielding(*effects: object) -> Generator[object, object, str]:
    yield from effects
    return "done"


def test_answers_of_a_round_reach_the_flow_in_their_order() -> None:
    run = Run(asking(2, 3), Next(), Next())
    assert run.told == [(2, "asked"), (3, "asked")]
    run.answer(1)
    run.answer(0, LATE)
    assert run.results == [None, Answer(3, OK), Answer(2, LATE)]
    assert run.finished == ["done"]
    assert run.host.clock.pending == [], "the timer of the round is cancelled"


def test_answers_that_come_before_the_flow_waits_for_them_are_kept() -> None:
    run = Run(asking(2, 3), Local("op"), Next(), Next())
    run.answer(0)
    run.answer(1)
    assert run.results == [None]
    run.waiting[0]("durable")
    assert run.results == [None, "durable", Answer(2, OK), Answer(3, OK)]


def test_a_round_that_gets_no_answer_expires_once() -> None:
    run = Run(asking(2), Next(), Next())
    run.host.clock.advance(49)
    assert run.results == [None]
    run.host.clock.advance(1)
    assert run.results == [None, Expired()]
    run.host.clock.advance(1000)
    run.answer(0)
    assert run.results == [None, Expired(), Answer(2, OK)], "the round is still open"


def test_opening_a_round_drops_the_replies_and_the_timer_of_the_one_before() -> None:
    run = Run(asking(2, 3), Next(), asking(2, timer_ms=500.0), Next())
    run.answer(1)
    run.answer(0)
    run.host.clock.advance(100)
    assert run.results == [None, Answer(3, OK), None]
    run.answer(2)
    assert run.results[-1] == Answer(2, OK)


@pytest.mark.parametrize(("timer_ms", "pending"), [(None, [50.0]), (70.0, [90.0])])
def test_more_can_be_sent_within_a_round(timer_ms: float | None, pending: list[float]) -> None:
    """With a timer of its own, that counts; without one, the timer of the round goes on."""
    run = Run(asking(2), Next(), Also(envelopes={2: "again"}, timer_ms=timer_ms), Next())
    run.host.clock.advance(20)
    run.answer(0)
    assert run.host.clock.pending == pending
    run.answer(0, LATE)
    assert run.results[-1] == Answer(2, LATE), "also an answer to what was sent before"


def test_telling_opens_no_round_and_expects_no_answer() -> None:
    run = Run(asking(2), Tell(envelopes={2: "told", 3: "told"}), Next())
    assert run.told == [(2, "asked"), (2, "told"), (3, "told")]
    assert [answered is None for _, _, answered in run.host.sent] == [False, True, True]
    run.answer(0)
    assert run.finished == ["done"]


def test_a_pause_takes_its_time_and_one_with_a_key_is_the_hosts() -> None:
    run = Run(Pause(delay_ms=30.0), Pause(delay_ms=30.0, key=b"k"))
    run.host.clock.advance(29)
    assert run.results == []
    run.host.clock.advance(1)
    assert run.results == [None]
    run.host.clock.advance(1000)
    assert run.finished == []
    run.waiting[0](None)
    assert run.finished == ["done"]


def test_a_result_that_comes_at_once_does_not_re_enter_the_flow() -> None:
    run = Run(Local(1), Local(2), Local(3), perform=lambda effect, done: done(effect.op))
    assert run.results == [1, 2, 3]
    assert run.finished == ["done"]


def test_results_that_wait_reach_the_flow_in_the_order_in_which_they_came() -> None:
    """Also if a host calls `done` again, against its contract."""

    def twice(effect: Local[int], done: Done) -> None:
        done(f"{effect.op}, first")
        done(f"{effect.op}, second")

    run = Run(Local(1), Local(2), Local(3), perform=twice)
    assert run.results == ["1, first", "1, second", "2, first"]
    assert run.finished == ["done"]


def test_opening_a_round_drops_answers_of_the_one_before_that_were_not_looked_at() -> None:
    run = Run(asking(2, 3), Local("op"), asking(2), Next())
    run.answer(0)
    run.answer(1)
    run.waiting[0]("durable")
    assert run.results == [None, "durable", None]


def test_a_round_has_one_timer_also_if_it_was_started_anew() -> None:
    run = Run(asking(2), Also(envelopes={}, timer_ms=70.0), Next(), Next())
    run.host.clock.advance(1000)
    assert run.results == [None, None, Expired()]


def test_the_timer_of_a_round_runs_before_its_requests_leave() -> None:
    """An answer, and the end of the flow with it, may come while they are sent: no timer may be started then."""
    pending: list[list[float]] = []

    class Host(HandHost):
        def send(self, to: int, message: object, answered: Callable[[Reply], None] | None) -> None:
            pending.append(list(self.clock.pending))
            super().send(to, message, answered)

    FlowRunner(Host(print), "write", yielding(asking(2), Next()), str, print).start()
    assert pending == [[50.0]]


def test_news_of_what_is_watched_reach_the_flow_until_its_round_closes() -> None:
    run = Run(asking(2), Next(watching=(ONE,)), Next(watching=(ONE, TWO)), asking(2), Next())
    tell = run.watch.tell
    assert tell is not None
    tell()
    assert run.results == [None, News()]
    tell()
    assert run.results == [None, News(), News(), None]
    assert run.watch.log == [
        ("unwatch", ()),
        ("watch", (ONE,)),
        ("unwatch", (ONE,)),
        ("watch", (ONE, TWO)),
        ("unwatch", (ONE, TWO)),
        ("watch", ()),
    ]
    tell()
    assert len(run.results) == 4, "it waits for answers alone"


def test_to_wait_without_watching_ends_it() -> None:
    run = Run(asking(2), Next(watching=(ONE,)), Next())
    run.answer(0)
    assert run.watch.log[-1] == ("watch", ())


def test_a_stopped_flow_ignores_what_comes_later_and_does_not_finish() -> None:
    run = Run(asking(2), Next())
    run.runner.stop()
    run.answer(0)
    run.host.clock.advance(1000)
    assert (run.results, run.finished) == ([None], [])
    assert run.host.clock.pending == []


def test_a_flow_that_is_stopped_in_a_pause_or_an_operation_is_not_resumed() -> None:
    for effect in (Pause(delay_ms=30.0), Local("op")):
        run = Run(effect)
        run.runner.stop()
        run.host.clock.advance(1000)
        for done in run.waiting:
            done("late")
        assert (run.results, run.finished) == ([], [])


def test_a_flow_that_is_stopped_watches_nothing_and_ignores_news_under_way() -> None:
    run = Run(asking(2), Next(watching=(ONE,)))
    tell = run.watch.tell
    assert tell is not None
    run.runner.stop()
    tell()
    assert run.watch.log[-2:] == [("unwatch", (ONE,)), ("watch", ())]
    assert (run.results, run.finished) == ([None], [])


def test_a_flow_that_is_stopped_and_raises_is_reported_and_does_not_finish() -> None:
    failures, finished = FlowFailures(print), list[object]()

    def stops_and_raises(*_: object) -> None:
        runner.stop()
        raise RuntimeError("a bug")

    host = HandHost(stops_and_raises, failures)
    runner = FlowRunner(host, "write", yielding(Local(1)), str, finished.append)
    with pytest.raises(RuntimeError):
        runner.start()
    assert (finished, failures.count["write"]) == ([], 1)


def test_a_flow_that_is_stopped_while_its_effect_is_performed_goes_no_further() -> None:
    def stops(effect: Local[int], done: Done) -> None:
        if effect.op == 2:
            run.runner.stop()
        done(effect.op)

    run = Run(Next(), perform=stops)
    run.runner = FlowRunner(run.host, "write", run._flow((Local(1), Local(2), Local(3))), str, run.finished.append)
    run.runner.start()
    assert (run.results, run.finished) == ([1], [])


def test_a_flow_that_raises_ends_with_the_reason_and_its_round_is_closed() -> None:
    failures, reported, finished = FlowFailures(print), list[tuple[str, Exception]](), list[str]()
    failures.report = lambda flow, error: reported.append((flow, error))
    host, error = HandHost(lambda *_: None, failures), RuntimeError("a bug")

    def flow() -> Generator[object, object, str]:
        yield asking(2)
        yield Next()
        raise error

    FlowRunner(host, "write", flow(), lambda reason: reason, finished.append).start()
    _, _, answered = host.sent[0]
    assert answered is not None
    answered(OK)
    assert finished == ["failed at RuntimeError('a bug')"]
    assert reported == [("write", error)]
    assert failures.count["write"] == 1
    assert host.clock.pending == []
    answered(OK)
    assert len(finished) == 1


def test_a_transport_that_raises_ends_the_flow_and_answers_to_what_it_sent_are_dropped() -> None:
    class Host(HandHost):
        def send(self, to: int, message: object, answered: Callable[[Reply], None] | None) -> None:
            if to == 3:
                raise OSError("no route")
            super().send(to, message, answered)

    failures, finished = FlowFailures(print), list[str]()
    failures.report = lambda *_: None
    host = Host(print, failures)
    FlowRunner(host, "write", yielding(asking(2, 3), Next()), lambda reason: reason, finished.append).start()
    _, _, answered = host.sent[0]
    assert answered is not None
    answered(OK)
    assert finished == ["failed at OSError('no route')"]
    assert (failures.count["write"], host.clock.pending) == (1, [])


def test_a_receiver_that_raises_at_the_result_is_called_once_and_the_flow_did_not_fail() -> None:
    finished: list[object] = []

    def receives(result: object) -> None:
        finished.append(result)
        raise RuntimeError("the receiver's own")

    waiting: list[Done] = []
    host = HandHost(lambda _, done: waiting.append(done))
    FlowRunner(host, "write", yielding(Local(1)), str, receives).start()
    with pytest.raises(RuntimeError):
        waiting[0](None)
    waiting[0](None)
    assert (len(finished), host.failures.count["write"]) == (1, 0)


def test_a_receiver_that_raises_at_a_failure_does_not_hide_the_failure() -> None:
    failures, reported = FlowFailures(print), list[Exception]()
    failures.report = lambda _, error: reported.append(error)
    bug = RuntimeError("a bug")

    def fails(*_: object) -> None:
        raise bug

    def receives(_: object) -> None:
        raise ValueError("the receiver's own")

    with pytest.raises(ValueError, match="the receiver's own"):
        FlowRunner(HandHost(fails, failures), "write", yielding(Local(1)), str, receives).start()
    assert reported == [bug]


def test_a_failed_store_passes_through_and_the_flow_does_not_finish() -> None:
    def fails(*_: object) -> None:
        raise StoreFailed("fsync failed")

    finished: list[object] = []
    with pytest.raises(StoreFailed):
        FlowRunner(HandHost(fails), "write", yielding(Local(1)), str, finished.append).start()
    assert finished == []


def test_a_broken_invariant_is_told_in_its_own_words() -> None:
    assert reason_of(InvariantViolation("two decisions")) == "two decisions"
    assert reason_of(KeyError("k")) == "failed at KeyError('k')"
