"""The APIs of a node: what they keep of answers, and for how long."""

import asyncio

import pytest

from epoxy.api.metrics import Metrics
from epoxy.model.shards import shard_of
from epoxy.server.certificates import Certificates
from epoxy.server.endpoints import Endpoints
from tests.node.service_bench import settings_of
from tests.node.test_datacenter_node import MINE, Shared

pytestmark = pytest.mark.pure("its node's store is a class that inherits from a store")


@pytest.mark.parametrize("is_gateway", [True, False])
def test_cached_answers_go_with_their_shard(is_gateway: bool) -> None:
    """The next owner changes the key, and this node does not hear of it."""
    here = Shared(is_gateway=is_gateway)
    settings = settings_of(1)
    endpoints = Endpoints(settings, here.node, Metrics(here.node), Certificates(settings), ())
    caches = [endpoints.connections.response_cache, endpoints._resp.newest_values, endpoints._resp.immutable_values]
    for cache in caches:
        cache.keep(b"a question", b"an answer")
    here.routes.owned.discard(shard_of(MINE))
    rested: list[bool] = []
    here.node.quiesce(shard_of(MINE), rested.append)
    here.disk.sync()
    assert rested == [True]
    assert [len(cache) for cache in caches] == [0, 0, 0]


class Streams:
    """In place of the API, the forwarder and the listeners: clients are gone when no stream is open."""

    def __init__(self) -> None:
        self.here = self.forwarded = True
        self.ended = 0

    def close(self) -> None:
        self.here = False

    def last_call(self) -> None:
        self.forwarded = False
        self.ended += 1

    def hand_on(self) -> dict[str, object]:
        return {}

    async def drain_clients(self) -> None:
        """One more stream begins while the others are drained."""
        while not self.ended:
            await asyncio.sleep(0)
        self.here = self.forwarded = True
        while self.here or self.forwarded:
            await asyncio.sleep(0)


def shard_endpoints(streams: Streams) -> Endpoints:
    here, settings = Shared(is_gateway=False), settings_of(1)
    endpoints = Endpoints(settings, here.node, Metrics(here.node), Certificates(settings), ())
    for part in ("_api", "_forwarder", "listeners"):
        setattr(endpoints, part, streams)
    return endpoints


def test_a_node_that_makes_room_ends_streams_of_the_gateway_too() -> None:
    """The gateway waits for it, and ends them only after that."""
    streams = Streams()
    shard_endpoints(streams).hand_on()
    assert (streams.here, streams.forwarded) == (False, False)


def test_streams_that_begin_while_clients_are_drained_end() -> None:
    streams = Streams()

    async def story() -> None:
        async with asyncio.timeout(60):
            await shard_endpoints(streams).drain_clients()

    asyncio.run(story())
    assert (streams.here, streams.forwarded) == (False, False)
