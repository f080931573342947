"""The links to other datacenters through the gateway, with links by hand."""

import math
from collections.abc import Sequence

import pytest

from epoxy.codec import wire
from epoxy.datacenter import follower as module
from epoxy.datacenter.follower import STALE_MS, TICK_MS, GatewayLinks
from epoxy.datacenter.messages import LinkStates, Outgoing, PeerAnswered, PeerState, Received
from epoxy.datacenter.ports import AnswerLost, NeverSent
from epoxy.model.messages import Behind, Failed, Inspect, Read, Reply, Request
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.node.timing import Links
from tests.datacenter.hands import HandLinks, the
from tests.datacenter.nodes import Owners
from tests.node.bench import HandClock

GATEWAY, ME = 2, 1
READ = Read(key=b"k", epoch=1)
FAR = PeerState(4, 40.0, 4.5, 4.25, 4.125, True, "")
GONE = PeerState(5, None, 5.5, 5.25, 5.125, False, "connection refused")


class Bench:
    def __init__(self) -> None:
        self.owners = Owners(ME)
        self.owners.owners = {SYSTEM_SHARD: GATEWAY}
        self.hands, self.clock = HandLinks(GATEWAY, 3), HandClock()
        self.links: Links = (gateway := GatewayLinks(self.owners, self.hands, self.clock))
        self.gateway_links = gateway

    def send(self, *requests: Read | Inspect) -> list[Reply]:
        answers: list[Reply] = []
        self.links.send(4, requests, answers.append)
        return answers


def test_requests_go_to_the_gateway_and_the_reply_comes_back() -> None:
    bench = Bench()
    answers = bench.send(Inspect(key=b"k"), READ)
    asked = bench.hands.take()
    assert asked.to == GATEWAY
    assert asked.question == Outgoing(4, 2, wire.encode_requests([Inspect(key=b"k"), READ]), True)
    asked.answer(PeerAnswered(wire.encode_reply(Behind(version=3))))
    assert the(answers) == Behind(version=3)


def test_the_same_request_for_several_peers_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    encoded: list[object] = []
    original = wire.encode_requests

    def encode(given: Sequence[Request]) -> bytes:
        encoded.append(given)
        return original(given)

    monkeypatch.setattr(wire, "encode_requests", encode)
    bench.send(READ)
    bench.send(READ)
    bench.send(Read(key=b"other", epoch=1))
    assert len(encoded) == 2
    assert [each.question.requests for each in bench.hands.asked] == [
        original([READ]),
        original([READ]),
        original([Read(key=b"other", epoch=1)]),
    ]


def test_news_are_told_without_a_question() -> None:
    bench = Bench()
    bench.links.send(4, (READ,), None)
    assert bench.hands.told == [(GATEWAY, Outgoing(4, 1, wire.encode_requests([READ]), False))]
    assert bench.hands.asked == []


@pytest.mark.parametrize("lost", [NeverSent("no link"), AnswerLost("gone"), Received(), PeerAnswered(b"\xff")])
def test_a_loss_inside_the_datacenter_is_a_failure(lost: object) -> None:
    bench = Bench()
    answers = bench.send(READ)
    bench.hands.take().answer(lost)
    assert isinstance(the(answers), Failed)


@pytest.mark.parametrize("owners", [{}, {SYSTEM_SHARD: ME}])
def test_without_a_gateway_nothing_is_sent(owners: dict[int, int]) -> None:
    bench = Bench()
    bench.hands.heard(LinkStates((FAR,)), GATEWAY)
    bench.owners.owners = owners
    assert isinstance(the(bench.send(READ)), Failed)
    bench.links.send(4, (READ,), None)
    assert bench.hands.asked == []
    assert bench.hands.told == []
    assert not bench.links.reachable(4)
    assert bench.links.trouble(4) == module.NO_GATEWAY


def test_what_has_no_encoding_has_failed() -> None:
    assert isinstance(the(Bench().send(Read(key=b"", epoch=1))), Failed)


