"""The gateway leaves: what each node does in which order, with links and a clock by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from epoxy.datacenter.gateway_handover import LONGEST_MS, LOOK_MS, PAUSE_MS, ROOM_MS, TABLE_MS, GatewayHandover
from epoxy.datacenter.messages import GatewayIsHere, GatewayLeaves, PauseRequests, Received, Unanswerable
from epoxy.datacenter.ports import AnswerLost
from epoxy.model.shards import SYSTEM_SHARD
from tests.datacenter.hands import HandLinks
from tests.datacenter.nodes import Owners
from tests.node.bench import HandClock

GATEWAY, ME, OTHER = 2, 1, 3


class Bench:
    def __init__(self, gateway: int = GATEWAY) -> None:
        self.owners = Owners(ME)
        self.owners.owners = {SYSTEM_SHARD: gateway}
        self.links, self.clock = HandLinks(GATEWAY, OTHER), HandClock()
        self.happened: list[str] = []
        self.busy = False
        self.handover = GatewayHandover(self.owners, self.links, self, self.clock)
        self.handover.is_busy = lambda: self.busy
        self.handover.rested = lambda: self.happened.append("rested")
        self.handover.resumed = lambda: self.happened.append("resumed")

    def pause(self) -> None:
        self.happened.append("paused")

    def resume(self) -> None:
        self.happened.append("served again")

    def becomes_gateway(self, session: int) -> None:
        self.owners.owners = {SYSTEM_SHARD: session}


# The gateway that leaves.


def test_the_gateway_waits_for_all_nodes_and_for_its_heir() -> None:
    bench, told = Bench(ME), list[bool]()
    bench.handover.announce(OTHER, told.append)
    assert {(each.to, each.question) for each in bench.links.asked} == {
        (GATEWAY, GatewayLeaves(OTHER)),
        (OTHER, GatewayLeaves(OTHER)),
    }
    first, second = bench.links.take_all()
    first.answer(Received())
    assert told == []
    second.answer(Received())
    assert told == [True]


@pytest.mark.parametrize("answer", [AnswerLost("gone"), Unanswerable("a release without it"), None])
def test_an_heir_that_is_not_prepared_is_none(answer: Any) -> None:
    bench, told = Bench(ME), list[bool]()
    bench.handover.announce(OTHER, told.append)
    for asked in bench.links.take_all():
        if asked.to != OTHER:
            asked.answer(Received())
        elif answer is not None:
            asked.answer(answer)
    bench.clock.advance(ROOM_MS)
    assert told == [False]


def test_a_gateway_that_is_alone_waits_for_nothing() -> None:
    bench, told = Bench(ME), list[bool]()
    bench.links.sessions = set()
    bench.handover.announce(0, told.append)
    bench.handover.pause_others(lambda: told.append(True))
    assert told == [False, True]


def test_the_gateway_ends_when_nothing_is_under_way_elsewhere_or_after_a_while() -> None:
    bench, told = Bench(ME), list[str]()
    bench.handover.pause_others(lambda: told.append("rested"))
    first, second = bench.links.take_all()
    assert first.question == second.question == PauseRequests()
    first.answer(Received())
    assert told == []
    second.answer(Received())
    assert told == ["rested"]
    bench.handover.pause_others(lambda: told.append("late"))
    bench.clock.advance(PAUSE_MS + LOOK_MS)
    assert told == ["rested", "late"]


def test_the_gateway_answers_what_it_was_asked_before_it_ends() -> None:
    bench, told = Bench(ME), list[str]()
    bench.owners.owned = {SYSTEM_SHARD}
    is_asked = True
    bench.handover.is_asked = lambda: is_asked
    bench.handover.let_go(lambda: told.append("ends"))
    assert bench.owners.owned == {SYSTEM_SHARD}, "it serves the others until they rest"
    for asked in bench.links.take_all():
        asked.answer(Received())
    assert bench.owners.owned == set()
    bench.clock.advance(5 * LOOK_MS)
    assert told == []
    is_asked = False
    bench.clock.advance(LOOK_MS)
    assert told == ["ends"]


# The others.


def test_the_heir_answers_when_it_has_made_room() -> None:
    bench, made = Bench(), list[Callable[[], None]]()
    bench.handover.make_room = made.append
    answers = bench.links.heard(GatewayLeaves(ME), GATEWAY)
    assert answers == []
    assert bench.handover.is_leaving
    assert bench.handover.is_heir
    made[0]()
    assert answers == [Received()]


def test_a_node_that_is_not_the_heir_answers_at_once() -> None:
    bench = Bench()
    assert bench.links.heard(GatewayLeaves(OTHER), GATEWAY) == [Received()]
    assert bench.handover.is_leaving
    assert not bench.handover.is_heir


def test_requests_wait_and_what_is_under_way_ends_before_the_gateway_does() -> None:
    bench = Bench()
    bench.busy = True
    answers = bench.links.heard(PauseRequests(), GATEWAY)
    bench.clock.advance(5 * LOOK_MS)
    assert (answers, bench.happened) == ([], ["paused"])
    bench.busy = False
    bench.clock.advance(LOOK_MS)
    assert (answers, bench.happened) == ([Received()], ["paused", "rested"])


def test_what_does_not_end_is_not_waited_for() -> None:
    bench = Bench()
    bench.busy = True
    answers = bench.links.heard(PauseRequests(), GATEWAY)
    bench.clock.advance(PAUSE_MS + LOOK_MS)
    assert answers == [Received()]


@pytest.mark.parametrize("word_first", [True, False])
def test_a_node_goes_on_when_the_next_gateway_is_there_and_the_table_says_so(word_first: bool) -> None:
    bench = Bench()
    bench.links.heard(GatewayLeaves(OTHER), GATEWAY)
    bench.links.heard(PauseRequests(), GATEWAY)
    looks = bench.owners.looks
    bench.clock.advance(4 * TABLE_MS)
    assert bench.owners.looks == looks + 4, "requests wait for it"
    if word_first:
        bench.links.heard(GatewayIsHere(), OTHER)
        assert "resumed" not in bench.happened
        bench.becomes_gateway(OTHER)
        bench.clock.advance(TABLE_MS)
    else:
        bench.becomes_gateway(OTHER)
        bench.clock.advance(4 * TABLE_MS)
        assert "resumed" not in bench.happened, "it does not vote yet"
        bench.links.heard(GatewayIsHere(), OTHER)
    assert bench.happened == ["paused", "rested", "resumed", "served again"]
    assert not bench.handover.is_leaving
    assert bench.clock.pending == []


def test_a_node_goes_on_by_itself_without_a_word() -> None:
    bench = Bench()
    bench.links.heard(GatewayLeaves(OTHER), GATEWAY)
    bench.clock.advance(LONGEST_MS / 2)
    bench.links.heard(PauseRequests(), GATEWAY)
    bench.clock.advance(LONGEST_MS - 1)
    assert bench.happened == ["paused", "rested"]
    bench.clock.advance(1)
    assert bench.happened == ["paused", "rested", "resumed", "served again"]
    assert bench.clock.pending == []


def test_a_node_that_goes_on_before_it_has_rested_does_not_rest_any_more() -> None:
    bench = Bench()
    bench.busy = True
    answers = bench.links.heard(PauseRequests(), GATEWAY)
    bench.becomes_gateway(OTHER)
    bench.links.heard(GatewayIsHere(), OTHER)
    bench.clock.advance(LOOK_MS)
    assert answers == [Received()]
    assert bench.happened == ["paused", "resumed", "served again"]


def test_the_next_gateway_serves_and_tells_the_others() -> None:
    bench = Bench()
    bench.links.heard(GatewayLeaves(ME), GATEWAY)
    bench.links.heard(PauseRequests(), GATEWAY)
    bench.becomes_gateway(ME)
    bench.handover.take_up()
    assert bench.happened == ["paused", "rested", "resumed", "served again"]
    assert set(bench.links.told) == {(GATEWAY, GatewayIsHere()), (OTHER, GatewayIsHere())}


def test_one_that_is_not_the_gateway_any_more_stops_nothing() -> None:
    bench = Bench(OTHER)
    assert bench.links.heard(GatewayLeaves(ME), GATEWAY) == [Received()]
    assert bench.links.heard(PauseRequests(), GATEWAY) == [Received()]
    assert not bench.handover.is_leaving
    assert bench.happened == []


def test_a_stopped_one_leaves_no_timer() -> None:
    bench = Bench()
    bench.links.heard(PauseRequests(), GATEWAY)
    bench.handover.stop()
    assert bench.clock.pending == []
