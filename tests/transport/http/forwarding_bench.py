"""Two servers on loopback, a gateway and a node that forwards to it, and a client of the second."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from epoxy.transport.http.exchange import Exchange, Handler
from epoxy.transport.http.forwarder import Forwarder
from tests.transport.http.harness import RunningServer, running_server

MARK = b"epoxy-forwarded", b"as a test says"


def mark(_exchange: Exchange, _listener: str) -> tuple[bytes, bytes]:
    return MARK


class Hop(Struct):
    """`url` is where the forwarder believes the gateway to be."""

    url: str | None
    gateway: RunningServer
    shard: RunningServer
    forwarder: Forwarder


@asynccontextmanager
async def hop_to(handler: Handler, *, limit: int = 64, patience_s: float = 0.0) -> AsyncIterator[Hop]:
    found: list[Hop] = []
    forwarder = Forwarder(lambda: found[0].url, None, mark, limit=limit, patience_s=patience_s)

    def forward(exchange: Exchange) -> None:
        forwarder.forward(exchange, "node.http")

    async with running_server(handler) as gateway, running_server(forward) as shard:
        found.append(Hop(f"http://127.0.0.1:{gateway.port}", gateway, shard, forwarder))
        try:
            yield found[0]
        finally:
            forwarder.close()
