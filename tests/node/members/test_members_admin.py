"""Orders of an operator, at a cluster of one member, where everything is decided at once."""

import pytest

from epoxy.model.cluster import ReplicaStatus, first_epoch
from epoxy.model.members import ChangeRequest, Member, MemberStatus
from epoxy.model.writes import ConsensusFailed, Refused, Write
from epoxy.node.members import config_record, members_admin
from epoxy.node.members.members_admin import MAX_TRIES, Accepted, MembersAdmin, MembersView, Verdict
from epoxy.protocol.members.change_request import Amendment, Objection
from tests.node.members.test_member import Bench
from tests.protocol.keys.harness import A, B, C

SECOND = Member(id=B, url="http://b", datacenter="east")
THIRD = Member(id=C, url="http://c")


class Desk:
    def __init__(self, *members: int) -> None:
        self.bench = Bench(first_epoch(members or (A,)))
        self.roster = MembersAdmin(self.bench.member, lambda _: False)
        self.verdicts: list[Verdict] = []

    def order(self, *add: Member, remove: tuple[int, ...] = (), force: bool = False) -> Verdict:
        self.roster.change(Amendment(add=add, remove=remove, force=force), self.verdicts.append)
        return self.verdicts[-1]

    def look(self) -> MembersView:
        looks: list[MembersView] = []
        self.roster.look(looks.append)
        self.bench.clock.advance(60_000)
        return looks[0]


def test_an_order_is_written_down_and_acted_upon() -> None:
    desk = Desk()
    verdict = desk.order(SECOND)
    assert isinstance(verdict, Accepted)
    assert (verdict.queued, [member.id for member in verdict.request.members]) == (False, [A, B])
    assert desk.roster.change_request() == verdict.request
    desk.bench.clock.advance(1_000)
    config = desk.bench.replica.config
    info = config.info(B)
    assert info is not None
    assert (info.status, info.url, info.datacenter) == (ReplicaStatus.JOINING, "http://b", "east")


def test_the_second_order_builds_on_the_first_and_says_that_it_waits() -> None:
    desk = Desk()
    desk.order(SECOND)
    desk.bench.clock.advance(1_000)
    verdict = desk.order(THIRD)
    assert isinstance(verdict, Accepted)
    assert (verdict.queued, [member.id for member in verdict.request.members]) == (True, [A, B, C])


def test_what_is_objected_to_is_not_written_down() -> None:
    desk = Desk()
    verdict = desk.order(remove=(A,))
    assert isinstance(verdict, Objection)
    assert verdict.code == "nobody_left"
    assert desk.roster.change_request() is None


def test_without_a_quorum_nothing_is_promised() -> None:
    desk = Desk(A, B)
    desk.roster.change(Amendment(add=(THIRD,), force=True), desk.verdicts.append)
    desk.bench.clock.advance(600_000)
    (verdict,) = desk.verdicts
    assert isinstance(verdict, Refused | ConsensusFailed)


def test_an_order_that_others_overtake_is_tried_again_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, tried, left = Desk(), 0, MAX_TRIES - 1

    def late(request: ChangeRequest, version: int) -> Write:
        nonlocal tried
        tried += 1
        return config_record.change_write(request, version + (1 if tried <= left else 0))

    monkeypatch.setattr(members_admin, "change_write", late)
    assert isinstance(desk.order(SECOND), Accepted)
    assert tried == MAX_TRIES
    left, tried = MAX_TRIES, 0
    assert desk.order(THIRD) == Refused(reason="others change the members at the same time")
    assert tried == MAX_TRIES


def test_a_look_tells_who_answers_and_what_a_change_waits_for() -> None:
    desk = Desk()
    assert not desk.look().settled, "its store is not written down yet"
    desk.bench.member.coordinate()
    assert desk.look().settled
    desk.order(SECOND)
    desk.bench.clock.advance(1_000)
    look = desk.look()
    assert (look.settled, look.waiting) == (False, f"no word from {B}")
    assert list(look.heard) == [A]
    assert isinstance(look.heard[A], MemberStatus)
