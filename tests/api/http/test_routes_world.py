"""The world as a route."""

from epoxy.api.http.router import Api
from epoxy.api.http.routes_world import WorldRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.api_world import World
from tests.api.http.http_bench import FakeNode, ask

WORLD = World(
    id=1,
    datacenter="eu-west-1",
    epoch=2,
    clock_s=1000.0,
    available=True,
    tolerated_failures=1,
    replicas=3,
    slow_quorum=2,
    fast_quorum=2,
    members=[],
    links=[],
)


def test_each_request_is_a_look_and_answered_with_what_is_found() -> None:
    looks = []

    def look() -> World:
        looks.append(1)
        return WORLD

    node = FakeNode()
    api = Api(node, Metrics(), more=WorldRoutes(look).table())
    assert looks == [], "a route alone looks at nothing"
    answer = ask(api, "GET", "/v2/world")
    assert (answer.status, answer.json()["datacenter"], answer.json()["tolerated_failures"]) == (200, "eu-west-1", 1)
    node.ready = False
    assert ask(api, "GET", "/v2/world").status == 200, "also while it does not serve clients"
    assert len(looks) == 2
    assert ask(api, "GET", "/v2/world?every=1").status == 400
