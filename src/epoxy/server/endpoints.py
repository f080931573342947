"""The APIs of a node and their listeners, put together: HTTP, the Redis protocol, and what all their clients share."""

import asyncio
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from urllib.parse import urlsplit

from epoxy.api.connection_metrics import ConnectionMetrics
from epoxy.api.counters import Requests
from epoxy.api.http.router import Api
from epoxy.api.http.routes import Route
from epoxy.api.metrics import Metrics
from epoxy.api.resp.limits import RespLimits
from epoxy.api.resp.server import RespServer
from epoxy.node.datacenter_node import DatacenterNode
from epoxy.node.process import descriptors
from epoxy.node.process.config import Settings
from epoxy.node.service import Node
from epoxy.server.certificates import Certificates
from epoxy.server.listeners import HandedOn, Listeners
from epoxy.transport.holdings import Holdings
from epoxy.transport.http.connections import DRAIN_POLL_S, Connections
from epoxy.transport.http.forwarder import Forwarder
from epoxy.transport.peers.forwarded_mark import ForwardedMarks
from epoxy.transport.peers.transport import Peers


class Endpoints:
    def __init__(
        self,
        settings: Settings,
        node: Node,
        metrics: Metrics,
        certificates: Certificates,
        more: Iterable[Route],
        peers: Peers | None = None,
        *,
        only: Collection[str] | None = None,
        marks: ForwardedMarks | None = None,
        gateway_url: Callable[[], str | None] | None = None,
    ) -> None:
        """`only`: the listeners that this process opens; None: all. `marks`: of requests that nodes of this datacenter
        forward to their gateway. `gateway_url`: where that is, if this node is not it."""
        self._settings = settings
        self._node = node
        most = descriptors.connections_per_port(settings.limits.connections)
        self._forwarder: Forwarder | None = None
        if gateway_url is not None and marks is not None:
            self._forwarder = Forwarder(gateway_url, certificates.for_dialing, marks.header, limit=most)
        self._api = Api(
            *(node, metrics, self._names, more, settings.access.cors_origins, settings.console.demo_url),
            forward=self._forwarder.forward if self._forwarder is not None else None,
            marks=marks,
        )
        holdings = Holdings(settings.limits.held_mib << 20)
        metrics.include(ConnectionMetrics(holdings, peers, self._forwarder))
        self.connections = Connections(most, holdings=holdings)
        limits = RespLimits(
            connections=most,
            pipeline=settings.limits.pipeline,
            request_timeout_ms=settings.resp.request_timeout_ms,
        )
        self._resp = RespServer(node, limits, holdings, settings.resp.reserve_prefixes)
        self.listeners = Listeners(settings, self._api, self._resp, certificates, self.connections, only)
        self.open = self.listeners.open
        node.access.watchers.append(self.connections.response_cache.rights_changed)
        for clear in self.caches():
            node.on_refusal(clear)
            if isinstance(node, DatacenterNode):
                node.on_handover(clear)

    def caches(self) -> list[Callable[[], None]]:
        """What empties each cache of answers."""
        return [
            cache.clear
            for cache in (self.connections.response_cache, self._resp.immutable_values, self._resp.newest_values)
        ]

    def last_call(self) -> None:
        """Each connection is closed after its next answer."""
        self.listeners.last_call()

    def close(self) -> None:
        """Stop listening, and end the streams."""
        self.listeners.close()
        self._end_streams()

    def _end_streams(self) -> None:
        """Those of the gateway, too: it may wait for this node before it ends them itself."""
        self._api.close()
        if self._forwarder is not None:
            self._forwarder.last_call()

    async def drain_clients(self) -> None:
        """Until everything that clients asked for is answered, here or by the gateway. Streams may begin meanwhile, as
        the last answer of a connection."""
        draining = asyncio.ensure_future(self.listeners.drain_clients())
        try:
            while not draining.done():
                self._end_streams()
                await asyncio.wait((draining,), timeout=DRAIN_POLL_S)
            await draining
        finally:
            draining.cancel()

    async def drain(self) -> None:
        """The same of peers."""
        await self.listeners.drain()
        if self._forwarder is not None:
            self._forwarder.close()

    def hand_on(self) -> HandedOn:
        """End the streams, and accept no more; the sockets go on listening."""
        self._end_streams()
        return self.listeners.hand_on()

    async def abort(self) -> None:
        """Close every connection now."""
        await self.listeners.abort()
        if self._forwarder is not None:
            self._forwarder.close()

    def requests(self) -> Requests:
        """Requests that the ports count themselves."""
        return self._resp.requests() | {("http_get_key", "ok"): self.connections.response_cache.served}

    def _names(self) -> Iterator[str]:
        """The host names of this node: by its settings, by this machine, and by the configuration in force."""
        node, info = self._settings.node, self._node.replica.config.info(self._settings.node.id)
        yield from (*node.allowed_hosts, *(address.host for address in node.listeners.values()), socket.gethostname())
        for url in (node.advertise_url, *(info.urls if info is not None else ())):
            yield urlsplit(url).hostname or ""
