"""`epoxy actor` and `epoxy envoy`: output and exit statuses. Real workers: tests/api/http/test_routes_actors.py."""

import json

import pytest

from epoxy.cli import actors
from epoxy.cli.main import run
from epoxy.client.actor_calls import ActorInfo
from tests.client.fake import FakeNode, problem

Captured = pytest.CaptureFixture[str]


def actor(envoy: str | None = "w-1") -> ActorInfo:
    return ActorInfo(
        id="7-1",
        namespace="default",
        name="room",
        key="lobby",
        pool="chat",
        state="running",
        datacenter="eu",
        envoy=envoy,
        generation=1,
        create_ts=0,
    )


def test_an_actor_in_words_and_in_json(capsys: Captured) -> None:
    actors.show(actor(), as_json=False, word="created")
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "created: room/lobby is running",
        "id 7-1",
        "datacenter eu",
        "home epoch 0",
        "worker w-1",
        "pool chat",
    ]
    actors.show(actor(envoy=None), as_json=False, word="found")
    assert "none yet" in capsys.readouterr().out
    actors.show(actor(), as_json=True, word="found")
    assert json.loads(capsys.readouterr().out)["key"] == "lobby"


def test_an_actor_that_does_not_exist(node: FakeNode, capsys: Captured) -> None:
    for words in (["get", "room", "lobby"], ["destroy", "room", "lobby"]):
        node.misdeeds.append(problem(404, "not_found", definite=True))
        assert run(["actor", *words]) == 4
        assert capsys.readouterr() == ("", "epoxy: there is no such actor\n")
