"""The writes of one key that wait: what is folded here, what is carried to the owner, and what comes of it."""

import pytest

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Carry,
    CarryAnswer,
    CarryAnswers,
    CarryOk,
    CarryResult,
    Commit,
    Failed,
    Reply,
)
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.shards import shard_of
from epoxy.model.writes import Committed, NothingToDelete, VersionMismatch, Write
from epoxy.node.keys.key_queue import GATHER_MS, LONGEST_STEP_MS, MAX_CARRIED
from epoxy.protocol.keys.carrying import NO_LIFE, packed
from epoxy.protocol.keys.folding import UNANSWERED
from epoxy.protocol.keys.operations import NOT_EXPOSED
from tests.node.bench import Node, Sent
from tests.protocol.keys.harness import KEY, A, B, C, commit, prop, waiting

LIFE = 77


def put(value: bytes, if_version: int | None = None) -> Write:
    return Write(key=KEY, value=value, mutable=True, if_version=if_version)


def add(amount: int) -> Write:
    return Write(key=KEY, value=None, mutable=True, amount=amount)


def write(node: Node, *writes: Write) -> None:
    for each in writes:
        node.driver.write(each, node.outcomes.append)
    node.disk.sync()


def turn(node: Node, delay_ms: float = 0.0) -> None:
    node.clock.advance(delay_ms)
    node.disk.sync()


def asked(sent: Sent) -> Proposal:
    request = sent.requests[-1]
    assert isinstance(request, Accept)
    return request.proposal


def ids(proposal: Proposal) -> list[int]:
    return [each.nonce for each in (*proposal.folded, proposal.proposal_id)]


def with_owner(*, life: int = LIFE) -> Node:
    """B folds the writes of the key, as far as this replica knows."""
    node = Node()
    node.driver.owners.believe(KEY, B, 0.0)
    if life != NO_LIFE:
        node.driver.numbers.met(B, shard_of(KEY), life)
    return node


def carry_of(node: Node, to: int = B) -> tuple[Carry, Sent]:
    (sent,) = [each for each in node.transport.sent if isinstance(each.requests[-1], Carry)]
    node.transport.sent.remove(sent)
    assert sent.to == to
    request = sent.requests[-1]
    assert isinstance(request, Carry)
    return request, sent


def done(proposal_id: ProposalId, version: int, value: bytes | None = None) -> CarryAnswer:
    return CarryAnswer(
        proposal_id=proposal_id, result=CarryResult.DONE, version=version, value=value, committed=None, reason=""
    )


def answers(*given: CarryAnswer, owner: int = B) -> CarryAnswers:
    return CarryAnswers(key=KEY, owner=owner, answers=given)


# Folds


def test_what_waits_for_a_round_becomes_one_fold() -> None:
    node = Node()
    write(node, put(b"1"), add(2), put(b"x", if_version=9), add(4))
    first = node.transport.take()
    assert ids(asked(first[B])) == [1]
    first[B].answer(AcceptOk())
    node.disk.sync()
    node.transport.take()
    assert len(node.outcomes) == 1
    turn(node)
    second = node.transport.take()
    proposal = asked(second[B])
    assert (proposal.value, proposal.version, ids(proposal)) == (b"7", 3, [2, 4])
    assert len(node.outcomes) == 1, "F1: nothing is told of any of them before it is decided"
    second[C].answer(AcceptOk())
    assert len(node.outcomes) == 1, "nor before the commit is durable here"
    node.disk.sync()
    assert [type(each).__name__ for each in node.outcomes[1:]] == ["Committed", "VersionMismatch", "Committed"]
    turn(node, LONGEST_STEP_MS)
    assert node.driver._queues == {}


def test_the_clusters_own_keys_are_not_folded() -> None:
    key, node = FIRST_SYSTEM_KEY + b"x", Node()
    for value in (b"1", b"2", b"3"):
        node.driver.write(Write(key=key, value=value, mutable=True), node.outcomes.append)
    node.disk.sync()
    for version in (1, 2, 3):
        accepts = node.transport.take()
        assert (asked(accepts[B]).version, asked(accepts[B]).folded) == (version, ())
        accepts[B].answer(AcceptOk())
        node.disk.sync()
        node.transport.take()
        turn(node)
    assert len(node.outcomes) == 3


# Carrying


def test_writes_that_were_beaten_travel_to_the_winner_before_those_behind_them() -> None:
    node = Node()
    write(node, put(b"1"), put(b"2"))
    accepts = node.transport.take()
    accepts[B].answer(AlreadyCommitted(committed=prop(b"theirs", by=C, nonce=9, mutable=True)))
    node.disk.sync()
    turn(node)
    request, _ = carry_of(node, to=C)
    assert [(each.value, each.floor) for each in request.writes] == [(b"1", 1), (b"2", 1)]
    assert node.outcomes == []


