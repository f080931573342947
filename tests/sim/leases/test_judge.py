"""The judge of leases, with what it sees made up: each of its rules can fail."""

from collections.abc import Callable

import pytest

from epoxy.model.records import Expiry, KeyState, Proposal, ProposalId
from epoxy.model.writes import NothingToDelete, Path, ReadResult, Source
from epoxy_sim.history import Delete
from epoxy_sim.keys.client import Recorder
from epoxy_sim.leases.generate import generate
from epoxy_sim.leases.judge import LeaseJudge
from epoxy_sim.simulation import Violation
from epoxy_sim.world import World

KEY = b"lock-0"
CLIENTS, ENDS = ProposalId(1, 7), ProposalId(2, 8)
GONE = NothingToDelete(committed=None, path=Path.SLOW)


class Scene:
    def __init__(self) -> None:
        self.world = World()
        self.recorder = Recorder()
        self.judge = LeaseJudge(generate(4), self.world, self.recorder)
        self.judge.asked_for.add(CLIENTS)

    def at(self, now_ms: float) -> "Scene":
        self.world.run_until(lambda: False, int(now_ms * 1000))
        self.world.now_us = int(now_ms * 1000)
        return self

    def holds(self, version: int, by: ProposalId, *, ttl_ms: int = 0) -> None:
        expiry = Expiry(ttl_ms=ttl_ms, since=version) if ttl_ms else None
        value = b"v" if by is CLIENTS else None
        made = ProposalId(by.replica_id, by.nonce + version)
        if by is CLIENTS:
            self.judge.asked_for.add(made)
        committed = Proposal(value=value, version=version, mutable=True, proposal_id=made, expiry=expiry)
        self.judge.durable(1, KEY, KeyState(committed=committed))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def broken(rule: str, step: Callable[[], object]) -> None:
    with pytest.raises(Violation) as caught:
        step()
    assert caught.value.rule == rule


def test_two_clients_believe_in_one_lease(scene: Scene) -> None:
    scene.judge.acquired(KEY, b"one", 1, 1_000_000)
    broken("two holders", lambda: scene.at(999).judge.acquired(KEY, b"two", 3, 2_000_000))
    scene.at(1001).judge.acquired(KEY, b"two", 3, 2_000_000)


def test_a_renewal_is_belief_as_well(scene: Scene) -> None:
    scene.judge.acquired(KEY, b"one", 1, 1_000_000)
    scene.at(500).judge.renewed(KEY, b"one", 2, 1_500_000)
    broken("two holders", lambda: scene.at(1200).judge.acquired(KEY, b"two", 4, 3_000_000))


def test_tokens_rise(scene: Scene) -> None:
    scene.judge.acquired(KEY, b"one", 5, 1_000_000)
    scene.judge.released(KEY, b"one")
    broken("token", lambda: scene.at(10).judge.acquired(KEY, b"two", 5, 2_000_000))


def test_an_answer_that_comes_too_late_makes_no_holder(scene: Scene) -> None:
    scene.judge.acquired(KEY, b"two", 3, 9_000_000)
    scene.at(2000).judge.acquired(KEY, b"one", 1, 1_000_000)


def test_a_holder_is_not_told_that_it_lost(scene: Scene) -> None:
    scene.judge.acquired(KEY, b"one", 1, 1_000_000)
    broken("lost while held", lambda: scene.judge.lost(KEY, b"one", GONE))
    scene.at(1001).judge.lost(KEY, b"one", GONE)


def test_what_is_protected_refuses_old_tokens_and_no_holder(scene: Scene) -> None:
    scene.judge.used(KEY, b"two", 4)
    scene.judge.used(KEY, b"one", 2)
    assert scene.judge.fenced == 1
    scene.judge.acquired(KEY, b"one", 2, 1_000_000)
    broken("fenced while held", lambda: scene.judge.used(KEY, b"one", 2))


def test_a_value_ends_when_its_time_is_over_on_every_clock(scene: Scene) -> None:
    scene.holds(1, CLIENTS, ttl_ms=1000)
    broken("early", lambda: scene.at(900).holds(2, ENDS))
    late = Scene()
    late.holds(1, CLIENTS, ttl_ms=1000)
    late.at(1200).holds(2, ENDS)
    assert late.judge.ends == 1
    ends = [each.kind for each in late.recorder.operations.values()]
    assert ends == [Delete(if_version=1)]


def test_a_value_without_an_expiry_does_not_end(scene: Scene) -> None:
    scene.holds(1, CLIENTS)
    broken("early", lambda: scene.at(90_000).holds(2, ENDS))


def test_a_renewal_begins_anew(scene: Scene) -> None:
    scene.holds(1, CLIENTS, ttl_ms=1000)
    scene.at(600).holds(2, CLIENTS, ttl_ms=1000)
    broken("early", lambda: scene.at(1200).holds(3, ENDS))


def test_what_is_to_end_does(scene: Scene) -> None:
    scene.holds(1, CLIENTS, ttl_ms=1000)
    assert not scene.judge.is_ended()
    broken("late", lambda: scene.at(3_600_000))


def test_a_read_does_not_hide_a_value_early(scene: Scene) -> None:
    """Unless a client's write has ended it, which may not be durable yet."""
    hidden = Proposal(value=None, version=1, mutable=True, proposal_id=CLIENTS)
    seen = ReadResult(committed=hidden, source=Source.LOCAL)
    scene.holds(1, CLIENTS, ttl_ms=1000)
    scene.at(900).judge.read_answered(KEY, "c1", seen)
    broken("early", lambda: scene.at(1200).holds(2, ENDS))
    for hidden_at, by in ((900, CLIENTS), (1100, ENDS)):
        other = Scene()
        other.holds(1, CLIENTS, ttl_ms=1000)
        other.at(hidden_at).judge.read_answered(KEY, "c1", seen)
        other.at(1200).holds(2, by)
