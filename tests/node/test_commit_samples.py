"""Timelines of some writes: what they say, that they are few, and that nothing is in the way of the others."""

import pytest

from epoxy.model.api_world import CommitSample
from epoxy.model.ballot import Ballot
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    Carry,
    CarryAnswer,
    CarryAnswers,
    CarryOk,
    CarryResult,
    Commit,
    HigherBallot,
    Prepare,
    PrepareOk,
)
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, Outcome, Write
from epoxy.node import commit_samples
from epoxy.node.commit_samples import LATE_MS, MAX_TRACES, SAMPLE_EVERY_MS, CommitSampler, SampleReader, Tap
from tests.node.bench import HandTransport, Node
from tests.protocol.keys.harness import KEY, B, C, config_of

FLOOR_MS = 70.0


def every_key(_key: bytes) -> bool:
    return True


class Watched:
    """A node of three, and readers of its samples."""

    def __init__(self, n: int = 3) -> None:
        self.node = Node(config=config_of(n))
        self.sampler = CommitSampler(self.node.driver, lambda: FLOOR_MS, wall_s=lambda: 1000.0)
        self.samples: list[CommitSample] = []
        self.everything = SampleReader(every_key, self.samples.append)

    @property
    def sent(self) -> HandTransport:
        return self.node.transport

    def pass_ms(self, by_ms: float) -> None:
        self.node.clock.advance(by_ms)

    def commit(self, key: bytes = KEY) -> None:
        """By both others, at once."""
        self.node.write(key=key)
        self.node.disk.sync()
        for each in self.sent.take().values():
            each.answer(AcceptOk())
        self.node.disk.sync()
        self.sent.sent.clear()


def test_a_fast_write_has_its_votes_its_decision_and_its_commit() -> None:
    watched = Watched()
    watched.sampler.subscribe(watched.everything)
    watched.node.write()
    watched.pass_ms(1)
    watched.node.disk.sync()
    votes = watched.sent.take()
    watched.pass_ms(70)
    votes[B].answer(AcceptOk())
    watched.pass_ms(2)
    watched.node.disk.sync()
    assert watched.samples == [], "the farthest vote is awaited"
    assert [isinstance(outcome, Committed) for outcome in watched.node.outcomes] == [True], "the client is not"
    watched.pass_ms(80)
    votes[C].answer(AcceptOk())
    (sample,) = watched.samples
    assert (sample.key, sample.at, sample.home, sample.outcome, sample.path) == ("k", 1000.0, 1, "Committed", "fast")
    assert (sample.floor_ms, sample.writes, sample.carried_to) == (FLOOR_MS, 1, None)
    times = sample.voted_ms, sample.decided_ms, sample.told_ms, sample.answered_ms
    assert times == (1.0, 71.0, 73.0, 73.0)
    told = [(each.kind, each.to, each.fast, each.sent_ms, each.heard_ms, each.answer) for each in sample.messages]
    assert told == [
        ("vote", B, True, 1.0, 71.0, "AcceptOk"),
        ("vote", C, True, 1.0, 153.0, "AcceptOk"),
        ("commit", B, False, 73.0, None, ""),
        ("commit", C, False, 73.0, None, ""),
    ]


def test_a_vote_that_never_comes_is_waited_for_a_while() -> None:
    watched = Watched()
    watched.sampler.subscribe(watched.everything)
    watched.node.write()
    watched.node.disk.sync()
    watched.sent.take()[B].answer(AcceptOk())
    watched.node.disk.sync()
    watched.pass_ms(LATE_MS - 1)
    assert watched.samples == []
    watched.pass_ms(1)
    (sample,) = watched.samples
    assert [each.heard_ms for each in sample.messages if each.to == C and each.kind == "vote"] == [None]
    watched.pass_ms(2 * LATE_MS)
    assert len(watched.samples) == 1


def test_a_slow_write_shows_the_promises_it_needed() -> None:
    watched = Watched()
    watched.sampler.subscribe(watched.everything)
    watched.node.write()
    watched.node.disk.sync()
    for each in watched.sent.take().values():
        each.answer(HigherBallot(ballot=Ballot(1, C)))
    watched.node.disk.sync()
    asked = watched.sent.take()
    assert isinstance(asked[B].requests[-1], Prepare)
    watched.pass_ms(5)
    asked[B].answer(PrepareOk(vote=None))
    watched.node.disk.sync()
    votes = watched.sent.take()
    assert isinstance(votes[B].requests[-1], Accept)
    watched.pass_ms(5)
    votes[B].answer(AcceptOk())
    watched.node.disk.sync()
    watched.pass_ms(LATE_MS)
    (sample,) = watched.samples
    assert (sample.path, sample.outcome) == ("slow", "Committed")
    assert [(each.kind, each.fast) for each in sample.messages if each.to == B] == [
        ("vote", True),
        ("promise", False),
        ("vote", False),
        ("commit", False),
    ]
    assert sample.decided_ms == 10.0


