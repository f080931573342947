"""What agents say, passed on; and a crowd that waits for them."""

import asyncio

from epoxy.api.http.router import Api
from epoxy.api.http.routes_elect import MAX_LOOKS, ElectRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.elect_status import ElectAgent, ElectView
from tests.api.http.http_bench import FakeNode, Wire, request

VIEW = ElectView(now=7.0, agents=(ElectAgent(address="10.0.0.1:26379", status=None, trouble="gone"),))


def test_what_the_agents_say_is_passed_on_and_a_crowd_is_turned_away() -> None:
    async def story() -> None:
        answers = asyncio.Event()

        async def look() -> ElectView:
            await answers.wait()
            return VIEW

        api = Api(FakeNode(), Metrics(), more=ElectRoutes(look).table())
        wires = [Wire(request("GET", "/v2/elect")) for _ in range(MAX_LOOKS + 1)]
        for wire in wires:
            api(wire.exchange)
        assert wires[-1].answer().status == 429
        answers.set()
        await asyncio.sleep(0.01)
        assert {wire.answer().status for wire in wires[:-1]} == {200}
        assert wires[0].answer().json() == {
            "now": 7.0,
            "agents": [{"address": "10.0.0.1:26379", "status": None, "trouble": "gone"}],
        }
        again = Wire(request("GET", "/v2/elect"))
        api(again.exchange)
        await asyncio.sleep(0.01)
        assert again.answer().status == 200

    asyncio.run(story())
