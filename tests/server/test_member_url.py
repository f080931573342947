"""A data directory that is started under another URL than its member's."""

import asyncio
from typing import Any

import pytest

from epoxy.model.api import MemberRow, Members, QuorumSizes
from epoxy.model.cluster import ClusterConfig, ReplicaInfo
from epoxy.model.errors import ConfigError, Unavailable
from epoxy.model.writes import Refused
from epoxy.node.members.members_admin import Accepted
from epoxy.protocol.members.change_request import Amendment
from epoxy.server import member_url
from epoxy.server.member_url import check_member_url, move_alone
from tests.node.bench import HandClock
from tests.node.service_bench import settings_of

HERE = settings_of(3).node.advertise_url
ELSEWHERE = "http://production:7800"
STORE = 77


def config(url: str, *, epoch: int = 4, n: int = 3) -> ClusterConfig:
    others = tuple(ReplicaInfo(id=i, url=f"http://other-{i}", identity=i) for i in range(2, n + 1))
    return ClusterConfig(epoch=epoch, coordinator_id=1, replicas=(ReplicaInfo(id=1, url=url, identity=STORE), *others))


def seen(url: str, *, epoch: int = 5, identity: int = STORE) -> Members:
    rows = (MemberRow(id=1, status="active", url=url, identity=identity, datacenter="here"),)
    sizes = QuorumSizes(fast=3, slow=2)
    return Members(
        epoch=epoch,
        coordinator_id=2,
        quorum_policy="optimal",
        quorums=sizes,
        joint=False,
        previous=None,
        wanted=(1,),
        replicas=rows,
    )


class Others:
    def __init__(self, answer: Members | None = None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def read(self, other: ReplicaInfo) -> Members:
        self.asked.append(other.url)
        if self.answer is None or other.id == 3:
            raise Unavailable("it does not answer")
        return self.answer


def check(in_force: ClusterConfig, others: Others) -> None:
    asyncio.run(check_member_url(settings_of(3), in_force, STORE, others.read))


@pytest.mark.parametrize(
    "in_force",
    [
        config(HERE),
        config(HERE + "/"),
        config(HERE.replace("http://", "HTTP://")),
        config(""),
        config(ELSEWHERE, n=1),
        ClusterConfig(epoch=4, coordinator_id=2, replicas=(ReplicaInfo(id=2, url="http://2"),)),
    ],
    ids=["same", "slash", "case", "none on record", "alone", "no member"],
)
def test_a_member_where_it_was_is_started_and_asks_no_other(in_force: ClusterConfig) -> None:
    others = Others()
    check(in_force, others)
    assert others.asked == []


def test_a_copy_elsewhere_is_refused_with_three_ways_out() -> None:
    for others in (Others(), Others(seen(ELSEWHERE))):
        with pytest.raises(ConfigError) as refused:
            check(config(ELSEWHERE), others)
        assert others.asked == ["http://other-2", "http://other-3"]
        words = str(refused.value)
        assert f"epoxy members move 1 {HERE}" in words
        assert "epoxy restore" in words
        assert "epoxy rescue" in words
        assert f'node.advertise_url = "{ELSEWHERE}"' in words


def test_a_member_that_was_moved_while_it_was_down_is_started() -> None:
    """Its own configuration is the old one. One of the others is enough: the move was decided."""
    check(config(ELSEWHERE), Others(seen(HERE)))


@pytest.mark.parametrize("answer", [seen(HERE, epoch=4), seen(HERE, identity=5)], ids=["epoch", "store"])
def test_only_a_later_configuration_with_this_store_says_that_it_moved(answer: Members) -> None:
    """A copied cluster could confirm itself otherwise, by the configuration that was copied."""
    with pytest.raises(ConfigError):
        check(config(ELSEWHERE), Others(answer))


def test_a_file_that_contradicts_itself_is_refused_before_there_is_a_cluster() -> None:
    with pytest.raises(ConfigError, match=f"{HERE} here, but cluster.members has {ELSEWHERE}"):
        check(config(ELSEWHERE, epoch=1), Others())


def test_a_fault_of_ours_is_no_answer() -> None:
    async def broken(_: ReplicaInfo) -> Members:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(check_member_url(settings_of(3), config(ELSEWHERE), STORE, broken))


class Admin:
    def __init__(self) -> None:
        self.verdicts: list[Any] = [Refused(reason="not yet"), Accepted]
        self.asked: list[Amendment] = []

    def change(self, given: Amendment, answered: Any) -> None:
        self.asked.append(given)
        answered(self.verdicts.pop(0))


def test_a_member_that_is_alone_writes_down_where_it_is_as_soon_as_it_can() -> None:
    admin, clock = Admin(), HandClock()
    move_alone(admin, settings_of(1), config(ELSEWHERE, n=1), clock)  # type: ignore[arg-type]
    clock.advance(member_url.MOVE_AGAIN_MS)
    clock.advance(member_url.MOVE_AGAIN_MS)
    assert [[(member.id, member.url) for member in given.move] for given in admin.asked] == [[(1, HERE)]] * 2
    for where in (config(HERE, n=1), config(ELSEWHERE, n=3)):
        move_alone(admin, settings_of(1), where, clock)  # type: ignore[arg-type]
    assert len(admin.asked) == 2


def test_a_node_is_at_one_of_the_addresses_of_its_member() -> None:
    others = Others()
    check(config(f"{ELSEWHERE},{HERE}"), others)
    assert not others.asked
    with pytest.raises(ConfigError, match="its data directory belongs to the member at"):
        check(config(f"{ELSEWHERE},http://production-2:7800"), Others())
    check(config(ELSEWHERE), Others(seen(f"{ELSEWHERE},{HERE}")))
