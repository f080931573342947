"""The planner over HTTP: with the product's table, and with a client's own."""

import json
from typing import Any

import msgspec
import pytest

from epoxy.api.http.router import Api
from epoxy.api.http.routes_plan import MAX_COMPARED, MAX_LIST_BYTES
from epoxy.api.metrics import Metrics
from epoxy.codec.round_trips import MAX_ROUND_TRIPS_BYTES
from epoxy.model.api_plan import PlanReport
from epoxy.model.planning import plan
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.round_trips import MAX_REGIONS
from epoxy.transport.wan.aws import CHOICES, TABLE
from tests.api.http.http_bench import Answer, FakeNode, ask

OURS = {"oslo": {"lima": 190.5, "perth": 310}, "lima": {"perth": 280}}
TEXT = "from,to,rtt_ms\noslo,lima,190.5\noslo,perth,310\nlima,perth,280\n"


@pytest.fixture
def api() -> Api:
    node = FakeNode()
    node.ready = False
    return Api(node, Metrics())


def post(api: Api, document: object) -> Answer:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return ask(api, "POST", "/v2/plan", body, content_type="application/json")


def floors(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.body
    return {row["region"]: row["floor_ms"] for row in answer.json()["regions"]}


def test_it_is_the_plan_of_the_command_line(api: Api) -> None:
    asked = "/v2/plan?regions=us-east-1,eu-west-1,ap-northeast-1&policy=fast-paxos&down=eu-west-1&add=1"
    found = ask(api, "GET", asked).json()
    wanted = plan(
        TABLE,
        CHOICES[3],
        policy=QuorumPolicy.FAST_PAXOS,
        down=["eu-west-1"],
        add=1,
        choices=[CHOICES[number] for number in (3, 5, 7)],
    )
    assert msgspec.convert(found, PlanReport) == wanted


def test_without_a_word_it_is_the_demo_and_with_a_number_the_best(api: Api) -> None:
    first = ask(api, "GET", "/v2/plan")
    assert floors(first) == {"us-east-1": 70.5, "eu-west-1": 70.5, "ap-northeast-1": 152.4}
    assert first.json()["choices"] == [list(CHOICES[number]) for number in (3, 5, 7)]
    assert first.json()["known"] == list(CHOICES[9])
    best = ask(api, "GET", "/v2/plan?add=5").json()
    assert [row["region"] for row in best["regions"]] == best["additions"][0]["regions"]


@pytest.mark.parametrize("round_trips", [OURS, TEXT, json.dumps(OURS)])
def test_own_round_trips(api: Api, round_trips: object) -> None:
    answer = post(api, {"round_trips": round_trips})
    assert floors(answer) == {"oslo": 190.5, "lima": 190.5, "perth": 280.0}
    assert answer.json()["known"] == ["oslo", "lima", "perth"]
    assert answer.json()["choices"] == []
    two = post(api, {"round_trips": round_trips, "regions": ["oslo", "perth"], "down": ["oslo"], "add": 0})
    assert (floors(two), two.json()["available"]) == ({"oslo": 310.0, "perth": 310.0}, False)
    assert len(floors(post(api, {"round_trips": round_trips, "add": 2}))) == 2


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("regions=us-est-1", "bad_plan", "unknown region 'us-est-1'. Did you mean"),
        ("regions=us-east-1,us-east-1", "bad_plan", "given twice"),
        ("regions=us-east-1,", "bad_plan", "unknown region ''"),
        ("regions=us-east-1&down=eu-west-1", "bad_plan", "cannot be down"),
        ("regions=us-east-1&add=9", "bad_plan", "9 regions cannot be added"),
        ("add=16", "bad_parameter", "add is a number from 0 to 15"),
        ("policy=paxos", "bad_parameter", "policy is one of optimal, fast-paxos"),
        ("region=us-east-1", "bad_parameter", "unknown parameter 'region'"),
        (f"regions={'a' * (MAX_LIST_BYTES + 1)}", "bad_parameter", "at most 15 regions"),
        (f"regions={',' * MAX_REGIONS}", "bad_parameter", "at most 15 regions, not 16"),
        ("regions=%ff", "bad_plan", "unknown region"),
    ],
)
def test_a_query_that_is_refused(api: Api, query: str, code: str, words: str) -> None:
    refused = ask(api, "GET", f"/v2/plan?{query}")
    assert (refused.status, refused.json()["error"]["code"]) == (400, code)
    assert words in refused.json()["error"]["message"]
    assert refused.json()["error"]["definite"]


LARGE = {f"r{here}": {f"r{there}": 1.0 for there in range(MAX_REGIONS)} for here in range(MAX_REGIONS)}


@pytest.mark.parametrize(
    ("document", "code", "words"),
    [
        ({}, "bad_request", "missing required field `round_trips`"),
        ({"round_trips": OURS, "more": 1}, "bad_request", "unknown field `more`"),
        ({"round_trips": OURS, "policy": "paxos"}, "bad_request", "policy"),
        ({"round_trips": {"a": {"b": -1}}}, "bad_request", "round_trips"),
        ({"round_trips": {"a": {str(number): 1 for number in range(16)}}}, "bad_request", "round_trips"),
        ({"round_trips": {"a": {}, "b": {}}}, "bad_plan", "round_trips: the round trip between a and b is missing"),
        ({"round_trips": {"a,b": {}}}, "bad_plan", "is no name of a region"),
        ({"round_trips": ",a,b\na,0,x\n"}, "bad_plan", "round_trips: line 2: 'a' to 'b': 'x' is not a number"),
        ({"round_trips": OURS, "regions": ["rome"]}, "bad_plan", "unknown region 'rome'"),
        ({"round_trips": LARGE, "add": 7}, "bad_plan", f"at most {MAX_COMPARED:,} are compared"),
        (b'{"round_trips": "\\ud800"}', "bad_request", "the body is no plan"),
    ],
)
def test_a_document_that_is_refused(api: Api, document: object, code: str, words: str) -> None:
    refused = post(api, document)
    assert (refused.status, refused.json()["error"]["code"]) == (400, code), refused.body
    assert words in refused.json()["error"]["message"]


def test_a_document_that_is_too_long_or_no_json(api: Api) -> None:
    longest = json.dumps({"round_trips": OURS}).encode().ljust(MAX_ROUND_TRIPS_BYTES)
    assert post(api, longest).status == 200
    assert post(api, longest + b" ").json()["error"]["code"] == "body_too_large"
    assert ask(api, "POST", "/v2/plan", b"{}").status == 415


def test_every_choice_from_the_table_is_within_the_limit(api: Api) -> None:
    for chosen in range(9):
        names = ",".join(CHOICES[9][:chosen])
        for add in range(0 if chosen else 1, 10 - chosen):
            assert ask(api, "GET", f"/v2/plan?regions={names}&add={add}").status == 200, (chosen, add)
