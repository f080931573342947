"""`epoxy members`: what it prints, what it sends, and how it exits."""

import json
from typing import Any

import pytest

from epoxy.cli import members as commands
from epoxy.cli.findings import NodeVisit
from epoxy.cli.main import run
from tests.cli.visits import visit
from tests.client.fake import FakeNode

Captured = pytest.CaptureFixture[str]


def row(replica: int, status: str = "active", **progress: Any) -> dict[str, Any]:
    return {
        "id": replica,
        "status": status,
        "url": f"http://10.0.0.{replica}:7800",
        "identity": replica,
        "datacenter": f"dc-{replica}",
        "progress": {"heard": True, "epoch": 4, **progress},
    }


def shown(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    quorums = {"quorum_policy": "optimal", "quorums": {"fast": 3, "slow": 2}, "joint": False, "previous": None}
    wanted = [each["id"] for each in rows]
    told = {"epoch": 4, "coordinator_id": 1, "wanted": wanted, "replicas": rows, "settled": True, "waiting": ""}
    return quorums | told | more


THREE = [row(1), row(2), row(3)]


SETTLED = shown(*THREE)


LEARNING = shown(
    *THREE, row(4, "learning", copied=60, sources=[1]), settled=False, waiting="1, 2, 3 of 1, 2, 3, 4 have copied"
)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "LOOK_S", 0.0)


NEWCOMER = "http://10.0.0.4:7800"


def probed(**changes: Any) -> dict[str, Any]:
    told = {"id": 4, "datacenter": "sa-east-1", "url": NEWCOMER, "cluster": "", "state": "new"}
    return told | {"members": shown(*THREE, epoch=1)} | changes


@pytest.fixture
def newcomer(node: FakeNode) -> str:
    """A member hears it."""
    node.members = [SETTLED]
    node.probe = 200, probed()
    return NEWCOMER


