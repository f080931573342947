"""The judge of states: which histories it accepts, and which it does not."""

import pytest

from epoxy.codec.home_records import encode
from epoxy.model.envoy_messages import Start
from epoxy.model.homes import DatacenterLease, HomeRecord, StateRecord, datacenter_key, state_key
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import Committed, Path
from epoxy_sim.placement.state_judge import StateJudge
from epoxy_sim.placement.workload import ActorDoes, ActorReport, ActorTask, Form, mark_of
from epoxy_sim.simulation import Violation
from epoxy_sim.world import World

ACTOR = bytes(19)
ONE, TWO, THREE = map(mark_of, (1, 2, 3))


class Judged:
    def __init__(self) -> None:
        self.world = World()
        self.believed: bytes | None = None
        self.judge = StateJudge(self.world, lambda _: self.believed)

    def committed(self, key: bytes, version: int, value: bytes | None) -> None:
        proposal = Proposal(value=value, version=version, mutable=True, proposal_id=ProposalId(1, version))
        self.judge.told(key, Committed(proposal=proposal, mine=True, path=Path.FAST))

    def saved(self, version: int, generation: int, *marks: str, number: int = 1) -> None:
        record = StateRecord(generation=generation, number=number, document=" ".join(marks).encode())
        self.committed(state_key(ACTOR), version, encode(record))

    def starts(self, generation: int, version: int, *marks: str, form: Form = Form.CLASS) -> None:
        state = " ".join(marks).encode() or None
        start = Start(
            actor_id=ACTOR.hex(),
            generation=generation,
            namespace="n",
            name=form.value,
            key="k",
            state=state,
            version=version,
        )
        self.judge.starts(start)

    def answered(
        self, asked_us: int, told_us: int, mark: str, *marks: str, does: ActorDoes = ActorDoes.ADD, generation: int = 1
    ) -> None:
        self.world.now_us = told_us
        report = ActorReport(form=Form.CLASS, actor_id=ACTOR.hex(), generation=generation, marks=marks)
        self.judge.answered(asked_us, ActorTask(does=does, mark=mark), report)


def test_generations_write_one_after_the_other() -> None:
    judged = Judged()
    judged.saved(1, 1)
    judged.saved(3, 2)
    with pytest.raises(Violation, match="one-writer"):
        judged.saved(4, 1, number=2)
    with pytest.raises(Violation, match="one-writer"):
        judged.saved(2, 3)


def test_nothing_of_an_earlier_generation_is_written_once_a_later_one_has_begun() -> None:
    judged = Judged()
    judged.saved(1, 1, ONE)
    judged.starts(2, 2, ONE)
    judged.saved(2, 1, ONE)  # the raise itself, which leaves the record as it is
    with pytest.raises(Violation, match="one-writer"):
        judged.saved(3, 1, ONE, TWO, number=2)


def test_an_acknowledged_change_is_in_the_state_that_the_next_generation_gets() -> None:
    judged = Judged()
    judged.answered(0, 10, ONE, ONE)
    judged.starts(2, 2, ONE)
    with pytest.raises(Violation, match="lost"):
        judged.starts(3, 3)
    judged.starts(1 << 32, 3, form=Form.LOCAL)


def test_answers_tell_beginnings_of_one_list_in_the_order_of_time() -> None:
    judged = Judged()
    judged.answered(0, 10, ONE, ONE)
    judged.answered(5, 20, TWO, ONE, TWO)
    judged.answered(6, 30, THREE, ONE, does=ActorDoes.READ)
    with pytest.raises(Violation, match="lost"):
        judged.answered(25, 40, THREE, ONE, does=ActorDoes.READ)
    with pytest.raises(Violation, match="two-lists"):
        judged.answered(25, 40, THREE, THREE, TWO)
    with pytest.raises(Violation, match="doubled"):
        judged.answered(25, 40, THREE, ONE, TWO, TWO, THREE)
    with pytest.raises(Violation, match="lost"):
        judged.answered(25, 40, THREE, ONE, TWO)


def test_what_a_turn_that_failed_has_changed_is_seen_by_no_client() -> None:
    judged = Judged()
    judged.judge.broken.add(TWO)
    with pytest.raises(Violation, match="not-undone"):
        judged.answered(0, 10, ONE, TWO, ONE)


def test_an_answer_leaves_when_its_state_is_decided() -> None:
    judged = Judged()
    report = ActorReport(form=Form.CLASS, actor_id=ACTOR.hex(), generation=1, marks=(ONE,))
    with pytest.raises(Violation, match="too-soon"):
        judged.judge.leaves(report)
    judged.saved(1, 1, ONE)
    judged.judge.leaves(report)


def test_a_datacenter_believes_in_its_lease_no_longer_than_it_lasts() -> None:
    judged = Judged()
    first, second = bytes(16), bytes(15) + b"1"
    judged.committed(datacenter_key(1), 1, encode(DatacenterLease(incarnation=first)))
    judged.believed = first
    judged.judge.serves(1)
    judged.committed(datacenter_key(1), 2, encode(DatacenterLease(incarnation=first)))
    with pytest.raises(Violation, match="lease"):
        judged.committed(datacenter_key(1), 3, None)
    with pytest.raises(Violation, match="lease"):
        judged.judge.serves(1)
    judged.committed(datacenter_key(1), 4, encode(DatacenterLease(incarnation=second)))
    judged.believed = second
    judged.judge.serves(1)
    judged.believed = None
    with pytest.raises(Violation, match="lease"):
        judged.judge.serves(1)


def test_a_lease_that_no_record_names_may_be_taken_again() -> None:
    """Its datacenter did not learn that it had it, and no other could take anything over from it."""
    judged, first = Judged(), bytes(16)
    lease = encode(DatacenterLease(incarnation=first))
    judged.committed(datacenter_key(1), 1, lease)
    judged.committed(datacenter_key(1), 2, None)
    judged.committed(datacenter_key(1), 3, lease)
    judged.believed = first
    judged.judge.serves(1)
    judged.committed(b"\xff/actor/name", 1, encode(HomeRecord(actor_id=ACTOR, label=1, lease=first)))
    judged.believed = None
    judged.committed(datacenter_key(1), 4, None)
    with pytest.raises(Violation, match="took"):
        judged.committed(datacenter_key(1), 5, lease)


def test_one_home_in_an_epoch() -> None:
    judged = Judged()
    judged.committed(b"\xff/home/name", 1, encode(HomeRecord(actor_id=ACTOR, label=1, epoch=1)))
    judged.committed(b"\xff/home/name", 2, encode(HomeRecord(actor_id=ACTOR, label=2, epoch=2)))
    with pytest.raises(Violation, match="one-home"):
        judged.committed(b"\xff/home/name", 3, encode(HomeRecord(actor_id=ACTOR, label=3, epoch=2)))


def test_an_alarm_rings_at_its_time_and_not_before() -> None:
    judged = Judged()
    judged.judge.rang(ACTOR.hex(), 10, 10)
    with pytest.raises(Violation, match="alarm"):
        judged.judge.rang(ACTOR.hex(), 10, 9)
    judged.committed(state_key(ACTOR), 1, encode(StateRecord(generation=1, alarm_ms=10)))
    assert judged.judge.overdue(ACTOR, 11)
    assert not judged.judge.overdue(ACTOR, 10)
