"""Writes that wait: for their turn, and for each other to get out of the way."""

from collections.abc import Callable

import pytest

from epoxy.model.ballot import Ballot
from epoxy.model.messages import Accept, AcceptOk, HigherBallot, Read
from epoxy.model.writes import Committed, Consistency, ExpectedValueDoesNotMatch, Path, Refused, Write
from epoxy.node.keys.key_queue import MAX_QUEUED_PER_KEY, UNBEGUN
from epoxy.protocol.effects import Pause
from tests.node.bench import Node
from tests.node.keys.driver_bench import MINE, OTHERS, kinds, preparing, writing
from tests.protocol.keys.harness import KEY, B, C, commit, config_of, prepare, prop

# Queues


def test_writes_of_one_key_wait_for_the_round_under_way() -> None:
    node, accepts = writing()
    node.write(b"second")
    node.write(b"v")
    node.disk.sync()
    assert node.transport.sent == []
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    assert len(node.outcomes) == 1
    node.clock.advance(0)
    node.disk.sync()
    assert node.outcomes[1:] == [
        ExpectedValueDoesNotMatch(committed=MINE, path=Path.LOCAL),
        Committed(proposal=MINE, mine=False, path=Path.LOCAL),
    ]


def test_the_second_write_starts_only_when_the_first_is_answered() -> None:
    node = Node()
    node.write(b"1", mutable=True)
    node.write(b"2", mutable=True)
    node.disk.sync()
    first = node.transport.take()
    first[B].answer(AcceptOk())
    node.disk.sync()
    node.transport.take()
    node.clock.advance(0)
    node.disk.sync()
    (request,) = node.transport.take()[B].requests
    assert isinstance(request, Accept)
    assert (request.proposal.value, request.proposal.version) == (b"2", 2)


def test_other_keys_do_not_wait() -> None:
    node, _ = writing()
    node.write(key=b"other")
    node.disk.sync()
    assert {to: each.requests[0].key for to, each in node.transport.take().items()} == {B: b"other", C: b"other"}  # type: ignore[union-attr]


def test_reads_do_not_queue_behind_writes() -> None:
    node, _ = writing()
    node.read(Consistency.SKIP_CACHE)
    assert kinds(node.transport.take()) == {B: [Read], C: [Read]}


def test_a_full_queue_refuses() -> None:
    node, accepts = writing()
    for _ in range(MAX_QUEUED_PER_KEY - 1):
        node.write()
    assert node.outcomes == []
    node.write()
    (refused,) = node.outcomes
    assert isinstance(refused, Refused)
    assert str(MAX_QUEUED_PER_KEY) in refused.reason
    node.write(key=b"other")
    assert len(node.outcomes) == 1
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()
    assert len(node.outcomes) == 1 + MAX_QUEUED_PER_KEY


def test_a_client_that_writes_again_from_its_answer_gets_its_turn() -> None:
    node = Node(config=config_of(1))
    told: list[object] = []

    def again(outcome: object) -> None:
        told.append(outcome)
        if len(told) < 3:
            node.driver.write(write, again)

    write = Write(key=KEY, value=b"x")
    node.driver.write(write, again)
    node.driver.write(write, told.append)
    for _ in range(4):
        node.disk.sync()
        node.clock.advance(0)
    assert [isinstance(outcome, Committed) and outcome.mine for outcome in told] == [True, False, False]
    assert node.driver._queues == {}


def test_a_caller_that_raises_does_not_hold_up_the_others() -> None:
    node = Node(config=config_of(1))

    def broken(_: object) -> None:
        raise RuntimeError("the caller is broken")

    node.driver.write(Write(key=KEY, value=b"x"), broken)
    node.write(b"x")
    with pytest.raises(RuntimeError):
        node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()
    assert isinstance(node.outcomes[0], Committed)


class Unwanted:
    def wait(self, withdraw: Callable[[], None]) -> None:
        pass

    def begin(self) -> bool:
        return False


def test_a_write_that_is_not_wanted_any_more_passes_its_turn_on() -> None:
    node, accepts = writing()
    node.driver.write(Write(key=KEY, value=b"late"), node.outcomes.append, Unwanted())
    node.write()
    accepts[B].answer(AcceptOk())
    played_out(node)
    assert node.outcomes[1] == UNBEGUN
    assert len(node.outcomes) == 3
    assert node.state().committed == MINE


def played_out(node: Node) -> None:
    for _ in range(8):
        node.disk.sync()
        node.clock.advance(0)


def test_an_addition_is_worked_out_when_its_turn_has_come() -> None:
    node = Node(config=config_of(1))
    told: list[object] = []
    add = Write(key=KEY, value=None, mutable=True, amount=1)
    for write in (add, Write(key=KEY, value=b"10", mutable=True), add, add):
        node.driver.write(write, told.append)
    played_out(node)
    assert [isinstance(each, Committed) and each.proposal.value for each in told] == [b"1", b"10", b"11", b"12"]
    assert [isinstance(each, Committed) and each.proposal.version for each in told] == [1, 2, 3, 4]
    assert node.driver._queues == {}


# Pauses


def pause(version: int, *, key: bytes = KEY, delay_ms: float = 100.0) -> Pause:
    return Pause(delay_ms=delay_ms, key=key, version=version)


def test_a_pause_lasts_its_time() -> None:
    node, woken = Node(), list[str]()
    node.driver.sleep(pause(1), lambda: woken.append("up"))
    node.clock.advance(99)
    assert woken == []
    node.clock.advance(1)
    assert woken == ["up"]
    assert node.driver._sleepers == {}


def test_a_pause_is_cut_short_by_its_version_and_not_by_lower_ones() -> None:
    node, woken = Node(), list[str]()
    node.driver.sleep(pause(3), lambda: woken.append("at 3"))
    node.driver.sleep(pause(2), lambda: woken.append("at 2"))
    node.driver.sleep(pause(1, key=b"other"), lambda: woken.append("other"))
    for version, then in ((1, []), (2, ["at 2"]), (3, ["at 2", "at 3"])):
        node.handle_now(commit(prop(b"x", version, by=B, mutable=True)))
        node.clock.advance(0)
        assert woken == then
    node.clock.advance(200)
    assert woken == ["at 2", "at 3", "other"]
    assert node.driver._sleepers == {}


def test_a_commit_that_skips_versions_wakes_those_below_it() -> None:
    node, woken = Node(), list[int]()
    for version in (1, 4, 5):
        node.driver.sleep(pause(version), lambda version=version: woken.append(version))  # type: ignore[misc]
    node.handle_now(commit(prop(b"x", 4, by=B, mutable=True)))
    node.clock.advance(0)
    assert woken == [1, 4]


def test_a_promise_or_a_vote_wakes_nobody() -> None:
    node, woken = Node(), list[str]()
    node.driver.sleep(pause(0), lambda: woken.append("up"))
    node.handle_now(prepare(Ballot(2, B)))
    node.clock.advance(0)
    assert woken == []


def test_a_write_in_back_off_hears_of_its_rivals_commit_at_once() -> None:
    node, _, prepares = preparing()
    for to in (B, C):
        prepares[to].answer(HigherBallot(ballot=Ballot(7, C)))
    asleep_until = node.clock.pending
    node.handle_now(commit(OTHERS))
    node.clock.advance(0)
    node.disk.sync()
    assert node.outcomes == [ExpectedValueDoesNotMatch(committed=OTHERS, path=Path.SLOW)]
    assert node.clock.now < min(asleep_until)
