"""The gateway between peers and the owners of keys, with links by hand."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from epoxy.codec import wire
from epoxy.datacenter import gateway as module
from epoxy.datacenter.gateway import AGAIN_MS, LEARN_AT_ONCE, LEARN_BYTES, PART_MS, TICK_MS, Gateway, how_many
from epoxy.datacenter.messages import LinkStates, Outgoing, PeerAnswered, PeerState, Received
from epoxy.datacenter.ports import AnswerLost, NeverSent
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.messages import (
    AcceptOk,
    Behind,
    Commit,
    CommitOk,
    Failed,
    Inspect,
    Read,
    Reply,
    StaleCommit,
    UpdateConfig,
)
from epoxy.model.records import ChangelogEntry, Proposal, ProposalId
from epoxy.model.shards import SYSTEM_SHARD
from tests.datacenter.hands import HandLinks, collect, keys_of, the
from tests.datacenter.nodes import Owners, Served
from tests.node.bench import HandClock

ME, REPLICA = 1, 3
MINE, SECOND, THIRD = 10, 20, 30
"""Shards of this node and of two others."""


def config(epoch: int = 1) -> ClusterConfig:
    members = [ReplicaInfo(id=id_, status=ReplicaStatus.ACTIVE, url="http://a") for id_ in (3, 4, 5)]
    return ClusterConfig(epoch=epoch, coordinator_id=3, replicas=tuple(members))


class HandPeers:
    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes, int, Callable[[Reply], None] | None]] = []

    def send_encoded(self, to: int, requests: bytes, count: int, answered: Callable[[Reply], None] | None) -> None:
        self.sent.append((to, requests, count, answered))

    def rtt_ms(self, peer: int) -> float | None:
        return 10.0 * peer if peer == 4 else None

    def lag_ms(self, peer: int) -> float:
        return peer + 0.5

    def waited_ms(self, peer: int) -> float:
        return peer + 0.25

    def silent_ms(self, peer: int) -> float:
        return peer + 0.125

    def reachable(self, peer: int) -> bool:
        return peer == 4

    def trouble(self, peer: int) -> str:
        return "" if peer == 4 else "connection refused"


class Bench:
    def __init__(self) -> None:
        self.owners = Owners(ME, [SYSTEM_SHARD, MINE])
        self.owners.owners = {SYSTEM_SHARD: ME, MINE: ME, SECOND: 2, THIRD: 3}
        self.links, self.served, self.clock, self.peers = HandLinks(2, 3), Served(), HandClock(), HandPeers()
        self.config = config()
        self.may_vote = True
        self.gateway = Gateway(
            *(self.owners, self.links, self.served, self.peers, self.clock),
            me=REPLICA,
            config=lambda: self.config,
            when_durable=lambda then: then(),
            may_vote=lambda: self.may_vote,
        )

    def dispatch(self, *requests: Any) -> list[Sequence[Reply]]:
        return collect(self.gateway.dispatch, requests)


def a_read(shard: int, number: int = 0) -> Read:
    return Read(key=keys_of(shard, number + 1)[number], epoch=1)


def version(number: int) -> Behind:
    """A reply that is not mistaken for another."""
    return Behind(version=number)


def test_what_is_owned_here_stays_here_in_one_piece() -> None:
    bench = Bench()
    requests = (a_read(MINE), Read(key=CONFIG_KEY, epoch=1), UpdateConfig(config=config()))
    assert the(bench.dispatch(*requests)) == [AcceptOk()] * 3
    assert bench.served.asked == [requests]
    assert bench.links.asked == []
    assert the(bench.dispatch()) == []


def test_a_batch_is_split_by_owners_and_joined_in_its_order() -> None:
    bench = Bench()
    requests = (a_read(THIRD), a_read(MINE), a_read(SECOND), a_read(THIRD, 1), Inspect(key=keys_of(SECOND)[0]))
    bench.served.reply = lambda _: version(1)
    answers = bench.dispatch(*requests)
    third, second = sorted(bench.links.asked, key=lambda asked: -asked.to)
    assert (third.to, third.requests) == (3, (requests[0], requests[3]))
    assert (second.to, second.requests) == (2, (requests[2], requests[4]))
    assert bench.served.asked == [[requests[1]]]
    second.reply(version(2), version(4))
    assert not answers
    third.reply(version(0), version(3))
    assert the(answers) == [version(0), version(1), version(2), version(3), version(4)]


@pytest.mark.parametrize("lost", [NeverSent("no link"), AnswerLost("gone"), Received()])
def test_a_lost_part_fails_and_the_others_do_not(lost: Any) -> None:
    bench = Bench()
    answers = bench.dispatch(a_read(SECOND), a_read(MINE), a_read(THIRD))
    second, third = bench.links.asked
    second.answer(lost)
    third.reply(version(3))
    assert len(the(answers)) == 3
    failed, here, there = the(answers)
    assert isinstance(failed, Failed)
    assert (here, there) == (AcceptOk(), version(3))


def test_a_shard_without_an_owner_fails_at_once() -> None:
    bench = Bench()
    bench.owners.owners = {MINE: ME, SECOND: ME}
    answers = bench.dispatch(a_read(SECOND), a_read(THIRD), a_read(MINE))
    assert [type(reply) for reply in the(answers)] == [Failed, Failed, AcceptOk]


def test_an_owner_that_stands_still_holds_up_the_others_for_a_limited_time() -> None:
    bench = Bench()
    bench.gateway.start()
    answers = bench.dispatch(a_read(SECOND), a_read(THIRD))
    second, third = bench.links.asked[-2:]
    third.reply(version(3))
    bench.clock.advance(PART_MS - TICK_MS)
    assert not answers
    bench.clock.advance(2 * TICK_MS)
    failed, there = the(answers)
    assert isinstance(failed, Failed)
    assert there == version(3)
    second.reply(version(2))
    assert len(answers) == 1, "what comes late is dropped"
    bench.gateway.stop()


def test_replies_that_did_not_fit_are_asked_for_again_by_the_peer() -> None:
    bench = Bench()
    answers = bench.dispatch(a_read(SECOND), a_read(THIRD), a_read(SECOND, 1), a_read(THIRD, 1))
    second, third = bench.links.asked
    second.reply(version(0))
    third.reply(version(1), version(3))
    assert the(answers) == [version(0), version(1)]


def test_requests_behind_a_configuration_wait_until_it_is_durable_here() -> None:
    bench = Bench()
    newer = UpdateConfig(config=config(2))
    bench.served.holds_back = lambda requests: newer in requests
    answers = bench.dispatch(a_read(SECOND), newer, a_read(SECOND, 1), a_read(MINE))
    bench.links.take().reply(version(0))
    assert bench.links.asked == []
    bench.served.reply = lambda _: version(3)
    bench.config = config(2)
    bench.served.let_go()
    assert bench.links.asked
    told, *others = bench.links.asked
    assert told.requests == (newer,)
    rest = next(asked for asked in others if asked.requests != (newer,))
    assert (rest.to, rest.requests) == (2, (a_read(SECOND, 1),))
    assert {asked.to for asked in bench.links.asked if asked.requests == (newer,)} == {2, 3}
    assert bench.links.asked.index(told) < bench.links.asked.index(rest)
    rest.reply(version(2))
    assert the(answers) == [version(0), AcceptOk(), version(2), version(3)]


# What other nodes send.


def test_requests_for_peers_are_sent_as_they_are() -> None:
    bench = Bench()
    body = wire.encode_requests([a_read(SECOND)])
    answers = bench.links.heard(Outgoing(4, 1, body, True))
    to, requests, count, answered = bench.peers.sent.pop()
    assert (to, requests, count) == (4, body, 1)
    assert answered is not None
    answered(version(7))
    assert the(answers) == PeerAnswered(wire.encode_reply(version(7)))


def test_news_for_peers_wait_for_no_reply() -> None:
    bench = Bench()
    assert bench.links.heard(Outgoing(4, 1, b"", False)) == []
    assert bench.peers.sent == [(4, b"", 1, None)]


def test_nothing_leaves_before_the_datacenter_may_vote() -> None:
    bench = Bench()
    bench.may_vote = False
    answered = the(bench.links.heard(Outgoing(4, 1, b"", True)))
    assert isinstance(wire.decode_reply(answered.reply), Failed)
    assert bench.links.heard(Outgoing(4, 1, b"", False)) == []
    assert bench.peers.sent == []


def test_a_reply_without_an_encoding_has_failed() -> None:
    bench = Bench()
    answers = bench.links.heard(Outgoing(4, 1, b"", True))
    answered = bench.peers.sent.pop()[3]
    assert answered is not None
    answered(Behind(version=1 << 70))
    assert isinstance(wire.decode_reply(the(answers).reply), Failed)


def test_the_links_are_reported_to_all_nodes() -> None:
    bench = Bench()
    bench.gateway.start()
    far = PeerState(4, 40.0, 4.5, 4.25, 4.125, True, "")
    gone = PeerState(5, None, 5.5, 5.25, 5.125, False, "connection refused")
    assert bench.links.told == [(session, LinkStates((far, gone))) for session in (2, 3)]
    bench.clock.advance(TICK_MS)
    assert len(bench.links.told) == 4
    bench.gateway.stop()
    bench.clock.advance(10 * TICK_MS)
    assert len(bench.links.told) == 4


# What a copy brought.


def entry(shard: int, number: int = 0, size: int = 1) -> ChangelogEntry:
    found = Proposal(value=b"v" * size, version=1, mutable=True, proposal_id=ProposalId(4, number))
    return ChangelogEntry(key=keys_of(shard, number + 1)[number], committed=found)


def test_what_a_copy_brought_is_learned_by_the_owners() -> None:
    bench = Bench()
    entries = [entry(SECOND), entry(THIRD), entry(SECOND, 1), entry(MINE)]
    bench.served.reply = lambda _: StaleCommit(version=5)
    done = collect(bench.gateway.learn_elsewhere, entries)
    second, third = bench.links.asked
    assert [request.key for request in second.requests if isinstance(request, Commit)] == [
        entries[0].key,
        entries[2].key,
    ]
    second.reply(CommitOk(), StaleCommit(version=3))
    assert not done
    third.reply(CommitOk())
    assert the(done) == 2


def test_what_could_not_be_learned_is_sent_again_until_it_is() -> None:
    bench = Bench()
    done = collect(bench.gateway.learn_elsewhere, [entry(SECOND), entry(SECOND, 1), entry(THIRD)])
    second, third = bench.links.asked
    second.reply(CommitOk())
    third.answer(AnswerLost("gone"))
    bench.links.asked.clear()
    bench.clock.advance(AGAIN_MS)
    again, other = bench.links.asked
    assert [request.key for request in again.requests if isinstance(request, Commit)] == [entry(SECOND, 1).key]
    again.reply(CommitOk())
    other.reply(CommitOk())
    assert the(done) == 3


def test_a_gateway_that_stops_learns_nothing_more() -> None:
    bench = Bench()
    done = collect(bench.gateway.learn_elsewhere, [entry(SECOND)])
    bench.links.take().answer(NeverSent("no link"))
    bench.gateway.stop()
    bench.clock.advance(10 * AGAIN_MS)
    assert bench.links.asked == []
    assert not done


def test_learning_is_done_in_batches() -> None:
    assert how_many([entry(SECOND)] * (LEARN_AT_ONCE + 5)) == LEARN_AT_ONCE
    assert how_many([entry(SECOND, size=LEARN_BYTES)] * 3) == 1
    assert how_many([entry(SECOND, size=LEARN_BYTES // 2 - 100)] * 3) == 2
    bench = Bench()
    many = [entry(SECOND, size=LEARN_BYTES)] * 3
    done = collect(bench.gateway.learn_elsewhere, many)
    for _ in many:
        asked = bench.links.take()
        assert len(asked.requests) == 1
        asked.reply(CommitOk())
    assert the(done) == 3


# Planted faults.


def replies_in_the_order_of_the_owners(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def add(self: module.JoinedReplies, _: Sequence[int], replies: Sequence[Reply]) -> None:
        self._replies = [*[reply for reply in self._replies if reply is not None], *replies]
        self._open -= 1
        if not self._open:
            self._finish()

    monkeypatch.setattr(module.JoinedReplies, "add", add)
    return test_a_batch_is_split_by_owners_and_joined_in_its_order


def a_lost_part_is_left_out(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module.JoinedReplies, "fail", lambda self, places, _: self.add(places, []))
    return lambda: test_a_lost_part_fails_and_the_others_do_not(AnswerLost("gone"))


def one_owner_holds_up_all(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module.JoinedReplies, "expire", lambda _: None)
    return test_an_owner_that_stands_still_holds_up_the_others_for_a_limited_time


def a_late_part_answers_again(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module.JoinedReplies, "done", property(lambda _: False, lambda *_: None), raising=False)
    return test_an_owner_that_stands_still_holds_up_the_others_for_a_limited_time


def requests_overtake_a_configuration(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(Gateway, "dispatch", Gateway._split)
    return test_requests_behind_a_configuration_wait_until_it_is_durable_here


def votes_leave_too_early(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    original = Gateway.__init__

    def always(self: Gateway, *given: Any, **named: Any) -> None:
        original(self, *given, **{**named, "may_vote": lambda: True})

    monkeypatch.setattr(Gateway, "__init__", always)
    return test_nothing_leaves_before_the_datacenter_may_vote


def failures_count_as_learned(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module, "Failed", CommitOk)
    return test_what_could_not_be_learned_is_sent_again_until_it_is


FAULTS = [
    replies_in_the_order_of_the_owners,
    a_lost_part_is_left_out,
    one_owner_holds_up_all,
    a_late_part_answers_again,
    requests_overtake_a_configuration,
    votes_leave_too_early,
    failures_count_as_learned,
]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_caught(
    plant: Callable[[pytest.MonkeyPatch], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = plant(monkeypatch)
    with pytest.raises((AssertionError, IndexError, TypeError)):
        check()
