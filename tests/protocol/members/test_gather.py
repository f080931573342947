"""The order in which a backup gathers, whom it asks, and how it gives up."""

from typing import Any

import pytest

from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.instances import InstanceId
from epoxy.model.members import (
    ActorRow,
    ActorsPage,
    ActorsRead,
    Frontier,
    FrontierRead,
    HeldPage,
    HeldRead,
    MemberRequest,
    Unsettled,
    UnsettledPage,
    VotesRead,
)
from epoxy.model.messages import EpochAhead, StaleEpoch
from epoxy.protocol.members import gather
from epoxy.protocol.members.digest import NOTHING
from epoxy.protocol.members.effects import (
    AskAll,
    CollectActors,
    CurrentConfig,
    Execute,
    Flow,
    Repair,
    Rest,
    Settle,
    SummariseRows,
    adopt,
    tell,
)
from epoxy.protocol.members.gather import GatherOutcome, covers

THREE, FIVE = first_epoch((1, 2, 3)), first_epoch((1, 2, 3, 4, 5))
EMPTY = UnsettledPage(keys=(), more=False)
SAME = HeldPage(entries=(), through=None)


class World:
    """Performs effects: replies by replica and kind of request. What is not there is silence."""

    def __init__(self, config: ClusterConfig, replies: dict[int, dict[type[MemberRequest], Any]]) -> None:
        self.config = config
        self.replies = replies
        self.settles = True
        self.performed: list[object] = []

    def run(self, flow: Flow[Any]) -> Any:
        result: Any = None
        try:
            while True:
                effect = flow.send(result)
                self.performed.append(effect)
                result = self.result(effect)
        except StopIteration as stop:
            return stop.value

    def result(self, effect: object) -> object:
        match effect:
            case CurrentConfig():
                return self.config
            case AskAll():
                kind = type(effect.request)
                return {each: self.replies[each][kind] for each in effect.to if kind in self.replies.get(each, {})}
            case SummariseRows():
                return (NOTHING,)
            case Settle():
                return self.settles
            case Execute():
                return True
            case _:
                return None

    def asked(self, kind: type[MemberRequest]) -> list[int]:
        """The place of each request of this kind."""
        return [
            place
            for place, each in enumerate(self.performed)
            if isinstance(each, AskAll) and isinstance(each.request, kind)
        ]


def all_answer(*members: int) -> dict[int, dict[type[MemberRequest], Any]]:
    return {each: {VotesRead: EMPTY, HeldRead: SAME} for each in members}


@pytest.mark.parametrize(
    ("config", "asked", "enough"),
    [(THREE, (1,), False), (THREE, (1, 2), True), (FIVE, (1, 2), False), (FIVE, (1, 2, 3), True)],
)
def test_every_quorum_has_one_of_the_asked(config: ClusterConfig, asked: tuple[int, ...], enough: bool) -> None:
    assert covers(config, asked) is enough


def test_votes_of_all_come_before_their_commits() -> None:
    """A vote that becomes a commit between the two would be in neither list."""
    world = World(THREE, all_answer(1, 2, 3))
    world.replies[2][VotesRead] = UnsettledPage(keys=(Unsettled(key=b"k", version=1),), more=False)
    assert world.run(gather.gather_keys(1)) == GatherOutcome(asked=(1, 2, 3))
    settles = [place for place, each in enumerate(world.performed) if isinstance(each, Settle)]
    assert len(world.asked(VotesRead)) == 3
    assert max(world.asked(VotesRead) + settles) < min(world.asked(HeldRead))


def test_a_member_that_is_away_is_left_out_and_named() -> None:
    world = World(THREE, all_answer(1, 2))
    assert world.run(gather.gather_keys(1)) == GatherOutcome(asked=(1, 2), missing=(3,))


def test_what_differs_is_learned_from_all_up_to_the_shortest_page() -> None:
    world = World(THREE, all_answer(1, 2, 3))
    world.replies[2][HeldRead] = HeldPage(entries=(), through=b"m")
    flow = gather.learn_held((2, 3))
    assert isinstance(next(flow), SummariseRows)
    flow.send((NOTHING,))
    entries: Any = ("an entry",)
    pages = {2: HeldPage(entries=(), through=b"m"), 3: HeldPage(entries=entries, through=b"k")}
    assert flow.send(pages) == Repair(entries=entries)
    assert flow.send(1) == SummariseRows(after=b"k", stretches=gather.STRETCHES)


def test_votes_that_cannot_be_settled_refuse_the_backup() -> None:
    world = World(THREE, all_answer(1, 2, 3))
    for each in (1, 2, 3):
        world.replies[each][VotesRead] = UnsettledPage(keys=(Unsettled(key=b"k", version=1),), more=False)
    world.settles = False
    outcome = world.run(gather.gather_keys(1))
    assert "could not be settled with a quorum" in outcome.reason
    assert sum(isinstance(each, Rest) and each.delay_ms == gather.AGAIN_MS for each in world.performed) == 3


def test_epochs_that_differ_are_made_equal_and_tried_again() -> None:
    newer = ClusterConfig(epoch=2, coordinator_id=1, replicas=THREE.replicas)
    world = World(THREE, all_answer(1, 2, 3))
    world.replies[2][VotesRead] = EpochAhead(epoch=1)
    world.replies[3][VotesRead] = StaleEpoch(config=newer)
    assert world.run(gather.gather_keys(1)).reason
    assert tell((2,), THREE) in world.performed
    assert adopt(newer) in world.performed


def test_a_joint_epoch_is_waited_for() -> None:
    joint = ClusterConfig(epoch=2, coordinator_id=1, replicas=THREE.replicas, previous=(1, 2, 3))
    world = World(joint, all_answer(1, 2, 3))
    assert world.run(gather.gather_keys(1)) == GatherOutcome(reason=gather.CHANGING)
    assert not world.asked(VotesRead)


def test_transactions_are_executed_up_to_the_furthest_slot_of_the_newest_term() -> None:
    world = World(FIVE, {})
    slots = {2: (InstanceId(1, 3), InstanceId(2, 1)), 3: (InstanceId(1, 2), InstanceId(3, 9)), 4: (InstanceId(1, 99),)}
    terms = {2: 7, 3: 7, 4: 6}
    world.replies = {each: {FrontierRead: Frontier(term=terms[each], slots=slots[each])} for each in slots}
    assert world.run(gather.gather_transactions(FIVE, 1)) == ""
    ends = (InstanceId(1, 3), InstanceId(2, 1), InstanceId(3, 9))
    assert world.performed[-1] == Execute(term=7, slots=ends)


def test_too_few_frontiers_are_refused() -> None:
    world = World(FIVE, {2: {FrontierRead: Frontier(term=0, slots=())}})
    assert "replica 3 and replica 4 and replica 5 do not answer" in world.run(gather.gather_transactions(FIVE, 1))


def test_actors_are_asked_of_all_others_by_pages() -> None:
    rows = (ActorRow(b"r", b"v"),)
    world = World(THREE, {2: {ActorsRead: ActorsPage(rows=rows, more=False)}})
    assert world.run(gather.gather_actors(1)) == (3,)
    assert CollectActors(source=2, rows=rows, begins=True) in world.performed
