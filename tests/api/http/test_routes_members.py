"""The members over HTTP: what is shown, what may be ordered, and what is said to each order."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.api.http.router import Api
from epoxy.api.http.routes_members import MAX_ASKED
from epoxy.api.metrics import Metrics
from epoxy.model.cluster import ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.members import ChangeRequest, Member, MemberStatus
from epoxy.model.writes import ConsensusFailed, Refused
from epoxy.node.members.lifecycle import Lifecycle, LifecycleState
from epoxy.node.members.members_admin import Accepted, MembersAdmin, MembersView, Verdict
from epoxy.protocol.members.change_request import Amendment, Objection
from tests.api.http.http_bench import Answer, FakeNode, Wire, ask, request

JSON = {"content_type": "application/json"}

FIRST = first_epoch((1, 2, 3))
WISH = ChangeRequest(members=tuple(Member(id=i) for i in (1, 2, 3, 4)))
LEARNING = replace(
    FIRST, epoch=4, replicas=(*FIRST.replicas, ReplicaInfo(id=4, status=ReplicaStatus.LEARNING, url="http://d"))
)


class FakeRoster(MembersAdmin):
    def __init__(self) -> None:
        self.verdict: Verdict = Accepted(request=WISH, epoch=3, queued=False)
        self.given: list[Amendment] = []
        self.later: list[Callable[[], None]] | None = None
        """Answers that wait; None: they are given at once."""

    def change_request(self) -> ChangeRequest | None:
        return WISH

    def look(self, answered: Callable[[MembersView], None]) -> None:
        heard = {4: MemberStatus(identity=9, epoch=4, sources=(1,), keys=70, copied=60)}
        look = MembersView(config=LEARNING, request=WISH, heard=heard, waiting="patience", settled=False)
        self._tell(partial(answered, look))

    def change(self, given: Amendment, answered: Callable[[Verdict], None], tries: int = 1) -> None:
        del tries
        self.given.append(given)
        self._tell(partial(answered, self.verdict))

    def _tell(self, answer: Callable[[], None]) -> None:
        if self.later is None:
            answer()
        else:
            self.later.append(answer)


class FakeApi:
    def __init__(self) -> None:
        self.node = FakeNode()
        self.node.members_admin = self.roster = FakeRoster()
        self.api = Api(self.node, Metrics())

    def get(self, target: str) -> Any:
        return ask(self.api, "GET", target).json()

    def order(self, **order: object) -> Answer:
        return ask(self.api, "POST", "/v2/members", json.dumps(order).encode(), content_type="application/json")


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()


def test_a_crowd_that_asks_all_members_is_turned_away(fake: FakeApi) -> None:
    fake.roster.later = []
    order = json.dumps({"remove": [3]}).encode()
    progress, ordered = request("GET", "/v2/members?progress=true"), request("POST", "/v2/members", order, **JSON)
    wires = [Wire(each) for each in [progress, ordered] * (MAX_ASKED // 2)]
    for wire in wires:
        fake.api(wire.exchange)
    assert [ask(fake.api, "GET", "/v2/members?progress=true").status, fake.order(remove=[3]).status] == [429, 429]
    assert fake.get("/v2/members")["epoch"] == 1, "what is known here is told"
    waiting, fake.roster.later = fake.roster.later, None
    for answer in waiting:
        answer()
    assert [wire.answer().status for wire in wires] == [200, 202] * (MAX_ASKED // 2)
    assert fake.order(remove=[3]).status == 202


def test_who_is_wanted_is_shown_beside_who_is_there(fake: FakeApi) -> None:
    shown = fake.get("/v2/members")
    assert (shown["wanted"], [row["id"] for row in shown["replicas"]]) == ([1, 2, 3, 4], [1, 2, 3])
    assert "settled" not in shown


def test_how_far_everybody_is(fake: FakeApi) -> None:
    shown = fake.get("/v2/members?progress=true")
    assert (shown["epoch"], shown["settled"], shown["waiting"]) == (4, False, "patience")
    assert [row["progress"]["heard"] for row in shown["replicas"]] == [False, False, False, True]
    assert shown["replicas"][3]["progress"] == {
        "heard": True,
        "epoch": 4,
        "keys": 70,
        "copied": 60,
        "sources": [1],
        "synced": False,
    }


def test_an_order_is_taken(fake: FakeApi) -> None:
    newcomer = {"id": 4, "url": "http://10.0.0.4:7800/", "datacenter": "sa-east-1"}
    answer = fake.order(add=[newcomer], remove=[2], force=True)
    assert (answer.status, answer.json()) == (202, {"wanted": [1, 2, 3, 4], "epoch": 3, "queued": False})
    member = Member(id=4, url="http://10.0.0.4:7800", datacenter="sa-east-1")
    assert fake.roster.given == [Amendment(add=(member,), remove=(2,), force=True)]


def test_a_member_is_moved(fake: FakeApi) -> None:
    assert fake.order(move=[{"id": 2, "url": "http://10.0.0.9:7800/"}]).status == 202
    assert fake.roster.given == [Amendment(move=(Member(id=2, url="http://10.0.0.9:7800"),))]


def test_a_member_of_several_nodes(fake: FakeApi) -> None:
    assert fake.order(move=[{"id": 2, "url": "http://a:7800/,http://b:7800"}]).status == 202
    assert fake.roster.given == [Amendment(move=(Member(id=2, url="http://a:7800,http://b:7800"),))]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"added": []}, "no order to add, remove and move members"),
        ({"remove": ["two"]}, "no order to add, remove and move members"),
        ({"remove": [0]}, "the id of a replica is a number"),
        ({"add": [{"id": 1 << 32, "url": "http://a"}]}, "the id of a replica is a number"),
        ({"add": [{"id": 4}]}, "no order to add, remove and move members"),
        ({"add": [{"id": 4, "url": "10.0.0.4:7800"}]}, "is no address of a node"),
        ({"move": [{"id": 2, "url": "10.0.0.4:7800"}]}, "is no address of a node"),
        ({"move": [{"id": 2, "url": "http://a,"}]}, "is no address of a node"),
        ({"move": [{"id": 2, "url": "http://a,http://a:80"}]}, "http://a:80 is named twice"),
        ({"move": [{"id": 2, "url": ",".join(f"http://{n}" for n in range(17))}]}, "1 to 16 addresses, not 17"),
        ({"move": [{"id": 0, "url": "http://a"}]}, "the id of a replica is a number"),
        ({"move": [{"id": 2, "url": "http://a", "datacenter": "d"}]}, "no order to add, remove and move members"),
        ({"add": [{"id": 4, "url": "http://a", "datacenter": "d" * 256}]}, "at most 255 bytes"),
    ],
)
def test_what_is_no_order(fake: FakeApi, order: dict[str, object], words: str) -> None:
    answer = fake.order(**order)
    assert (answer.status, answer.error()["code"]) == (400, "bad_request")
    assert words in answer.error()["message"]
    assert fake.roster.given == []


@pytest.mark.parametrize(
    ("verdict", "status", "code", "definite"),
    [
        (Objection(code="named_twice", words="w"), 409, "named_twice", True),
        (Objection(code="unknown_member", words="w"), 404, "unknown_member", True),
        (Objection(code="already_member", words="w"), 409, "already_member", True),
        (Objection(code="would_lose_quorum", words="w"), 409, "would_lose_quorum", True),
        (Refused(reason="w"), 503, "refused", True),
        (ConsensusFailed(reason="w"), 503, "consensus_failed", False),
    ],
)
def test_what_is_said_to_an_order(fake: FakeApi, verdict: Verdict, status: int, code: str, definite: bool) -> None:
    fake.roster.verdict = verdict
    answer = fake.order(remove=[2])
    error = answer.error()
    assert (answer.status, error["code"], error["definite"], error["message"]) == (status, code, definite, "w")


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (LifecycleState.REMOVED, "removed"),
        (LifecycleState.DISPLACED, "displaced"),
        (LifecycleState.LEARNING, "not_ready"),
    ],
)
def test_who_has_no_say_shows_the_members_and_takes_no_orders(fake: FakeApi, state: LifecycleState, code: str) -> None:
    fake.node.ready, fake.node.lifecycle = False, Lifecycle(state=state, reason="why not")
    assert fake.get("/v2/members")["epoch"] == 1
    answer = fake.order(remove=[2])
    assert (answer.status, answer.error()["code"], answer.error()["message"]) == (503, code, "why not")
    assert fake.roster.given == []


@pytest.mark.parametrize("body", [b"\xff", b'{"add": [{"id": 4, "url": "\xff"}]}', b'{"add":' + b"[" * 100_000])
def test_an_order_that_is_no_json(fake: FakeApi, body: bytes) -> None:
    told = ask(fake.api, "POST", "/v2/members", body, content_type="application/json")
    assert (told.status, told.error()["code"]) == (400, "bad_request")
    assert fake.roster.given == []