def test_a_write_of_a_key_with_an_owner_is_carried_at_once_and_answered_by_it() -> None:
    node = with_owner()
    write(node, add(1))
    request, sent = carry_of(node)
    assert (request.receiver, request.writes[0].floor, node.transport.sent) == (LIFE, 0, [])
    sent.answer(CarryOk(life=LIFE))
    mine = request.writes[0].proposal_id
    node.handle_now(commit(Proposal(value=b"8", version=3, mutable=True, proposal_id=mine, proposer=B)))
    assert node.handle_now(answers(done(mine, 3, b"8"))) == CarryOk(life=node.driver.numbers.life)
    (outcome,) = node.outcomes
    assert isinstance(outcome, Committed)
    assert (outcome.proposal.value, outcome.proposal.version, outcome.mine) == (b"8", 3, True)
    assert node.driver._queues == {}


def test_answers_that_come_twice_or_for_no_write_change_nothing() -> None:
    node = with_owner()
    write(node, put(b"1"))
    request, _ = carry_of(node)
    answer = answers(done(request.writes[0].proposal_id, 1), done(ProposalId(A, 999), 2))
    for _ in range(2):
        node.handle_now(answer)
    assert len(node.outcomes) == 1


def test_what_the_owner_refuses_is_the_answer() -> None:
    node = with_owner()
    write(node, put(b"1", if_version=4), Write(key=KEY, value=None, mutable=True))
    turn(node, GATHER_MS)
    carried = [each.requests[-1] for each in node.transport.sent]
    ids_of = [each.proposal_id for request in carried if isinstance(request, Carry) for each in request.writes]
    results = (CarryResult.MISMATCH, CarryResult.ABSENT)
    told = [
        CarryAnswer(proposal_id=each, result=result, version=0, value=None, committed=None, reason="")
        for each, result in zip(ids_of, results, strict=True)
    ]
    node.handle_now(answers(*told))
    assert [type(each) for each in node.outcomes] == [VersionMismatch, NothingToDelete]


def test_what_was_declined_is_as_if_it_had_not_been_handed_over_and_is_proposed_here() -> None:
    node = with_owner()
    write(node, put(b"1"))
    request, sent = carry_of(node)
    (entry,) = node.driver._queue_of(KEY)._carried.values()
    sent.answer(CarryOk(declined=(request.writes[0].proposal_id,), life=LIFE))
    assert (entry.pending.floor, entry.pending.handed_over) == (NOT_EXPOSED, False)
    turn(node)
    assert ids(asked(node.transport.take()[B])) == [1]
    assert node.driver.owners.of(KEY, 0.0) is None


def test_a_carry_to_a_life_that_is_not_known_is_sent_again_to_the_one_that_is_told() -> None:
    node = with_owner(life=NO_LIFE)
    write(node, put(b"1"))
    request, sent = carry_of(node)
    assert request.receiver == NO_LIFE
    sent.answer(CarryOk(declined=(request.writes[0].proposal_id,), life=LIFE))
    turn(node)
    again, _ = carry_of(node)
    assert (again.receiver, again.writes) == (LIFE, request.writes)
    assert again.number > request.number


def test_all_carries_to_a_process_that_is_gone_are_taken_back_when_the_next_one_answers() -> None:
    """Also those whose answer tells nothing new: they are not in its hands."""
    node = with_owner()
    write(node, put(b"1"))
    first, sent = carry_of(node)
    write(node, put(b"2"))
    turn(node, GATHER_MS)
    second, also_sent = carry_of(node)
    assert first.receiver == second.receiver == LIFE
    sent.answer(CarryOk(life=LIFE + 1))
    assert len(node.driver._queue_of(KEY)._carried) == 1
    also_sent.answer(CarryOk(life=LIFE + 1))
    assert not node.driver._queue_of(KEY)._carried
    assert node.driver.counts.taken_back == 2


def test_a_carry_that_its_addressee_took_stays_there_whatever_life_was_told_meanwhile() -> None:
    node = with_owner()
    write(node, put(b"1"))
    _, sent = carry_of(node)
    node.driver.numbers.met(B, shard_of(KEY), LIFE - 1)
    sent.answer(CarryOk(life=LIFE))
    assert len(node.driver._queue_of(KEY)._carried) == 1


