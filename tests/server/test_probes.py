"""Two nodes' processes ask each other, each with what a node knows of itself."""

import asyncio
from typing import Any, cast

import pytest

from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from epoxy.model.cluster import ReplicaInfo
from epoxy.model.errors import Unavailable
from epoxy.node.members.lifecycle import STARTING
from epoxy.server.probes import Probes, ask
from epoxy.transport.peers.auth import Verifier
from tests.api.http.http_bench import FakeNode
from tests.node.service_bench import settings_of
from tests.transport.http.harness import running_server

SECRET = b"0123456789abcdef"


class ProbedNode(FakeNode):
    def __init__(self) -> None:
        super().__init__()
        self.me = 1
        self.settings = settings_of(3)
        self.lifecycle = STARTING


def probes() -> Probes:
    return Probes(cast(Any, ProbedNode()), Verifier(1, SECRET), None, certificates=False)


def test_a_node_tells_who_it_is_and_who_its_members_are() -> None:
    async def story() -> None:
        here = probes()
        async with running_server(Api(FakeNode(), Metrics(), more=here.routes())) as server:
            url = f"http://127.0.0.1:{server.port}"
            told = await here.ask(url, 1)
            settings = settings_of(3).node
            assert (told.id, told.datacenter, told.url) == (1, settings.datacenter, settings.advertise_url)
            assert told.state == "starting"
            assert (await here.members_at(ReplicaInfo(id=1, url=url))).replicas == told.members.replicas

    asyncio.run(story())


def test_an_answer_of_another_release() -> None:
    async def story() -> None:
        verifier = Verifier(1, SECRET)

        def other(exchange: Any) -> None:
            signed = verifier.verify(exchange.request.headers, exchange.request.path, b"")
            exchange.respond(200, b"{}", headers=(verifier.answer(signed, 200, b"{}"),))

        async with running_server(other) as server:
            with pytest.raises(Unavailable, match="this release does not read"):
                await ask(f"http://127.0.0.1:{server.port}", 1, SECRET, None)

    asyncio.run(story())
