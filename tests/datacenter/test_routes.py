"""The way of a request to the owner of its key, with links by hand and a clock by hand."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.datacenter import answer_kinds
from epoxy.datacenter import routes as module
from epoxy.datacenter.messages import (
    ComeToRest,
    ForwardedReplies,
    ForwardedRequests,
    GoOn,
    NotOwner,
    OrderedReadAsk,
    OrderedWriteAsk,
    ReadAsk,
    Received,
    SessionOver,
    Unanswerable,
)
from epoxy.datacenter.ports import AnswerLost, NeverSent
from epoxy.datacenter.routes import AGAIN_MS, LONGEST_REST_MS, LOOK_MS, MAX_WAITING, PATIENCE_MS, Routes
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.frames import PeerRequest
from epoxy.model.messages import AcceptOk, ConfigOk, Failed, Read, ReadOk, Reply, Request, UpdateConfig
from epoxy.model.shards import SYSTEM_SHARD, shard_of
from epoxy.model.transactions import Executed, Get, Txn, TxnRefused, TxnUnknown
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, Path, ReadFailed, ReadResult, Refused, Write
from epoxy.transport.peers.transport import encode_replies
from tests.datacenter.hands import HandLinks, collect, keys_of, the
from tests.datacenter.nodes import Owners, Served, proposal_of
from tests.node.bench import HandClock

ME, OTHER, THIRD = 1, 2, 3
SHARD = 7
(KEY,) = keys_of(SHARD)
WRITE = Write(key=KEY, value=b"v", mutable=True)
TXN = Txn(then=(Get(key=KEY),))
MARK = proposal_of(WRITE, 1)
DONE = Committed(proposal=MARK, mine=True, path=Path.FAST)
LINEARIZABLE = Consistency.LINEARIZABLE


class Bench:
    def __init__(self) -> None:
        self.owners = Owners(ME)
        self.owners.owners = {SHARD: OTHER, SYSTEM_SHARD: OTHER}
        self.links, self.served, self.clock = HandLinks(OTHER, THIRD), Served(), HandClock()
        self.routes = Routes(self.owners, self.links, self.served, self.clock)

    def write(self, write: Write = WRITE) -> list[Any]:
        return collect(self.routes.write, write)

    def read(self) -> list[Any]:
        return collect(self.routes.read, KEY, LINEARIZABLE)

    def txn(self) -> list[Any]:
        return collect(self.routes.txn, TXN)


def test_a_key_is_mine_by_its_shard() -> None:
    bench = Bench()
    assert not bench.routes.is_mine(KEY)
    bench.owners.owned = {SHARD}
    assert bench.routes.is_mine(KEY)
    assert not bench.routes.is_gateway
    bench.owners.owned = {SYSTEM_SHARD}
    assert bench.routes.is_gateway


def test_each_request_goes_to_the_owner_of_its_key_or_to_the_gateway() -> None:
    bench = Bench()
    bench.owners.owners = {SHARD: OTHER, SYSTEM_SHARD: THIRD}
    answers = [
        bench.write(),
        bench.read(),
        bench.txn(),
        collect(bench.routes.ordered_write, WRITE, MARK),
        collect(bench.routes.ordered_read, KEY, MARK, LINEARIZABLE),
    ]
    assert [(each.to, each.question) for each in bench.links.asked] == [
        (OTHER, WRITE),
        (OTHER, ReadAsk(KEY, LINEARIZABLE)),
        (THIRD, TXN),
        (THIRD, OrderedWriteAsk(WRITE, MARK)),
        (THIRD, OrderedReadAsk(KEY, MARK, LINEARIZABLE)),
    ]
    read = ReadFailed(reason="x")
    for asked, outcome in zip(bench.links.asked, (DONE, read, Executed(succeeded=True), DONE, read), strict=True):
        asked.answer(outcome)
    assert [the(each) for each in answers] == [DONE, read, Executed(succeeded=True), DONE, read]
    assert bench.served.asked == []
    assert +bench.routes.forwarded == {("write", "answered"): 2, ("read", "answered"): 2, ("txn", "answered"): 1}


def test_what_is_owned_here_is_served_here() -> None:
    bench = Bench()
    bench.owners.owned = {SHARD, SYSTEM_SHARD}
    assert isinstance(the(bench.write()), Committed)
    assert isinstance(the(bench.read()), ReadResult)
    assert isinstance(the(bench.txn()), Executed)
    assert the(collect(bench.routes.ordered_write, WRITE, MARK)).proposal == MARK
    assert the(collect(bench.routes.ordered_read, KEY, MARK, LINEARIZABLE)).committed == MARK
    assert len(bench.served.asked) == 5
    assert bench.links.asked == []
    assert +bench.routes.forwarded == {}
    assert bench.routes.forwarded["txn", "unknown"] == 0, "it rises from 0, for alerts"


def test_what_never_left_is_refused() -> None:
    bench = Bench()
    answers = [bench.write(), bench.read(), bench.txn()]
    for asked in bench.links.asked:
        asked.answer(NeverSent("too long"))
    kinds = [type(the(each)) for each in answers]
    assert kinds == [Refused, Refused, TxnRefused]
    assert "too long" in the(answers[0]).reason
    assert +bench.routes.forwarded == {(kind, "refused"): 1 for kind in ("write", "read", "txn")}


def test_what_never_left_for_want_of_a_link_waits_for_the_next_owner() -> None:
    """The owner has failed, and its lease is not over yet."""
    bench = Bench()
    answers = [bench.write(), bench.read(), bench.txn()]
    for asked in bench.links.take_all():
        asked.answer(NeverSent("connection refused", unreachable=True))
    assert answers == [[], [], []]
    assert bench.owners.looks == 3
    bench.owners.owners = {SHARD: THIRD, SYSTEM_SHARD: THIRD}
    bench.routes.table_changed()
    assert [asked.to for asked in bench.links.asked] == [THIRD] * 3
    bench.links.take().answer(DONE)
    assert the(answers[0]) == DONE
    bench.clock.advance(PATIENCE_MS + LOOK_MS)
    assert not answers[1], "it left, and is waited for"


@pytest.mark.parametrize("answer", [AnswerLost("gone"), Unanswerable("too long"), ReadFailed(reason="no"), Received()])
def test_what_left_and_was_not_answered_is_unknown(answer: Any) -> None:
    """So is what was answered with something else."""
    bench = Bench()
    answers = [bench.write(), bench.txn()]
    for asked in bench.links.asked:
        asked.answer(answer)
    assert isinstance(the(answers[0]), ConsensusFailed)
    assert isinstance(the(answers[1]), TxnUnknown)
    assert +bench.routes.forwarded == {(kind, "unknown"): 1 for kind in ("write", "txn")}


def test_a_read_without_an_answer_is_asked_again_and_in_the_end_refused() -> None:
    bench = Bench()
    answers = bench.read()
    bench.links.take().answer(AnswerLost("gone"))
    assert not answers
    bench.clock.advance(AGAIN_MS + LOOK_MS)
    bench.links.take().answer(AnswerLost("gone"))
    bench.owners.owners = {}
    bench.clock.advance(PATIENCE_MS + LOOK_MS)
    assert isinstance(the(answers), Refused)


def test_a_read_that_the_owner_failed_to_answer_has_failed() -> None:
    bench = Bench()
    answers = bench.read()
    bench.links.take().answer(Unanswerable("too long"))
    assert isinstance(the(answers), ReadFailed)


# Waiting for an owner.


def test_without_an_owner_a_request_waits_for_the_table() -> None:
    bench = Bench()
    bench.owners.owners = {}
    answers = bench.write()
    assert bench.routes.waiting == 1
    bench.owners.owners = {SHARD: THIRD}
    bench.routes.table_changed()
    asked = bench.links.take()
    assert asked.to == THIRD
    asked.answer(DONE)
    assert the(answers) == DONE
    assert bench.routes.waiting == 0


def test_while_a_shard_is_handed_over_a_request_waits() -> None:
    """By the table it is still this session's, and it is not served here any more."""
    bench = Bench()
    bench.owners.owners = {SHARD: ME}
    answers = bench.write()
    bench.clock.advance(LOOK_MS * 3)
    assert not answers
    assert bench.links.asked == []
    bench.owners.owners = {SHARD: OTHER}
    bench.clock.advance(LOOK_MS)
    bench.links.take().answer(DONE)
    assert the(answers) == DONE


