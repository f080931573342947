"""Leases of a client, step by step: what is asked, when it is believed, and what an unknown outcome becomes."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from epoxy.client import lease_flow
from epoxy.client.calls import Call
from epoxy.client.lease_flow import Belief, Delay, LeaseFlow, LockFlow, SessionFlow, advanced
from epoxy.client.results import Deletion, Reading, Renewed, SessionInfo, Written
from epoxy.model.errors import (
    EpoxyError,
    InvalidRequest,
    KeyExists,
    Lost,
    NoSession,
    NotObtained,
    Timeout,
    Unavailable,
    VersionMismatch,
)
from epoxy.model.writes import Path, Source


class Hand:
    """A clock that is moved by hand. Rests move it, too."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.rests: list[float] = []
        self.asked: list[str] = []

    def play(self, flow: LeaseFlow, answers: Iterable[object]) -> None:
        """Each answer is a result, an error, or a number of seconds that pass before the answer after it."""
        waiting = list(answers)
        step = advanced(flow.send, None)
        while step is not None:
            if isinstance(step, Delay):
                self.rests.append(step.seconds)
                self.now += step.seconds
                step = advanced(flow.send, None)
                continue
            self.asked.append(asked(step))
            answer = waiting.pop(0)
            while isinstance(answer, float):
                self.now += answer
                answer = waiting.pop(0)
            step = advanced(flow.throw if isinstance(answer, EpoxyError) else flow.send, answer)
        assert waiting == []


def asked(call: Call[Any]) -> str:
    return f"{call.method} {call.target.removeprefix('/v2/')}"


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    hand = Hand()
    monkeypatch.setattr(lease_flow, "uptime_s", lambda: hand.now)
    return hand


def lock(ttl: float = 10.0, wait: float | None = 0, owner: str = "") -> LockFlow:
    return LockFlow("k", ttl, wait, owner)


def written(version: int) -> Written:
    return Written(key=b"k", version=version, created=True, path=Path.FAST, latency_ms=1.0)


def renewed(version: int, *, there: bool = True) -> Renewed:
    return Renewed(key=b"k", renewed=there, version=version, ttl=10.0, latency_ms=1.0)


def found(value: bytes | None, version: int) -> Reading:
    return Reading(key=b"k", value=value, version=version, mutable=True, source=Source.QUORUM, latency_ms=1.0)


def exists(value: bytes = b"theirs", version: int = 1, ttl: float | None = None) -> KeyExists:
    return KeyExists("there", value=value, version=version, ttl=ttl)


def held(hand: Hand, version: int = 5) -> LockFlow:
    flow = lock()
    hand.play(flow.acquire(), [written(version)])
    return flow


def test_it_counts_from_before_it_sent(hand: Hand) -> None:
    flow = lock()
    hand.play(flow.acquire(), [4.0, written(5)])
    assert (flow.token, flow.held.remaining_s) == (5, 5.0), "ten seconds, less the four, less the margin of one"
    assert hand.asked == ["PUT kv/k?mode=put&if_absent=true&ttl=10000"]
    hand.now += 4.99
    assert flow.held.remaining_s > 0
    hand.now += 0.01
    assert flow.held.remaining_s == 0


