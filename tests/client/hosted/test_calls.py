"""Calls of an actor to others: their answers, and what is raised without one."""

import pytest

from epoxy.client.hosted.calls import CallsUnderWay
from epoxy.client.hosted.requests import Response
from epoxy.model.envoy_messages import AskAnswer
from epoxy.model.errors import ConnectionLost, EpoxyError, Forbidden, OutcomeUnknown, Timeout, Unavailable
from tests.client.hosted.bench import Link


class Bench:
    def __init__(self) -> None:
        self.link = Link()
        self.heard: list[Response | EpoxyError] = []
        self.calls = CallsUnderWay(self.link)
        self.number = self.link.new_call()
        self.calls.begin(self.number, 2.0, self.heard.append)


@pytest.mark.parametrize(
    ("answer", "error", "definite"),
    [
        (AskAnswer(call=1, error="not_running", body=b"why", definite=True), Unavailable, True),
        (AskAnswer(call=1, error="forbidden", body=b"why", definite=True), Forbidden, True),
        (AskAnswer(call=1, error="actor_failed", body=b"why"), OutcomeUnknown, False),
    ],
)
def test_an_error_says_whether_anything_was_done(answer: AskAnswer, error: type, definite: bool) -> None:
    bench = Bench()
    bench.calls.heard(answer)
    (heard,) = bench.heard
    assert type(heard) is error
    assert isinstance(heard, EpoxyError)
    assert (heard.definite, str(heard)) == (definite, f"why ({answer.error})")
    assert (len(bench.calls), bench.link.calls) == (0, set())


def test_an_answer_comes_once() -> None:
    bench = Bench()
    bench.calls.heard(AskAnswer(call=1, status=404, headers=(("a", "b"),), body=b"no"))
    bench.calls.heard(AskAnswer(call=1))
    bench.link.clock.advance(2_000)
    (heard,) = bench.heard
    assert isinstance(heard, Response)
    assert (heard.status, heard.body, heard.headers["A"]) == (404, b"no", "b")


def test_without_an_answer_the_outcome_is_not_known() -> None:
    bench = Bench()
    bench.link.clock.advance(1_999)
    assert bench.heard == []
    bench.link.clock.advance(1)
    assert type(bench.heard[0]) is Timeout
    assert str(bench.heard[0]) == "no answer within 2 s"
    lost = Bench()
    lost.calls.lose()
    assert [type(each) for each in lost.heard] == [ConnectionLost]
    left = Bench()
    left.calls.cancel(left.number)
    left.calls.heard(AskAnswer(call=1))
    assert (left.heard, left.link.calls) == ([], set())