def test_a_shard_that_comes_here_serves_what_waited() -> None:
    bench = Bench()
    bench.owners.owners = {SHARD: ME}
    answers = bench.write()
    bench.owners.owned = {SHARD}
    bench.routes.table_changed()
    assert isinstance(the(answers), Committed)


def test_waiting_has_an_end_and_it_is_definite() -> None:
    bench = Bench()
    bench.owners.owners = {}
    answers = [bench.write(), bench.read(), bench.txn()]
    bench.clock.advance(PATIENCE_MS - LOOK_MS)
    assert answers == [[], [], []]
    bench.clock.advance(2 * LOOK_MS)
    assert [type(the(each)) for each in answers] == [Refused, Refused, TxnRefused]
    assert bench.clock.pending == []


def test_only_so_many_wait() -> None:
    bench = Bench()
    bench.owners.owners = {}
    for _ in range(MAX_WAITING):
        assert not bench.write()
    assert str(MAX_WAITING) in the(bench.write()).reason
    assert +bench.routes.forwarded == {("write", "refused"): 1}
    assert bench.routes.waiting == MAX_WAITING


def test_not_the_owner_asks_for_the_table_and_then_its_owner() -> None:
    bench = Bench()
    answers = bench.write()
    bench.links.take().answer(NotOwner())
    assert bench.owners.looks == 1
    assert not answers
    bench.owners.owners = {SHARD: THIRD}
    bench.routes.table_changed()
    asked = bench.links.take()
    assert asked.to == THIRD
    asked.answer(DONE)
    assert the(answers) == DONE