@pytest.mark.parametrize("reply", [None, Failed(reason="connection lost")], ids=["silence", "broken"])
def test_an_owner_that_does_not_answer_costs_a_hedge(reply: Reply | None) -> None:
    """By rule F3 the write may be proposed here. Until it is known what the owner did, a refusal of it is not told."""
    node = with_owner()
    write(node, put(b"1"))
    _, sent = carry_of(node)
    (entry,) = node.driver._queue_of(KEY)._carried.values()
    if reply is not None:
        sent.answer(reply)
    turn(node, 0.0 if reply is not None else node.driver.carry_ms)
    assert ids(asked(node.transport.take()[B])) == [1]
    assert entry.pending.handed_over
    assert node.driver.counts.taken_back == 1


def test_a_carried_write_that_is_found_in_a_decision_is_not_proposed_again() -> None:
    node = with_owner()
    write(node, put(b"1"))
    request, _ = carry_of(node)
    fold = Proposal(
        value=b"z", version=2, mutable=True, proposal_id=ProposalId(B, 9), folded=(request.writes[0].proposal_id,)
    )
    node.handle_now(commit(fold))
    assert node.outcomes == []
    turn(node, node.driver.carry_ms)
    (outcome,) = node.outcomes
    assert isinstance(outcome, Committed)
    assert (outcome.proposal.value, outcome.proposal.version) == (b"1", 1)
    assert node.transport.sent == []


def decided_by_the_owner() -> tuple[Node, ProposalId]:
    """An addition was carried to B, whose decision has come, with another write after it: its sum is not to be seen."""
    node = with_owner()
    write(node, add(2))
    request, sent = carry_of(node)
    sent.answer(CarryOk(life=LIFE))
    mine = request.writes[0].proposal_id
    node.handle_now(commit(Proposal(value=b"z", version=2, mutable=True, proposal_id=ProposalId(B, 9), folded=(mine,))))
    return node, mine


def test_the_answer_of_an_addition_that_is_decided_is_waited_for() -> None:
    node, mine = decided_by_the_owner()
    turn(node, 2 * node.driver.carry_ms)
    assert node.outcomes == []
    node.handle_now(answers(done(mine, 1, b"2")))
    (outcome,) = node.outcomes
    assert isinstance(outcome, Committed)
    assert outcome.proposal.value == b"2"


def test_an_owner_that_stops_between_its_commit_and_its_answers_costs_three_hedges() -> None:
    node, _ = decided_by_the_owner()
    for _ in range(3):
        turn(node, node.driver.carry_ms)
    assert node.outcomes == [UNANSWERED]
    assert node.transport.sent == []


def taken_back(node: Node) -> ProposalId:
    """An addition that B took and was silent about: it waits here for the round under way."""
    write(node, add(2))
    request, sent = carry_of(node)
    sent.answer(CarryOk(life=LIFE))
    node.driver.owners.forget(KEY)
    write(node, put(b"other"))
    turn(node, GATHER_MS)
    turn(node, node.driver.carry_ms)
    assert node.driver.counts.taken_back == 1
    return request.writes[0].proposal_id


def decides(node: Node, mine: ProposalId) -> None:
    """B folds it after all, and another write after it."""
    node.handle_now(commit(Proposal(value=b"z", version=2, mutable=True, proposal_id=ProposalId(B, 9), folded=(mine,))))
    node.disk.sync()


def test_an_addition_that_was_taken_back_and_decided_by_the_owner_waits_for_its_answer() -> None:
    """It waited in the queue when the decision came (found by `epoxy sim hot`, seed 22324)."""
    node = with_owner()
    mine = taken_back(node)
    decides(node, mine)
    turn(node)
    assert node.outcomes == []
    node.handle_now(answers(done(mine, 1, b"2")))
    told = [each.proposal.value for each in node.outcomes if isinstance(each, Committed)]
    assert told == [b"2"]


def unanswered(proposal_id: ProposalId) -> CarryAnswer:
    return CarryAnswer(
        proposal_id=proposal_id,
        result=CarryResult.UNKNOWN,
        version=0,
        value=None,
        committed=None,
        reason=UNANSWERED.reason,
    )


@pytest.mark.parametrize("is_spread", [True, False])
def test_an_earlier_owner_that_met_a_write_in_the_decision_of_the_next_one_is_not_the_last_word(
    is_spread: bool,
) -> None:
    """C had it first, and learns B's decision before B's answer is here (found by `epoxy sim hot`, seed 8504)."""
    node = with_owner()
    write(node, add(2))
    request, _ = carry_of(node)
    (entry,) = node.driver._queue_of(KEY)._carried.values()
    entry.is_spread = is_spread
    mine = request.writes[0].proposal_id
    node.handle_now(answers(unanswered(mine), owner=C))
    assert node.outcomes == ([] if is_spread else [UNANSWERED])
    if is_spread:
        node.handle_now(answers(done(mine, 1, b"2")))
        assert [type(each) for each in node.outcomes] == [Committed]