def test_peers_are_as_the_gateway_says() -> None:
    bench = Bench()
    links = bench.links
    assert bench.hands.heard(LinkStates((FAR, GONE)), GATEWAY) == []
    bench.clock.advance(100)
    assert (links.rtt_ms(4), links.lag_ms(4), links.waited_ms(4)) == (40.0, 4.5, 4.25)
    assert links.silent_ms(4) == 104.125
    assert links.reachable(4)
    assert links.trouble(4) == ""
    assert links.rtt_ms(5) is None
    assert not links.reachable(5)
    assert links.trouble(5) == "connection refused"


def test_of_a_peer_that_was_never_reported_nothing_is_known() -> None:
    links = Bench().links
    assert (links.rtt_ms(9), links.lag_ms(9), links.waited_ms(9), links.silent_ms(9)) == (None, 0.0, 0.0, math.inf)
    assert not links.reachable(9)


def test_a_gateway_that_is_silent_reaches_no_peer() -> None:
    bench = Bench()
    bench.hands.heard(LinkStates((FAR,)), GATEWAY)
    bench.clock.advance(STALE_MS)
    assert bench.links.reachable(4)
    bench.clock.advance(1)
    assert not bench.links.reachable(4)
    assert bench.links.trouble(4) == module.SILENT_GATEWAY
    assert bench.links.rtt_ms(4) == 40.0, "the distance stays what it was"


def test_another_gateway_has_to_report_first() -> None:
    bench = Bench()
    bench.hands.heard(LinkStates((FAR,)), GATEWAY)
    bench.owners.owners = {SYSTEM_SHARD: 3}
    assert not bench.links.reachable(4)
    bench.hands.heard(LinkStates((FAR,)), 3)
    assert bench.links.reachable(4)


def test_one_that_is_not_the_gateway_any_more_is_not_heard() -> None:
    bench = Bench()
    bench.hands.heard(LinkStates((FAR,)), 3)
    assert bench.links.rtt_ms(4) is None
    assert not bench.links.reachable(4)


def test_the_links_tick_with_and_without_a_gateway() -> None:
    bench = Bench()
    bench.owners.owners = {}
    ticks: list[float] = []
    bench.links.ticked = lambda: ticks.append(bench.clock.now)
    bench.gateway_links.start()
    bench.clock.advance(2 * TICK_MS)
    assert ticks == [0, TICK_MS, 2 * TICK_MS]
    bench.gateway_links.stop()
    bench.clock.advance(2 * TICK_MS)
    assert len(ticks) == 3


# Planted faults.


def test_states_that_never_become_old_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALE_MS", math.inf)
    with pytest.raises(AssertionError):
        test_a_gateway_that_is_silent_reaches_no_peer()


def test_a_former_gateway_that_is_believed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GatewayLinks, "_gateway", lambda self: self._told_by or 3)
    with pytest.raises(AssertionError):
        test_one_that_is_not_the_gateway_any_more_is_not_heard()


def test_while_the_gateway_leaves_messages_wait_for_the_next_one() -> None:
    bench = Bench()
    bench.hands.heard(LinkStates((FAR,)), GATEWAY)
    before = bench.send(READ)
    assert bench.gateway_links.under_way == 1
    bench.hands.take().answer(PeerAnswered(wire.encode_reply(Behind(version=3))))
    assert (the(before), bench.gateway_links.under_way) == (Behind(version=3), 0)
    bench.gateway_links.hold()
    answers = bench.send(READ)
    bench.owners.owners = {}
    assert (answers, bench.hands.asked) == ([], [])
    assert bench.links.reachable(4), "what the last one said counts"
    bench.owners.owners = {SYSTEM_SHARD: 3}
    bench.gateway_links.release()
    asked = bench.hands.take()
    assert (asked.to, bench.gateway_links.under_way) == (3, 1)
    asked.answer(AnswerLost("the link was lost"))
    assert (the(answers), bench.gateway_links.under_way) == (Failed(reason="the link was lost"), 0)


def test_so_many_messages_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 2)
    bench = Bench()
    bench.gateway_links.hold()
    for _ in range(3):
        bench.send(READ)
    assert len(bench.hands.asked) == 1