def test_a_taken_name_needs_no_message() -> None:
    watched = Watched()
    watched.commit()
    watched.sampler.subscribe(watched.everything)
    watched.node.write(b"another")
    watched.node.disk.sync()
    (sample,) = watched.samples
    assert (sample.outcome, sample.path, sample.messages) == ("ExpectedValueDoesNotMatch", "local", [])
    assert (sample.voted_ms, sample.decided_ms, sample.told_ms) == (None, None, None)


def test_a_replica_alone_decides_by_itself() -> None:
    watched = Watched(n=1)
    watched.sampler.subscribe(watched.everything)
    watched.node.write()
    watched.node.disk.sync()
    (sample,) = watched.samples
    assert (sample.path, sample.decided_ms, sample.messages) == ("fast", None, [])


def test_of_a_write_that_waited_the_round_before_its_own_is_left_out() -> None:
    watched = Watched()
    watched.node.write(b"first", mutable=True)
    watched.node.disk.sync()
    before = watched.sent.take()
    watched.sampler.subscribe(watched.everything)
    for value in (b"second", b"third"):
        watched.node.write(value, mutable=True)
    before[B].answer(AcceptOk())
    watched.node.disk.sync()
    watched.sent.take()
    watched.pass_ms(SAMPLE_EVERY_MS - 1)
    watched.node.disk.sync()
    for each in watched.sent.take().values():
        each.answer(AcceptOk())
    watched.node.disk.sync()
    (sample,) = watched.samples
    assert sample.writes == 2
    assert [each.kind for each in sample.messages] == ["vote", "vote", "commit", "commit"]


