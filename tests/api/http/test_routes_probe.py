"""A member asks a node that is to be added."""

import asyncio

import msgspec

from epoxy.api.http.router import Api
from epoxy.api.http.routes_members import members
from epoxy.api.http.routes_probe import MAX_PROBES, ProbeRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.api import NodeProbe
from epoxy.model.errors import Unavailable
from epoxy.transport.peers.probe import ProbeRefused
from tests.api.http.http_bench import Answer, FakeNode, Wire, ask, request

TARGET = "/v2/members/probe?id=4&url=http%3A%2F%2F10.0.0.4%3A7800"


class Newcomer:
    def __init__(self, outcome: NodeProbe | Unavailable) -> None:
        self.outcome = outcome
        self.asked: list[tuple[str, int]] = []
        self.answers = asyncio.Event()

    async def probe(self, url: str, replica: int) -> NodeProbe:
        self.asked.append((url, replica))
        await self.answers.wait()
        if isinstance(self.outcome, Unavailable):
            raise self.outcome
        return self.outcome


def told() -> NodeProbe:
    node = FakeNode()
    seen = members(node.replica.config, None, node)
    return NodeProbe(id=4, datacenter="d", url="http://10.0.0.4:7800", cluster="", state="new", members=seen)


def answer_of(outcome: NodeProbe | Unavailable) -> Answer:
    async def story() -> Answer:
        newcomer = Newcomer(outcome)
        api, wire = Api(FakeNode(), Metrics(), more=ProbeRoutes(newcomer.probe).table()), Wire(request("GET", TARGET))
        newcomer.answers.set()
        api(wire.exchange)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert newcomer.asked == [("http://10.0.0.4:7800", 4)]
        return wire.answer()

    return asyncio.run(story())


def test_what_the_node_says_is_passed_on() -> None:
    answer = answer_of(told())
    assert answer.status == 200
    assert msgspec.convert(answer.json(), NodeProbe) == told()


def test_no_answer_and_another_node_are_told_apart() -> None:
    for outcome, status, code in (
        (Unavailable("connection refused"), 503, "unavailable"),
        (ProbeRefused("meant for replica 4; this is 7"), 409, "other_node"),
    ):
        answer = answer_of(outcome)
        error = answer.json()["error"]
        assert (answer.status, error["code"], error["message"], error["definite"]) == (status, code, str(outcome), True)


def test_few_are_asked_at_a_time() -> None:
    async def story() -> None:
        newcomer = Newcomer(told())
        api = Api(FakeNode(), Metrics(), more=ProbeRoutes(newcomer.probe).table())
        for _ in range(MAX_PROBES):
            api(Wire(request("GET", TARGET)).exchange)
        assert ask(api, "GET", TARGET).status == 429
        newcomer.answers.set()

    asyncio.run(story())


def test_both_parameters_are_needed_and_checked() -> None:
    api = Api(FakeNode(), Metrics(), more=ProbeRoutes(Newcomer(told()).probe).table())
    for query in ("", "?id=4", "?id=0&url=http://a", "?id=4&url=ftp://a", "?id=4&url=http://a/b"):
        assert ask(api, "GET", f"/v2/members/probe{query}").status == 400, query
