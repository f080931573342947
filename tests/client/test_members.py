"""Members, as both clients ask for them and change them."""

from typing import Any

import pytest

from epoxy.model.api import MemberProgress, MemberRow, Newcomer, Ordered
from epoxy.model.errors import InvalidRequest, Unavailable
from tests.client.both import BOTH
from tests.client.fake import FakeNode

pytestmark = pytest.mark.parametrize("client_type", BOTH)

SHOWN = {
    "epoch": 4,
    "coordinator_id": 2,
    "quorum_policy": "optimal",
    "quorums": {"fast": 2, "slow": 2},
    "joint": False,
    "previous": None,
    "wanted": [1, 4],
    "replicas": [
        {
            "id": 4,
            "status": "learning",
            "url": "http://d",
            "identity": 2**63,
            "datacenter": "dc",
            "progress": {"heard": False},
        }
    ],
    "settled": False,
    "waiting": "patience",
    "something": "newer",
}


def test_members_and_their_progress(node: FakeNode, client_type: Any) -> None:
    node.members = [SHOWN]
    with client_type(node.url) as client:
        seen = client.members(progress=True)
        client.members()
    assert (seen.epoch, seen.wanted, seen.settled, seen.waiting, seen.joint) == (4, (1, 4), False, "patience", False)
    progress = MemberProgress(heard=False)
    learner = MemberRow(id=4, status="learning", url="http://d", identity=2**63, datacenter="dc", progress=progress)
    assert seen.replicas == (learner,)
    assert node.requests == ["GET /v2/members?progress=true", "GET /v2/members?progress=false"]


def test_an_order(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        told = client.change_members(add=[Newcomer(id=4, url="http://d", datacenter="dc")], remove=[2], force=True)
    assert told == Ordered(wanted=(1, 2, 3), epoch=2, queued=False)
    assert node.orders == [
        {"add": [{"id": 4, "url": "http://d", "datacenter": "dc"}], "remove": [2], "move": [], "force": True},
    ]


def test_an_order_without_words_is_not_sent(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client, pytest.raises(InvalidRequest, match="nothing to add"):
        client.change_members()
    assert node.requests == []


@pytest.mark.parametrize(("status", "error"), [(409, InvalidRequest), (404, InvalidRequest), (503, Unavailable)])
def test_an_order_that_is_refused(node: FakeNode, client_type: Any, status: int, error: type[Exception]) -> None:
    node.verdict = status, {"error": {"code": "why_not", "message": "because", "definite": True}}
    with client_type(node.url) as client, pytest.raises(error, match=r"because \(why_not\)"):
        client.change_members(remove=[9])


def test_a_node_that_is_to_be_added_is_asked_through_a_member(node: FakeNode, client_type: Any) -> None:
    told = {"id": 4, "datacenter": "dc", "url": "http://d", "cluster": "", "state": "new", "members": SHOWN}
    node.probe = 200, told
    with client_type(node.url) as client:
        assert client.probe_node(4, "http://d:1").state == "new"
    assert node.requests == ["GET /v2/members/probe?id=4&url=http%3A%2F%2Fd%3A1"]
