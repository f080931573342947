"""The past of the members over HTTP, and what a change would do: before, after, and what is objected."""

from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.api.http.router import Api
from epoxy.api.http.routes_members_history import MembersHistoryRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.api_members import MembersPast
from epoxy.model.api_world import World, WorldLink
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, first_epoch
from epoxy.model.members import ChangeRequest, Member
from epoxy.node.members.members_admin import MembersAdmin
from epoxy.protocol.members.change_request import Amendment, Objection, apply_amendment
from epoxy.transport.wan import aws
from tests.api.http.http_bench import Answer, FakeNode, ask

REGIONS = ("us-east-1", "eu-west-1", "ap-northeast-1")
CONFIG = replace(
    first_epoch((1, 2, 3)),
    replicas=tuple([ReplicaInfo(id=i, url=f"http://10.0.0.{i}", datacenter=REGIONS[i - 1]) for i in (1, 2, 3)]),
)
PAST = MembersPast(now=2.0, started=1.0, complete=True, epochs=(), events=(), away=())


class FakeRoster(MembersAdmin):
    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.request: ChangeRequest | None = None
        self.there = {1, 2, 3}

    def change_request(self) -> ChangeRequest | None:
        return self.request

    def preview(self, given: Amendment) -> ChangeRequest | Objection:
        return apply_amendment(self.config, self.request, given, self.reached())

    def reached(self) -> set[int]:
        return self.there


def world(**trips: float | None) -> World:
    """`a12`: between 1 and 2."""
    links = [WorldLink(a=int(pair[1]), b=int(pair[2]), rtt_ms=ms, reachable=True) for pair, ms in trips.items()]
    return World(
        id=1,
        datacenter=REGIONS[0],
        epoch=1,
        clock_s=0.0,
        available=True,
        tolerated_failures=1,
        replicas=3,
        slow_quorum=2,
        fast_quorum=2,
        members=[],
        links=links,
    )


class FakeApi:
    def __init__(self, **trips: float | None) -> None:
        self.node = FakeNode()
        self.node.replica.config = CONFIG
        self.node.members_admin = self.roster = FakeRoster(CONFIG)
        self.api = Api(
            self.node, Metrics(), more=MembersHistoryRoutes(self.node, lambda: PAST, lambda: world(**trips)).table()
        )

    def ask(self, target: str) -> Answer:
        return ask(self.api, "GET", target)

    def preview(self, query: str) -> Any:
        answer = self.ask(f"/v2/members/preview?{query}")
        assert answer.status == 200, answer
        return answer.json()


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()


def floors(side: Any) -> dict[str, float | None]:
    return {row["datacenter"]: row["floor_ms"] for row in side["members"]}


def of_table(*names: str) -> dict[str, float]:
    return {name: aws.floor_ms(name, names) for name in names}


def test_the_past_is_told(fake: FakeApi) -> None:
    assert fake.ask("/v2/members/history").json() == {
        "now": 2.0,
        "started": 1.0,
        "complete": True,
        "epochs": [],
        "events": [],
        "away": [],
    }
    assert fake.ask("/v2/members/history?x=1").status == 400


def test_a_datacenter_that_is_added_by_its_name(fake: FakeApi) -> None:
    seen = fake.preview("add=us-west-2")
    assert floors(seen["before"]) == of_table(*REGIONS)
    assert floors(seen["after"]) == of_table(*REGIONS, "us-west-2")
    assert [row["id"] for row in seen["after"]["members"]] == [1, 2, 3, 4]
    assert (seen["objection"], seen["next_id"]) == (None, 4)
    assert [seen[side]["tolerated_failures"] for side in ("before", "after")] == [1, 1]
    assert [seen[side]["quorums"] for side in ("before", "after")] == [{"fast": 2, "slow": 2}, {"fast": 3, "slow": 3}]


def test_one_is_removed_and_one_is_replaced(fake: FakeApi) -> None:
    assert floors(fake.preview("remove=3")["after"]) == of_table(*REGIONS[:2])
    seen = fake.preview("add=us-west-2&remove=3&id=9")
    assert floors(seen["after"]) == of_table(*REGIONS[:2], "us-west-2")
    assert [row["id"] for row in seen["after"]["members"]] == [1, 2, 9]


def test_what_is_measured_goes_before_the_table() -> None:
    seen = FakeApi(a12=1.5, a31=1.5, a23=None).preview("add=us-west-2")
    assert {row["source"] for row in seen["before"]["members"]} == {"measured"}
    assert floors(seen["before"]) == dict.fromkeys(REGIONS, 1.5)
    assert [row["source"] for row in seen["after"]["members"]] == ["measured", "table", "table", "table"]


def test_an_address_and_a_name_that_the_table_does_not_have(fake: FakeApi) -> None:
    for place in ("http%3A%2F%2F10.0.0.9%3A7800", "mars"):
        rows = fake.preview(f"add={place}")["after"]["members"]
        assert [row["source"] for row in rows] == ["table", "table", "table", "unknown"]
        assert [row["at_most"] for row in rows] == [True, True, True, False]
        assert rows[-1]["floor_ms"] is None


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "nothing_to_do"),
        ("remove=7", "unknown_member"),
        ("add=us-west-2&id=2", "already_member"),
        ("add=http%3A%2F%2F10.0.0.2", "address_taken"),
    ],
)
def test_what_is_not_possible_is_told_beforehand(fake: FakeApi, query: str, code: str) -> None:
    seen = fake.preview(query)
    assert (seen["after"], seen["objection"]["code"]) == (None, code)
    assert seen["objection"]["message"]


def test_what_only_force_can_do_is_shown_with_the_objection(fake: FakeApi) -> None:
    fake.roster.there = {1}
    seen = fake.preview("remove=3")
    assert seen["objection"]["code"] == "would_lose_quorum"
    assert [row["id"] for row in seen["after"]["members"]] == [1, 2]
    assert (seen["after"]["tolerated_now"], seen["after"]["tolerated_failures"]) == (-1, 0)


def test_a_change_that_is_under_way_is_built_upon(fake: FakeApi) -> None:
    wanted = tuple([Member(id=i, url=f"http://10.0.0.{i}") for i in (1, 2, 3, 4)])
    fake.roster.request = ChangeRequest(members=wanted)
    seen = fake.preview("add=sa-east-1")
    assert [row["id"] for row in seen["before"]["members"]] == [1, 2, 3]
    assert [row["id"] for row in seen["after"]["members"]] == [1, 2, 3, 4, 5]
    assert (seen["next_id"], seen["after"]["tolerated_now"]) == (5, 2)


@pytest.mark.parametrize(
    "query", ["id=4", "add=", "add=" + 256 * "x", "remove=0", "remove=x", "add=http%3A%2F%2Fa%2Fb"]
)
def test_what_is_outside_the_contract_is_refused(fake: FakeApi, query: str) -> None:
    assert fake.ask(f"/v2/members/preview?{query}").status == 400


def test_a_node_whose_members_never_change() -> None:
    fake = FakeApi()
    fake.node.members_admin = None
    assert fake.ask("/v2/members/preview?remove=3").error()["code"] == "not_implemented"