def test_the_list_of_a_quiet_cluster(node: FakeNode, capsys: Captured) -> None:
    node.members = [SETTLED]
    assert run(["members", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Epoch 4, 3 replicas. No change is under way."
    assert lines[-1].split() == ["3", "dc-3", "active", "unknown", "http://10.0.0.3:7800", "fine"]


def test_the_list_shows_releases_that_differ(node: FakeNode, capsys: Captured) -> None:
    rows = [{**row, "version": version} for row, version in zip(SETTLED["replicas"], ("0.1", "0.2.0", ""), strict=True)]
    node.members = [{**SETTLED, "replicas": rows}]
    assert run(["members", "list"]) == 0
    told = capsys.readouterr().out
    assert [line.split()[3] for line in told.splitlines()[2:5]] == ["0.1", "0.2.0", "unknown"]
    assert "The members run releases 0.1 and 0.2.0: an upgrade is under way" in told
    node.members = [{**SETTLED, "replicas": [{**row, "version": "0.2.0"} for row in rows]}]
    assert run(["members", "list"]) == 0
    assert "releases" not in capsys.readouterr().out


def test_the_list_while_members_change(node: FakeNode, capsys: Captured) -> None:
    node.members = [LEARNING]
    assert run(["members", "list"]) == 0
    out = capsys.readouterr().out
    assert "Changing to 1, 2, 3, 4. It waits: 1, 2, 3 of 1, 2, 3, 4 have copied." in out
    assert "60 keys copied, all keys of 1 member" in out


def test_the_list_in_json(node: FakeNode, capsys: Captured) -> None:
    node.members = [SETTLED]
    assert run(["members", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replicas"][2]["id"] == 3


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (shown(*THREE[:2], row(3) | {"progress": {"heard": False}}), "DOES NOT ANSWER"),
        (shown(*THREE[:2], row(3, epoch=3)), "in epoch 3"),
        (shown(*THREE[:2], row(3, synced=True), joint=True, settled=False), "synced"),
        (shown(*THREE[:2], row(3), joint=True, settled=False), "not synced yet"),
    ],
)
def test_what_a_member_says(node: FakeNode, capsys: Captured, changed: dict[str, Any], words: str) -> None:
    node.members = [changed]
    assert run(["members", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].rstrip().endswith(words)


def test_a_newcomer_is_asked_who_it_is_and_followed_until_it_is_a_member(
    node: FakeNode, newcomer: str, capsys: Captured
) -> None:
    node.verdict = 202, {"wanted": [1, 2, 3, 4], "epoch": 4, "queued": False}
    node.members = [LEARNING, LEARNING, shown(*THREE, row(4), epoch=6)]
    assert run(["members", "add", "4", newcomer]) == 0
    told = capsys.readouterr()
    assert node.orders == [
        {"add": [{"id": 4, "url": newcomer, "datacenter": "sa-east-1"}], "remove": [], "move": [], "force": False}
    ]
    assert told.out == "Done: epoch 6, members 1, 2, 3, 4.\n"
    assert "Written down: the members will be 1, 2, 3, 4." in told.err
    assert "epoch 4, dc-4 copying" in told.err


def test_to_replace_is_one_order(node: FakeNode, newcomer: str) -> None:
    node.verdict = 202, {"wanted": [1, 3, 4], "epoch": 4, "queued": True}
    assert run(["members", "add", "4", newcomer, "--replace", "2", "--no-wait"]) == 0
    assert node.orders[0]["remove"] == [2]


def test_to_remove(node: FakeNode, capsys: Captured) -> None:
    node.verdict = 202, {"wanted": [1, 2], "epoch": 4, "queued": True}
    node.members = [shown(*THREE, settled=False, wanted=[1, 2]), shown(*THREE[:2])]
    assert run(["members", "remove", "3", "--force"]) == 0
    assert node.orders == [{"add": [], "remove": [3], "move": [], "force": True}]
    assert "Another change is under way, and is finished or undone first." in capsys.readouterr().err


def test_to_move_is_done_when_the_others_have_the_new_address(node: FakeNode, capsys: Captured) -> None:
    """Not before, although the members are those wanted all the while."""
    node.verdict = 202, {"wanted": [1, 2, 3], "epoch": 4, "queued": False}
    moved = shown(*THREE[:2], row(3) | {"url": "http://10.9.9.9:7800"}, epoch=5)
    node.members = [SETTLED, moved]
    assert run(["members", "move", "3", "http://10.9.9.9:7800/"]) == 0
    move = {"id": 3, "url": "http://10.9.9.9:7800/"}
    assert node.orders == [{"add": [], "remove": [], "move": [move], "force": False}]
    told = capsys.readouterr()
    assert "the members will be 1, 2, 3. 3 will be at http://10.9.9.9:7800/." in told.err
    assert told.out == "Done: epoch 5, members 1, 2, 3.\n"


def test_what_is_not_possible_is_said_in_the_words_of_the_node(node: FakeNode, capsys: Captured) -> None:
    error = {"code": "unknown_member", "message": "9 is none of the members: 1, 2, 3", "definite": True}
    node.verdict = 404, {"error": error}
    assert run(["members", "remove", "9"]) == 2
    assert capsys.readouterr().err == "epoxy: 9 is none of the members: 1, 2, 3 (unknown_member)\n"


def test_a_change_goes_on_after_the_command_was_interrupted(
    node: FakeNode, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    node.members = [SETTLED]
    monkeypatch.setattr(commands, "follow", interrupt)
    assert run(["members", "remove", "3"]) == 130
    err = capsys.readouterr().err
    assert "interrupted; the change goes on" in err
    assert "INDEFINITE" not in err


def test_a_change_that_takes_too_long_goes_on(node: FakeNode, capsys: Captured) -> None:
    node.members = [LEARNING]
    node.verdict = 202, {"wanted": [1, 2, 3, 4], "epoch": 4, "queued": False}
    assert run(["members", "remove", "5", "--timeout", "0.05"]) == 5
    assert "not done in time; it goes on" in capsys.readouterr().err


def test_a_change_that_somebody_else_undoes_is_not_waited_for(node: FakeNode, capsys: Captured) -> None:
    node.members = [LEARNING, SETTLED]
    node.verdict = 202, {"wanted": [1, 2, 3, 4], "epoch": 4, "queued": False}
    assert run(["members", "remove", "5"]) == 5
    assert "not done: another change was asked for since, to 1, 2, 3\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"url": "http://10.9.9.9:7800"}, "by its own file replica 4 is at http://10.9.9.9:7800"),
        (
            {"cluster": "00000000000000aa"},
            "and the members to a cluster that was not made from a backup: start it without",
        ),
        ({"state": "active"}, "replica 4 is no newcomer: its state is active, in epoch 1"),
    ],
)
def test_a_newcomer_that_is_no_newcomer(
    node: FakeNode, newcomer: str, capsys: Captured, change: dict[str, Any], words: str
) -> None:
    node.probe = 200, probed(**change)
    assert run(["members", "add", "4", newcomer]) == 2
    assert words in capsys.readouterr().err


def test_another_node_at_the_address_of_a_newcomer(node: FakeNode, newcomer: str, capsys: Captured) -> None:
    error = {"code": "other_node", "message": "meant for replica 4; this is 7", "definite": True}
    node.probe = 409, {"error": error}
    assert run(["members", "add", "4", newcomer]) == 2
    assert capsys.readouterr().err == "epoxy: meant for replica 4; this is 7 (other_node)\n"
    assert node.orders == []


def test_a_newcomer_to_a_restored_cluster_needs_its_id(node: FakeNode, newcomer: str, capsys: Captured) -> None:
    """Otherwise the change would be written down, and wait for a node that the members refuse."""
    node.status |= {"cluster": "00000000000000aa"}
    assert run(["members", "add", "4", newcomer]) == 2
    assert 'start it with cluster.id = "00000000000000aa" in its file, and with an empty' in capsys.readouterr().err
    assert node.orders == []


def test_a_newcomer_that_is_not_there(node: FakeNode, newcomer: str, capsys: Captured) -> None:
    node.probe = 503, {"error": {"code": "unavailable", "message": "connection refused", "definite": True}}
    assert run(["members", "add", "4", newcomer]) == 1
    err = capsys.readouterr().err
    assert f"the newcomer at {newcomer} does not answer: " in err
    assert "connection refused (unavailable). Start it first" in err
    assert node.orders == []


TWO_NODES = "http://10.0.0.4:7800", "http://10.0.0.5:7800"


@pytest.mark.parametrize("words", [TWO_NODES, [", ".join(TWO_NODES)]], ids=["repeated", "with commas"])
def test_a_newcomer_of_several_nodes(node: FakeNode, newcomer: str, words: list[str]) -> None:
    assert newcomer in TWO_NODES
    node.verdict = 202, {"wanted": [1, 2, 3, 4], "epoch": 4, "queued": False}
    assert run(["members", "add", "4", *words, "--no-wait"]) == 0
    assert node.orders[0]["add"] == [{"id": 4, "url": ",".join(TWO_NODES), "datacenter": "sa-east-1"}]


def test_an_address_that_is_named_twice(node: FakeNode, capsys: Captured) -> None:
    assert run(["members", "move", "3", "http://a", "http://b", "http://a:80"]) == 2
    assert "http://a:80 is named twice" in capsys.readouterr().err
    assert not node.orders


def test_all_addresses_of_a_member_are_shown(node: FakeNode, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = ",".join(TWO_NODES)
    node.members = [shown(*THREE[:2], row(3) | {"url": joined})]
    asked: list[str] = []

    def answer(url: str) -> NodeVisit:
        """The first of them is down."""
        asked.append(url)
        table = [{"session": 7, "url": TWO_NODES[1], "shards": 257, "gateway": True, "lease_ms": 1.0}]
        return NodeVisit(url=url, status=None) if url == TWO_NODES[0] else visit(url, nodes=table)

    monkeypatch.setattr(commands, "visit", answer)
    assert run(["members", "list"]) == 0
    told = capsys.readouterr().out
    assert ", ".join(TWO_NODES) in told
    assert "dc-3 has 1 node:" in told
    assert [TWO_NODES[1], "7", "257", "serving,", "gateway"] in [line.split() for line in told.splitlines()]
    assert asked == [*TWO_NODES]
    assert run(["members", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"]["dc-3"][0]["shards"] == 257
    node.members = [shown(*THREE[:2], row(3, heard=False) | {"url": joined})]
    asked.clear()
    assert run(["members", "list"]) == 0
    assert asked == [], "it does not answer the others either"
    capsys.readouterr()
    node.verdict = 202, {"wanted": [1, 2, 3], "epoch": 4, "queued": False}
    assert run(["members", "move", "3", f"{TWO_NODES[0]}/", TWO_NODES[1]]) == 0
