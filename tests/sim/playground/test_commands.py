"""What the page asks for, as JSON."""

import json
from typing import Any

import pytest

from epoxy_sim.playground.commands import Playground
from epoxy_sim.playground.rules import RULES
from epoxy_sim.playground.stories import STORIES


class Asked:
    def __init__(self) -> None:
        self.playground = Playground()

    def __call__(self, do: str, **fields: object) -> Any:
        answer = json.loads(self.playground.answer(json.dumps({"do": do, **fields})))
        assert answer.keys() in ({"ok"}, {"error"})
        return answer

    def ok(self, do: str, **fields: object) -> Any:
        return self(do, **fields)["ok"]


@pytest.fixture
def ask() -> Asked:
    return Asked()


def test_what_is_known(ask: Asked) -> None:
    known = ask.ok("known")
    assert [rule["mutant"] for rule in known["rules"]] == [rule.mutant for rule in RULES]
    assert [story["title"] for story in known["stories"]] == [story.title for story in STORIES]


def test_a_view_of_the_table(ask: Asked) -> None:
    ask.ok("open", n=3, seed=1)
    view = ask.ok("step", step="q1r:ada")
    assert (view["fast"], view["slow"], view["steps"]) == (2, 2, ["q1r:ada"])
    assert view["messages"][0] == {
        "number": 1,
        "from": "A",
        "to": "B",
        "kind": "Accept",
        "title": "Vote for 'ada'?",
        "detail": "fast round, version 1",
        "tone": "ask",
    }
    first, second, _ = view["replicas"]
    assert (first["vote"], first["changed"], first["waits"]) == ("'ada' (fast round)", ["vote"], "reserve ada")
    assert (second["vote"], second["changed"], second["up"], second["votes"]) == (None, [], True, True)
    done = ask.ok("play on")
    assert [replica["committed"] for replica in done["replicas"]] == ["'ada', version 1"] * 3
    assert done["messages"] == []
    assert ask.ok("step", step="c2")["replicas"][1]["up"] is False


def test_a_step_back_is_the_session_before_it(ask: Asked) -> None:
    ask.ok("open", n=3, seed=1)
    before = ask.ok("step", step="q1r:ada")
    ask.ok("step", step="d1")
    assert ask.ok("back") == before


def test_a_link_replays_exactly(ask: Asked) -> None:
    view = ask.ok("open", n=5, seed=3, mutant="promise-falls")
    for step in ("q1r:ada", "q3r:cy", "d1", "u2", "x3", "t"):
        view = ask.ok("step", step=step)
    link = {name: view[name] for name in ("n", "seed", "mutant", "steps")}
    assert Asked().ok("open", **link) == view


def test_a_broken_rule_is_caught_and_explained(ask: Asked) -> None:
    found = ask.ok("run", seed=0, mutant="two-fast-votes")
    assert found["failure"]["rule"] == "second vote"
    assert ask.ok("run", seed=0)["failure"] is None
    view = ask.ok("open", n=3, seed=1, mutant="two-fast-votes", steps=["q3r:cy", "q2r:bob", "d2"])
    assert view["failure"]["rule"] == "second vote"


def test_a_trace_is_plain_json(ask: Asked) -> None:
    found = ask.ok("shrink", seed=84, mutant="own-vote-missing")
    assert found["failure"]["rule"] == "agreement"
    assert {line["sender"] for line in found["trace"] if line["sender"]} <= set("ABCDEFGHI")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"do": "fly"}, "does not know 'fly'"),
        ({"do": "run", "seed": -1}, "a seed is a number"),
        ({"do": "run", "seed": "1"}, "a seed is a number"),
        ({"do": "run", "seed": 1, "workload": "x"}, "no workload is called 'x'"),
        ({"do": "run", "seed": 1, "mutant": "x"}, "no broken rule is called 'x'"),
        ({"do": "open", "seed": 1, "n": 4}, "3 or 5 replicas"),
        ({"do": "open", "seed": 1, "steps": ["t"] * 401}, "at most 400 steps"),
        ({"do": "open", "seed": 1, "steps": ["d1"]}, "no message 1 is in flight"),
        ({"do": "step", "step": None}, "'None' is no step"),
    ],
)
def test_what_cannot_be_done_is_said(ask: Asked, request_: dict[str, Any], words: str) -> None:
    assert words in ask(**request_)["error"]
