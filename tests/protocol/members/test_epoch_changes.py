"""Every step of a change of members in words: a newcomer, a removal, a replacement, a move, and what was given up."""

import pytest
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.members import ChangeRequest, Member, MemberStatus
from epoxy.protocol.members.changes import next_step
from epoxy.protocol.members.epoch_changes import changes_between

NAMES = {1: "us", 2: "eu", 3: "ap", 4: "sa", 5: "af"}

FIRST = ClusterConfig(
    epoch=1,
    coordinator_id=1,
    replicas=tuple([ReplicaInfo(id=i, url=f"http://{i}", datacenter=NAMES[i]) for i in (1, 2, 3)]),
)


def heard(config: ClusterConfig, *also: int) -> dict[int, MemberStatus]:
    """Every member has copied everything, and is synced."""
    ids = (*config.replica_ids, *also)
    return {i: MemberStatus(identity=i, epoch=config.epoch, sources=ids, synced=True) for i in ids}


def told(before: ClusterConfig | None, after: ClusterConfig) -> list[tuple[str, str]]:
    return [(change.what, change.words) for change in changes_between(before, after, NAMES.__getitem__)]


def story(config: ClusterConfig, *wanted: int) -> tuple[list[tuple[str, str]], ClusterConfig]:
    """As a coordinator takes the members there, epoch by epoch."""
    request = ChangeRequest(members=tuple([Member(id=i, url=f"http://{i}", datacenter=NAMES[i]) for i in wanted]))
    seen = []
    while isinstance(step := next_step(config, request, heard(config, *wanted), 1), ClusterConfig):
        assert step.epoch == config.epoch + 1
        seen += told(config, step)
        config = step
    return seen, config


def identified() -> ClusterConfig:
    step = next_step(FIRST, None, heard(FIRST), 1)
    assert isinstance(step, ClusterConfig)
    return step


TOGETHER = "old and new members decide together until all is copied"


def test_the_first_epoch_and_the_disks_of_its_members() -> None:
    assert told(None, FIRST) == [("first", "us, eu and ap decide")]
    assert told(FIRST, identified()) == [("recorded", "the disks of us, eu and ap are on record")]


def test_a_newcomer_joins_copies_and_votes() -> None:
    seen, config = story(identified(), 1, 2, 3, 4)
    assert seen == [
        ("joins", "sa joins"),
        ("copies", "sa copies what the others hold"),
        ("together", f"sa begins to vote: {TOGETHER}"),
        ("votes", "sa votes now"),
    ]
    assert config.active == (1, 2, 3, 4)


def test_a_member_is_removed() -> None:
    seen, _ = story(identified(), 1, 2)
    assert seen == [("together", f"ap is being removed: {TOGETHER}"), ("removed", "ap was removed")]


def test_members_are_replaced_in_one_change() -> None:
    seen, _ = story(identified(), 1, 4, 5)
    assert seen[-2:] == [
        ("together", f"eu and ap are being replaced by sa and af: {TOGETHER}"),
        ("replaced", "sa and af have replaced eu and ap"),
    ]


def test_a_member_moves_and_a_newcomer_is_given_up() -> None:
    config = identified()
    moved = (replace(config.replicas[0], url="http://new"), *config.replicas[1:])
    assert told(config, replace(config, epoch=3, replicas=moved)) == [("moved", "us moved to http://new")]
    coming = replace(config, epoch=3, replicas=(*config.replicas, ReplicaInfo(id=4, status=ReplicaStatus.JOINING)))
    assert told(coming, replace(config, epoch=4)) == [("given_up", "sa is not asked for any more")]


def test_a_change_that_was_under_way_is_undone() -> None:
    config = identified()
    joint = replace(config, epoch=3, replicas=(*config.replicas, ReplicaInfo(id=4)), previous=(1, 2, 3))
    undone = replace(config, epoch=4)
    assert told(joint, undone) == [("undone", "the change was given up: the old members decide alone again")]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ((1, 2, 3, 4, 5), [("votes", "sa and af vote now")]),
        ((1, 2), [("removed", "ap was removed")]),
        ((1, 2, 4), [("votes", "sa votes now"), ("removed", "ap was removed")]),
    ],
)
def test_a_node_that_missed_the_epochs_between(after: tuple[int, ...], words: list[tuple[str, str]]) -> None:
    config = identified()
    infos = tuple([config.info(i) or ReplicaInfo(id=i, identity=i) for i in after])
    assert told(config, replace(config, epoch=9, replicas=infos)) == words