def test_the_same_node_is_asked_again_after_a_while() -> None:
    """It has been given the shard, and is not ready to serve it yet."""
    bench = Bench()
    answers = bench.write()
    bench.links.take().answer(NotOwner())
    bench.routes.table_changed()
    assert bench.links.asked == []
    bench.clock.advance(AGAIN_MS + LOOK_MS)
    bench.links.take().answer(DONE)
    assert the(answers) == DONE


def test_a_node_that_never_is_the_owner_is_asked_a_few_times() -> None:
    bench = Bench()
    answers = bench.write()
    asked = 0
    while not answers:
        while bench.links.asked:
            asked += 1
            bench.links.take().answer(NotOwner())
        bench.clock.advance(LOOK_MS)
    assert isinstance(the(answers), Refused)
    assert asked <= PATIENCE_MS / AGAIN_MS + 1


def test_a_callback_that_raises_does_not_stop_the_others() -> None:
    bench = Bench()
    bench.owners.owners = {}

    def broken(_: Any) -> None:
        raise ValueError("a bug")

    bench.routes.write(WRITE, broken)
    answers = bench.write()
    bench.owners.owned = {SHARD}
    with pytest.raises(ValueError, match="a bug"):
        bench.routes.table_changed()
    bench.clock.advance(LOOK_MS)
    assert isinstance(the(answers), Committed)


def test_a_node_that_stops_refuses_what_waits() -> None:
    bench = Bench()
    bench.owners.owners = {}
    answers = bench.write()
    bench.routes.stop()
    assert isinstance(the(answers), Refused)
    assert isinstance(the(bench.write()), Refused)
    assert bench.clock.pending == []
    assert +bench.routes.forwarded == {("write", "refused"): 2}


# What other nodes ask.


def test_a_node_that_is_asked_serves_its_keys_and_never_passes_on() -> None:
    bench = Bench()
    for question in (WRITE, ReadAsk(KEY, LINEARIZABLE), TXN, OrderedWriteAsk(WRITE, MARK)):
        assert the(bench.links.heard(question)) == NotOwner()
    assert the(bench.links.heard(OrderedReadAsk(KEY, MARK, LINEARIZABLE))) == NotOwner()
    assert bench.links.asked == []
    assert bench.served.asked == []
    bench.owners.owned = {SHARD, SYSTEM_SHARD}
    assert isinstance(the(bench.links.heard(WRITE)), Committed)
    assert isinstance(the(bench.links.heard(ReadAsk(KEY, LINEARIZABLE))), ReadResult)
    assert isinstance(the(bench.links.heard(TXN)), Executed)
    assert isinstance(the(bench.links.heard(OrderedWriteAsk(WRITE, MARK))), Committed)
    assert isinstance(the(bench.links.heard(OrderedReadAsk(KEY, MARK, LINEARIZABLE))), ReadResult)


