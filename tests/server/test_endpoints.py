"""The APIs of a node: what they keep of answers, and for how long."""

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