def test_planted_counting_from_the_answer(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    granted = Belief.granted
    monkeypatch.setattr(Belief, "granted", lambda self, _sent_s: granted(self, hand.now))
    flow = lock()
    hand.play(flow.acquire(), [4.0, written(5)])
    assert flow.held.remaining_s > 5.0, "it would believe when a replica that counts from the write may have ended it"


def test_the_value_says_who_holds_it_and_is_never_the_same(hand: Hand) -> None:
    one, two = lock(owner="nightly"), lock()
    for flow in (one, two):
        hand.play(flow.acquire(), [written(1)])
    assert json.loads(one.value).keys() == {"owner", "host", "pid", "since", "id"}
    assert json.loads(two.value).keys() == {"host", "pid", "since", "id"}
    assert json.loads(one.value)["id"] != json.loads(two.value)["id"]


def test_a_lock_of_another_is_waited_for_by_what_is_left_of_it(hand: Hand) -> None:
    flow = lock(wait=None)
    hand.play(flow.acquire(), [exists(ttl=20.0), exists(ttl=0.2), exists(ttl=0.0), exists(), written(9)])
    long, short, over, unknown = hand.rests
    assert 0.25 <= long <= 0.5
    assert 0.1 <= short <= 0.2
    assert 0.025 <= over <= 0.05
    assert 0.25 <= unknown <= 0.5
    assert flow.token == 9


def test_the_wait_is_bounded(hand: Hand) -> None:
    flow = lock(wait=1)
    with pytest.raises(NotObtained, match=r"held for another 7\.0 s unless it is renewed") as refused:
        hand.play(flow.acquire(), [exists(ttl=7.0)] * 20)
    assert (refused.value.holder, refused.value.ttl) == (b"theirs", 7.0)
    assert sum(hand.rests) <= 1.001
    assert flow.held.remaining_s == 0


def test_with_no_wait_it_is_tried_once(hand: Hand) -> None:
    with pytest.raises(NotObtained):
        hand.play(lock(wait=0).acquire(), [exists()])
    assert hand.rests == []


def test_a_node_out_of_reach_is_an_error_at_first_and_waited_for_later(hand: Hand) -> None:
    with pytest.raises(Unavailable):
        hand.play(lock(wait=5).acquire(), [Unavailable("no")])
    hand.play(lock(wait=5).acquire(), [exists(), Unavailable("no"), written(2)])
    unknown = [Timeout("silence"), found(None, 0)]
    hand.play(lock(wait=5).acquire(), [*unknown, Unavailable("no"), written(2)])
    with pytest.raises(NotObtained, match="it may be taken for 10 s"):
        hand.play(lock(wait=5).acquire(), [*unknown, 6.0, Unavailable("no")])


class Mine:
    """Stands for the value of the lock, which is drawn when it is acquired."""

    def __init__(self, flow: LockFlow) -> None:
        self._flow = flow

    def found(self, version: int) -> Reading:
        return found(self._flow.value, version)


def test_an_unknown_outcome_is_looked_up_and_a_lock_that_was_taken_is_renewed(hand: Hand) -> None:
    flow = lock()
    steps = flow.acquire()
    assert isinstance(next(steps), Call)
    looking = steps.throw(Timeout("silence"))
    assert isinstance(looking, Call)
    assert asked(looking) == "GET kv/k?read=linearizable"
    hand.now += 60.0
    renewing = steps.send(Mine(flow).found(3))
    assert isinstance(renewing, Call)
    assert asked(renewing) == "PATCH kv/k?ttl=10000&if_version=3"
    hand.now += 1.0
    assert advanced(steps.send, renewed(4)) is None
    assert (flow.token, flow.held.remaining_s) == (4, 8.0), (
        "counted from the renewal, since when it was taken is unknown"
    )


def test_a_try_that_takes_effect_after_it_was_looked_up_is_found_at_the_next() -> None:
    flow = lock(wait=None)
    steps = flow.acquire()
    next(steps)
    steps.throw(Timeout("silence"))
    assert isinstance(steps.send(found(None, 2)), Delay)
    assert isinstance(steps.send(None), Call)
    renewing = steps.throw(exists(flow.value, 3))
    assert isinstance(renewing, Call)
    assert asked(renewing) == "PATCH kv/k?ttl=10000&if_version=3"
    assert advanced(steps.send, renewed(4)) is None
    assert flow.token == 4


def test_an_unknown_outcome_that_stays_so_is_said(hand: Hand) -> None:
    with pytest.raises(NotObtained, match="had no known outcome: it may be taken for 10 s"):
        hand.play(lock(wait=0).acquire(), [Timeout("silence"), Unavailable("nor that")])


def test_a_renewal_keeps_the_token_and_takes_the_newest_version(hand: Hand) -> None:
    flow = held(hand)
    hand.now += flow.held.due_s
    assert hand.now == pytest.approx(1000.0 + 10 / 3)
    hand.play(flow.keep(), [renewed(6)])
    assert (flow.token, flow.version, flow.held.remaining_s) == (5, 6, 9.0)
    hand.play(flow.release(), [Deletion(key=b"k", deleted=True, version=7, path=Path.FAST, latency_ms=1.0)])
    assert hand.asked[1:] == ["PATCH kv/k?ttl=10000&if_version=5", "DELETE kv/k?if_version=6"]


def test_a_renewal_with_unknown_outcome_is_tried_again_on_the_version_it_made(hand: Hand) -> None:
    flow = held(hand)
    hand.play(flow.keep(), [1.0, Timeout("silence"), VersionMismatch("", value=flow.value, version=6), renewed(7)])
    assert (flow.version, flow.token) == (7, 5)


@pytest.mark.parametrize("news", [renewed(6, there=False), VersionMismatch("", value=b"theirs", version=9)])
def test_a_lock_that_is_gone_or_another_s_is_lost_at_once(hand: Hand, news: object) -> None:
    flow = held(hand)
    with pytest.raises(Lost, match="is over, or another's"):
        hand.play(flow.keep(), [news])
    assert flow.held.remaining_s == 0


def test_a_lock_that_cannot_be_renewed_is_lost_before_its_end(hand: Hand) -> None:
    flow = held(hand)
    with pytest.raises(Lost, match="could not be renewed in time"):
        hand.play(flow.keep(), [item for _ in range(8) for item in (1.0, Timeout("silence"))])
    assert hand.now < 1010.0, "before any replica may end it"


def test_release_deletes_its_own_version_and_no_other_s(hand: Hand) -> None:
    flow = held(hand)
    hand.play(flow.release(), [VersionMismatch("", value=b"theirs", version=9)])
    assert hand.asked[1:] == ["DELETE kv/k?if_version=5"]


def test_release_after_a_renewal_with_unknown_outcome(hand: Hand) -> None:
    flow = held(hand)
    gone = Deletion(key=b"k", deleted=True, version=7, path=Path.FAST, latency_ms=1.0)
    hand.play(flow.release(), [VersionMismatch("", value=flow.value, version=6), gone])
    assert hand.asked[1:] == ["DELETE kv/k?if_version=5", "DELETE kv/k?if_version=6"]


def test_release_without_an_outcome_is_left_to_the_end_of_the_lease(hand: Hand) -> None:
    hand.play(held(hand).release(), [Timeout("silence")])


def test_a_session(hand: Hand) -> None:
    flow = SessionFlow(3.0)
    lasts = SessionInfo(id="0" * 32, ttl=3.0, remaining=3.0)
    hand.play(flow.acquire(), [1.0, lasts])
    assert flow.held.remaining_s == pytest.approx(1.7)
    hand.play(flow.keep(), [0.1, Timeout("silence"), 0.1, Unavailable("no"), lasts])
    with pytest.raises(Lost, match=r"the session 0+ is over"):
        hand.play(flow.keep(), [NoSession("over")])
    assert flow.held.remaining_s == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lock(ttl=0.4), "0.5 seconds at least, not 0.4"),
        (lambda: lock(ttl="1"), "0.5 seconds at least, not '1'"),  # type: ignore[arg-type]
        (lambda: lock(wait=-1), "wait is a number of seconds from 0 on, or None, not -1"),
        (lambda: SessionFlow(0.01), "a session lasts 0.1 to 86,400 seconds, not 0.01"),
        (lambda: LockFlow("", 1, 0, ""), "a key has 1 to 1,024 bytes, not 0"),
    ],
)
def test_bad_input(make: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        make()