def a_read(shard: int) -> Read:
    return Read(key=keys_of(shard)[0], epoch=1)


def forwarded(*requests: Request) -> ForwardedRequests:
    return ForwardedRequests(wire.encode_peer_request(PeerRequest(sender=3, recipient=3, requests=requests)))


def replies_in(answer: Any) -> tuple[Reply, ...]:
    assert isinstance(answer, ForwardedReplies)
    return wire.decode_peer_response(answer.body).replies


def test_requests_of_peers_are_handled_together_and_in_order() -> None:
    bench = Bench()
    bench.owners.owned = {SHARD, 8}
    bench.served.reply = lambda request: ReadOk(committed=None, vote=None) if request == a_read(8) else AcceptOk()
    asked = (a_read(SHARD), a_read(8), a_read(SHARD))
    assert replies_in(the(bench.links.heard(forwarded(*asked)))) == (
        AcceptOk(),
        ReadOk(committed=None, vote=None),
        AcceptOk(),
    )
    assert bench.served.asked == [asked]


def test_requests_of_peers_for_shards_that_have_gone_fail_one_by_one() -> None:
    bench = Bench()
    bench.owners.owned = {SHARD}
    found = replies_in(the(bench.links.heard(forwarded(a_read(8), a_read(SHARD), a_read(9)))))
    assert [type(reply) for reply in found] == [Failed, AcceptOk, Failed]
    assert bench.served.asked == [[a_read(SHARD)]]


def test_a_configuration_is_for_every_node() -> None:
    bench = Bench()
    config = ClusterConfig(
        epoch=2, coordinator_id=3, replicas=(ReplicaInfo(id=3, status=ReplicaStatus.ACTIVE, url="http://a"),)
    )
    bench.served.reply = lambda _: ConfigOk(epoch=2)
    assert replies_in(the(bench.links.heard(forwarded(UpdateConfig(config=config))))) == (ConfigOk(epoch=2),)


def test_bytes_that_are_no_requests() -> None:
    assert isinstance(the(Bench().links.heard(ForwardedRequests(b"\xff\xff"))), Unanswerable)


def test_a_session_of_clients_that_is_over() -> None:
    bench = Bench()
    assert the(bench.links.heard(SessionOver(b"s" * 16))) == Received()
    assert bench.served.over == [b"s" * 16]


def test_a_node_rests_until_it_is_told_to_go_on() -> None:
    bench = Bench()
    bench.served.rest_is_slow = True
    answers = bench.links.heard(ComeToRest())
    assert bench.served.rests
    assert not answers, "what rules have written is not durable yet"
    bench.served.let_go()
    assert the(answers) == Received()
    bench.links.heard(GoOn())
    assert not bench.served.rests
    assert bench.clock.pending == []


def test_a_node_goes_on_by_itself_when_the_gateway_is_gone() -> None:
    bench = Bench()
    bench.links.heard(ComeToRest())
    bench.clock.advance(LONGEST_REST_MS - 1)
    bench.links.heard(ComeToRest())
    bench.clock.advance(LONGEST_REST_MS - 1)
    assert bench.served.rests
    bench.clock.advance(1)
    assert not bench.served.rests


def test_to_go_on_without_a_rest_does_nothing() -> None:
    bench = Bench()
    bench.served.rests = True  # For a reason of its own.
    bench.links.heard(GoOn())
    assert bench.served.rests


# Planted faults: each is caught by a test above.


def unknown_told_as_refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module, "WRITES", replace(answer_kinds.WRITES, unknown=answer_kinds.WRITES.refused))
    return lambda: test_what_left_and_was_not_answered_is_unknown(AnswerLost("gone"))