def test_if_the_next_owner_does_not_answer_either_its_client_is_told_so_in_the_end() -> None:
    node = with_owner()
    write(node, add(2))
    request, _ = carry_of(node)
    (entry,) = node.driver._queue_of(KEY)._carried.values()
    entry.is_spread = True
    node.handle_now(answers(unanswered(request.writes[0].proposal_id), owner=C))
    for _ in range(4):
        turn(node, node.driver.carry_ms)
    assert node.outcomes == [UNANSWERED]


def test_the_floor_of_a_carried_write_rises_with_decisions_without_a_gap() -> None:
    node = with_owner()
    write(node, put(b"1"))
    (entry,) = node.driver._queue_of(KEY)._carried.values()
    for version, floor in ((1, 1), (2, 2), (4, 2)):
        node.handle_now(commit(prop(b"x", version, by=B, nonce=version, mutable=True)))
        assert entry.pending.floor == floor


def test_so_many_are_carried_at_a_time() -> None:
    node = with_owner()
    write(node, *[add(1)] * (MAX_CARRIED + 50))
    for _ in range(20):
        turn(node, GATHER_MS)
    carries = [each.requests[-1] for each in node.transport.sent]
    assert sum(len(each.writes) for each in carries if isinstance(each, Carry)) == MAX_CARRIED
    assert [each for each in carries if not isinstance(each, Carry)] == []


# Writes of another home


def brought(node: Node, *writes: Write, number: int = 1, floor: int = 0) -> Carry:
    carried = [waiting(each, by=B, nonce=90 + place, floor=floor) for place, each in enumerate(writes)]
    life = node.driver.numbers.life
    return Carry(
        key=KEY, epoch=1, sender=5, receiver=life, number=number, writes=tuple(packed(each) for each in carried)
    )


def test_writes_of_another_home_are_folded_and_it_is_told_after_the_commit() -> None:
    node = Node()
    assert isinstance(node.handle_now(brought(node, add(3), put(b"x", if_version=9))), CarryOk)
    turn(node)
    accepts = node.transport.take()
    proposal = asked(accepts[C])
    assert (proposal.value, proposal.proposal_id, proposal.proposer) == (b"3", ProposalId(B, 90), A)
    accepts[C].answer(AcceptOk())
    node.disk.sync()
    told = [each.requests[-1] for each in node.transport.sent if each.to == B]
    assert [type(each) for each in told] == [Commit, CarryAnswers]
    message = told[-1]
    assert isinstance(message, CarryAnswers)
    assert [(each.result, each.version) for each in message.answers] == [
        (CarryResult.DONE, 1),
        (CarryResult.MISMATCH, 0),
    ]
    turn(node, LONGEST_STEP_MS)
    assert node.driver._queues == {}


def test_a_carry_is_taken_once() -> None:
    node = Node()
    request = brought(node, add(3))
    for _ in range(3):
        assert node.handle_now(request) == CarryOk(life=node.driver.numbers.life)
    turn(node)
    assert ids(asked(node.transport.take()[C])) == [90]
    assert node.driver.counts.received == 1


def test_a_write_that_may_be_decided_for_all_this_replica_knows_is_declined() -> None:
    node = Node()
    node.handle_now(commit(prop(b"x", 9, by=C, nonce=9, mutable=True)))
    request = brought(node, add(3), floor=5)
    declined = node.handle_now(request)
    assert declined == CarryOk(declined=(ProposalId(B, 90),), life=node.driver.numbers.life)
    assert node.transport.sent == []


def test_a_node_that_stops_takes_over_no_more_and_goes_on_with_what_it_has() -> None:
    node = Node()
    node.handle_now(brought(node, add(3)))
    node.driver.is_leaving = True
    assert not node.driver.is_idle
    declined = node.handle_now(brought(node, add(4), number=2))
    assert isinstance(declined, CarryOk)
    assert len(declined.declined) == 1
    turn(node)
    node.transport.take()[C].answer(AcceptOk())
    node.disk.sync()
    turn(node, LONGEST_STEP_MS)
    assert node.driver.is_idle


def test_a_write_that_is_decided_already_is_answered_and_not_folded() -> None:
    node = Node()
    node.handle_now(commit(prop(b"3", 6, by=B, nonce=90, mutable=True)))
    assert node.handle_now(brought(node, add(3), floor=5)) == CarryOk(life=node.driver.numbers.life)
    (sent,) = node.transport.sent
    message = sent.requests[-1]
    assert isinstance(message, CarryAnswers)
    assert (message.answers[0].result, message.answers[0].value) == (CarryResult.DONE, b"3")