def test_without_looking_for_its_own_round_a_waiting_write_would_be_told_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: all requests of the key are taken for its own."""
    monkeypatch.setattr(commit_samples, "from_first_with", lambda _write, exchanged: exchanged)
    with pytest.raises(AssertionError):
        test_of_a_write_that_waited_the_round_before_its_own_is_left_out()


def test_a_carried_write_says_which_replica_folded_it() -> None:
    watched = Watched()
    watched.node.write(b"old", mutable=True)
    watched.node.disk.sync()
    watched.sent.take()[B].answer(AcceptOk())
    watched.node.disk.sync()
    watched.sent.take()
    watched.pass_ms(1000)
    watched.node.disk.sync()
    watched.sent.sent.clear()
    watched.node.driver.owners.believe(KEY, B, watched.node.clock.now_ms())
    watched.sampler.subscribe(watched.everything)
    watched.node.write(b"new", mutable=True)
    watched.pass_ms(1)
    (carried,) = [each for each in watched.sent.sent if isinstance(each.requests[-1], Carry)]
    carry = carried.requests[-1]
    assert isinstance(carry, Carry)
    mine = carry.writes[0].proposal_id
    folded = Proposal(value=b"new", version=2, mutable=True, proposal_id=mine, proposer=B)
    watched.node.handle_now(Commit(key=KEY, epoch=1, proposal=folded))
    done = CarryAnswer(proposal_id=mine, result=CarryResult.DONE, version=2, value=None, committed=None, reason="")
    watched.pass_ms(70)
    watched.node.handle_now(CarryAnswers(key=KEY, owner=B, answers=(done,)))
    watched.node.disk.sync()
    assert isinstance(watched.node.outcomes[-1], Committed)
    carried.answer(CarryOk(life=1))
    (sample,) = watched.samples
    assert (sample.carried_to, sample.outcome, sample.answered_ms) == (B, "Committed", 71.0)
    assert (sample.voted_ms, sample.decided_ms, sample.told_ms) == (None, None, None)
    assert [each.kind for each in sample.messages] == ["carry"]


# How little it costs


def untouched(watched: Watched) -> bool:
    driver = watched.node.driver
    return driver.sampled is None and driver.transport is watched.node.transport and watched.sampler.is_idle


def test_nothing_is_put_in_without_a_reader_and_nothing_stays_after_the_last() -> None:
    watched = Watched()
    assert untouched(watched)
    watched.commit(b"a")
    assert untouched(watched)
    ends = [watched.sampler.subscribe(watched.everything) for _ in range(2)]
    assert not untouched(watched)
    watched.node.write(key=b"b")
    assert isinstance(watched.node.driver.transport, Tap)
    ends[0]()
    assert not untouched(watched)
    ends[1]()
    ends[1]()
    assert untouched(watched)
    assert watched.node.clock.pending == [] or watched.samples == []
    watched.node.disk.sync()
    for each in watched.sent.take().values():
        each.answer(AcceptOk())
    watched.node.disk.sync()
    assert [isinstance(outcome, Committed) for outcome in watched.node.outcomes] == [True, True]
    watched.pass_ms(10 * LATE_MS)
    assert untouched(watched)
    assert watched.samples == []


def test_between_two_samples_the_driver_is_as_without_readers() -> None:
    watched = Watched()
    watched.sampler.subscribe(watched.everything)
    watched.commit(b"a")
    driver = watched.node.driver
    assert (driver.sampled, driver.transport) == (None, watched.node.transport)
    watched.commit(b"b")
    assert [sample.key for sample in watched.samples] == ["a"]
    watched.pass_ms(SAMPLE_EVERY_MS)
    assert driver.sampled is not None
    watched.commit(b"c")
    assert [sample.key for sample in watched.samples] == ["a", "c"]


def test_so_many_a_second_and_no_more() -> None:
    watched = Watched()
    watched.sampler.subscribe(watched.everything)
    for number in range(1000):
        watched.commit(b"%d" % number)
        watched.pass_ms(1)
    assert len(watched.samples) == 1000 / SAMPLE_EVERY_MS


def test_traces_are_few_however_long_the_writes_take() -> None:
    watched = Watched()
    watched.sampler.subscribe(watched.everything)
    for number in range(2 * MAX_TRACES):
        watched.node.write(key=b"%d" % number)
        watched.pass_ms(0)
        watched.sampler._arm()
    assert len(watched.sampler._traces) == MAX_TRACES


def test_messages_of_a_trace_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_samples, "MAX_TRACED_MESSAGES", 3)
    watched = Watched()
    watched.sampler.subscribe(watched.everything)
    watched.commit()
    (sample,) = watched.samples
    assert [each.kind for each in sample.messages] == ["vote", "vote", "commit"]


def test_only_readers_who_may_read_the_key_are_sent_its_sample() -> None:
    watched = Watched()
    mine: list[CommitSample] = []
    watched.sampler.subscribe(SampleReader(lambda key: key.startswith(b"mine/"), mine.append))
    watched.commit(b"theirs/1")
    assert not watched.sampler._traces
    watched.commit(b"mine/1")
    watched.sampler.subscribe(watched.everything)
    watched.pass_ms(SAMPLE_EVERY_MS)
    watched.commit(b"theirs/2")
    assert [sample.key for sample in mine] == ["mine/1"]
    assert [sample.key for sample in watched.samples] == ["theirs/2"]


def test_a_reader_whose_rights_ended_meanwhile_is_not_sent_what_was_begun_before() -> None:
    watched = Watched()
    allowed = [True]
    watched.sampler.subscribe(SampleReader(lambda _key: allowed[0], watched.samples.append))
    watched.node.write()
    watched.node.disk.sync()
    allowed[0] = False
    for each in watched.sent.take().values():
        each.answer(AcceptOk())
    watched.node.disk.sync()
    assert watched.samples == []


def test_the_cluster_s_own_keys_are_not_sampled() -> None:
    watched = Watched()
    watched.sampler.subscribe(watched.everything)
    watched.commit(b"\xff/own")
    assert watched.samples == []
    assert watched.node.driver.sampled is not None


def test_an_answer_that_raises_leaves_no_trace() -> None:
    watched = Watched(n=1)
    watched.sampler.subscribe(watched.everything)

    def broken(_outcome: Outcome) -> None:
        raise RuntimeError("of the receiver")

    watched.node.driver.write(Write(key=KEY, value=b"v"), broken)
    with pytest.raises(RuntimeError):
        watched.node.disk.sync()
    assert watched.sampler._traces == {}
    assert watched.node.driver.transport is watched.node.transport