def writes_asked_again(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A counter would count twice."""
    monkeypatch.setattr(module, "WRITES", replace(answer_kinds.WRITES, repeats=True))
    return lambda: test_what_left_and_was_not_answered_is_unknown(AnswerLost("gone"))


def without_a_link_told_as_refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module, "may_be_asked_again", lambda answer, _: type(answer) is NotOwner)
    return test_what_never_left_for_want_of_a_link_waits_for_the_next_owner


def not_owner_told_as_refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(answer_kinds, "NotOwner", NeverSent)
    return test_not_the_owner_asks_for_the_table_and_then_its_owner


def another_answer_taken_for_an_outcome(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    original = Routes._heard

    def heard(self: Routes, request: module.RoutedRequest, owner: int, answer: Any) -> None:
        if isinstance(answer, ReadFailed):
            request.answered(answer)
        else:
            original(self, request, owner, answer)

    monkeypatch.setattr(Routes, "_heard", heard)
    return lambda: test_what_left_and_was_not_answered_is_unknown(ReadFailed(reason="no"))


def passed_on_again(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(Routes, "_serve_write", lambda self, _, write, answered: self.write(write, answered))
    return test_a_node_that_is_asked_serves_its_keys_and_never_passes_on


def waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(Routes, "_wait", lambda self, request: self._waiting.append(request))
    return test_waiting_has_an_end_and_it_is_definite


def asks_at_once_again(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(Routes, "_was_asked_just_now", lambda *_: False)
    return test_the_same_node_is_asked_again_after_a_while


def replies_of_some_in_another_order(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def mixed(_: Routes, count: int, __: list[int], answered: Any, replies: Any) -> None:
        joined = [*replies, *[module.NOT_SERVED] * (count - len(replies))]
        answered(ForwardedReplies(encode_replies(joined)))

    monkeypatch.setattr(Routes, "_reply_to_some", mixed)
    return test_requests_of_peers_for_shards_that_have_gone_fail_one_by_one


def serves_what_has_gone(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module, "places_of", lambda requests, _: list(range(len(requests))))
    return test_requests_of_peers_for_shards_that_have_gone_fail_one_by_one


FAULTS = [
    unknown_told_as_refused,
    writes_asked_again,
    without_a_link_told_as_refused,
    not_owner_told_as_refused,
    another_answer_taken_for_an_outcome,
    passed_on_again,
    waits_for_ever,
    asks_at_once_again,
    replies_of_some_in_another_order,
    serves_what_has_gone,
]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_caught(
    plant: Callable[[pytest.MonkeyPatch], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = plant(monkeypatch)
    with pytest.raises((AssertionError, IndexError)):
        check()


def test_requests_without_a_key_are_the_gateways() -> None:
    assert module.shard_of_request(a_read(SHARD)) == SHARD == shard_of(KEY)
    config = ClusterConfig(
        epoch=1, coordinator_id=3, replicas=(ReplicaInfo(id=3, status=ReplicaStatus.ACTIVE, url="http://a"),)
    )
    assert module.shard_of_request(UpdateConfig(config=config)) == SYSTEM_SHARD


# While the gateway changes.


def test_requests_of_this_node_and_of_others_wait_until_it_goes_on() -> None:
    bench = Bench()
    bench.owners.owned = {SHARD, SYSTEM_SHARD}
    bench.routes.pause()
    assert not bench.routes.is_mine(KEY)
    assert bench.routes.runs(KEY)
    of_others = WRITE, ReadAsk(KEY, LINEARIZABLE), TXN
    of_transactions = OrderedWriteAsk(WRITE, MARK), OrderedReadAsk(KEY, MARK, LINEARIZABLE)
    waiting = [bench.write(), bench.read(), bench.txn()]
    waiting += [bench.links.heard(question, OTHER) for question in (*of_others, *of_transactions)]
    bench.clock.advance(PATIENCE_MS / 2)
    assert waiting == [[]] * 8
    assert (bench.served.asked, bench.routes.waiting) == ([], 8)
    bench.routes.resume()
    assert [len(answers) for answers in waiting] == [1] * 8
    assert (len(bench.served.asked), bench.routes.waiting) == (8, 0)


def test_what_waits_for_too_long_is_refused() -> None:
    bench = Bench()
    bench.owners.owned = {SHARD}
    bench.routes.pause()
    answers = [bench.write(), bench.links.heard(WRITE, OTHER)]
    bench.clock.advance(PATIENCE_MS + LOOK_MS)
    assert [type(the(each)) for each in answers] == [Refused, Refused]
    assert bench.served.asked == []


def test_a_paused_node_says_what_it_does_not_own() -> None:
    bench = Bench()
    bench.routes.pause()
    assert bench.links.heard(WRITE, OTHER) == [NotOwner()]
    assert bench.links.heard(TXN, OTHER) == [NotOwner()]
