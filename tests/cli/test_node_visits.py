"""Asking many nodes at once: none waits for another, and none is waited for longer than the limit."""

import threading
import time
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.cli import node_visits
from epoxy.cli.node_visits import NodePlace, ParallelQuestions, ask_cluster, flaw_in, places_beside, visit, visit_places
from epoxy.client import Status
from tests.cli.visits import peers
from tests.cli.visits import visit as answered
from tests.client.fake import FakeNode, Handler, Misdeed


def test_answers_come_as_they_are_ready_and_the_rest_is_left() -> None:
    never, second = threading.Event(), threading.Event()
    questions: ParallelQuestions[str, str] = ParallelQuestions()
    questions.ask("never", lambda: str(never.wait(60)))
    questions.ask("second", lambda: "b" if second.wait(60) else "")
    questions.ask("first", lambda: "a")
    waiting = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    assert all(thread.daemon for thread in waiting), "the command ends without them"
    answers = questions.answers(time.monotonic() + 5)
    assert next(answers) == ("first", "a")
    second.set()
    assert next(answers) == ("second", "b")
    assert list(questions.answers(time.monotonic() + 0.05)) == [], "the time is over"
    never.set()
    assert [key for key, _ in questions.answers(time.monotonic() + 5)] == ["never"]
    assert list(questions.answers(time.monotonic() + 5)) == [], "none is open"


@pytest.mark.parametrize("slow_one", [0, 2], ids=["the first", "the last"])
def test_the_clock_is_read_in_the_shortest_of_several_round_trips(node: FakeNode, slow_one: int) -> None:
    """The first waits for the connection, and each may have a slow answer."""

    def answer_after(seconds: float) -> Misdeed:
        def answer(handler: Handler) -> None:
            time.sleep(seconds)
            handler.close_connection = False
            node.answer(handler, "/v2/status", {})

        return answer

    node.status["clock_s"] = time.time() + 100
    node.misdeeds.extend([answer_after(0.3 if number == slow_one else 0.0) for number in range(3)])
    seen = visit(node.url)
    assert seen.clock is not None
    assert seen.clock.within_s < 0.15
    assert abs(seen.clock.ahead_s - 100) < 5
    assert node.requests == ["GET /v2/status"] * 3
    del node.status["clock_s"]
    assert visit(node.url).clock is None


def test_a_node_that_answers_once_and_then_fails_has_answered(node: FakeNode) -> None:
    node.status["clock_s"] = time.time()

    def first(handler: Handler) -> None:
        node.answer(handler, "/v2/status", {})

    node.misdeeds.extend([first, lambda _: None, lambda _: None, lambda _: None])
    seen = visit(node.url)
    assert seen.status is not None
    assert seen.clock is not None


def test_visits_keep_the_order_of_their_places(node: FakeNode) -> None:
    gone = "http://127.0.0.1:1"
    places = [NodePlace(url=gone, datacenter="b", replica=2), NodePlace(url=node.url)]
    first, second = visit_places(places, time.monotonic() + 5)
    assert (first.url, first.status, first.reason, first.expected) == (gone, None, "connection refused", 2)
    assert second.status is not None


def test_a_place_that_cannot_be_asked_does_not_end_the_round(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOXY_TOKEN", "epx_t")
    abroad, here = visit_places([NodePlace(url="http://192.0.2.1:1"), NodePlace(url=node.url)], time.monotonic() + 5)
    assert abroad.reason.startswith("not asked: ")
    assert here.status is not None


def status_of(**change: Any) -> Status:
    found = answered(**change).status
    assert found is not None
    return found


def test_nodes_that_were_asked_under_another_address_are_not_asked_again() -> None:
    """The peers' list has the address for peers (`node.peers`), the operator named the one for clients."""
    first, second = status_of(peers=peers(url="http://h:2")), status_of(id=2, peers=peers(id=1, url="http://h:1"))
    assert list(places_beside([first])) == [NodePlace(url="http://h:2", datacenter="eu-west-1", replica=2)]
    assert list(places_beside([first, second])) == []


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({}, ""),
        ({"addresses": ["http://[::1]:7800"]}, ""),
        ({"addresses": ["http://[::1"]}, "no address of a node"),
        ({"peers": peers(url="http://a:1,gopher://b")}, "no address of a node"),
        ({"nodes": [{"session": 1, "url": "http://a:b"}]}, "no address of a node"),
    ],
)
def test_addresses_that_are_none_are_no_answer_of_a_node(change: dict[str, Any], flaw: str) -> None:
    found = flaw_in(status_of(**change))
    assert flaw in found
    assert bool(found) == bool(flaw)


def test_figures_without_measure_are_no_answer_of_a_node() -> None:
    assert flaw_in(replace(status_of(), document={"a": [{"b": 1 << 63, "c": -1.5, "d": True, "e": "x"}]})) == ""
    assert flaw_in(replace(status_of(), document={"a": [{"b": -(1 << 64)}]})) == "a figure without measure"


def test_what_one_node_does_not_tell_another_may(node: FakeNode) -> None:
    """And the reason is that of the last, if none does."""
    with FakeNode() as silent:
        silent.pages.clear()
        visits = visit_places([NodePlace(url=silent.url), NodePlace(url=node.url)], time.monotonic() + 5)
        answers = ask_cluster(visits, time.monotonic())
        assert answers.homeless is not None
        assert answers.pools is not None
        assert answers.unseen == {"grants": "about no_such_address (no_such_address)"}
        assert answers.grants is None
        silent.status["ready"] = False
        silent.requests.clear()
        visits = visit_places([NodePlace(url=silent.url), NodePlace(url=node.url)], time.monotonic() + 5)
        ask_cluster(visits, time.monotonic())
        assert "GET /v2/pools" not in silent.requests, "a node that is not ready does not know"


def test_without_a_node_nothing_is_asked() -> None:
    answers = ask_cluster(visit_places([NodePlace(url="http://127.0.0.1:1")], time.monotonic() + 5), time.monotonic())
    assert (answers.grants, answers.homeless, answers.pools, answers.unseen) == (None, None, None, {})


def test_what_is_not_told_in_time_is_unseen(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = visit_places([NodePlace(url=node.url)], time.monotonic() + 5)
    monkeypatch.setattr(node_visits, "first_to_tell", lambda *_: time.sleep(5))
    answers = ask_cluster(visits, time.monotonic() - node_visits.TOTAL_S)
    assert answers.unseen == dict.fromkeys(("grants", "homeless", "pools"), "no answer in time")
