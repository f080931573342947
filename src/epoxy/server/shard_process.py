"""The process of a node that owns shards of a datacenter and is not its gateway."""

import asyncio
import os

from epoxy.api.metrics import Metrics
from epoxy.node.process import descriptors
from epoxy.node.process.config import Settings
from epoxy.node.process.logs import LOGGER
from epoxy.runtime.coarse_timers import CoarseClock
from epoxy.server.access import log_access
from epoxy.server.datacenter import DatacenterSession
from epoxy.server.endpoints import Endpoints
from epoxy.server.listeners import HandedOn
from epoxy.server.node_process import NodeProcess, warn
from epoxy.server.peer_router import not_gateway_routes
from epoxy.transport.http.connections import DRAIN_POLL_S
from epoxy.transport.peers.forwarded_mark import ForwardedMarks


class ShardProcess(NodeProcess):
    def __init__(self, settings: Settings, session: DatacenterSession) -> None:
        super().__init__(settings, session)
        self._session = session
        clock = CoarseClock(self._clock)
        self.node = node = session.shard_node(self.settings, clock, self._dice, self._alarm)
        warn(self.settings, self.certificates.flaw(), is_new=False)
        self.metrics = Metrics(node, lambda: self.endpoints.requests())
        node.latency.then = self.metrics.counters
        self._equip(node)
        more, only = [*session.routes(), *not_gateway_routes()], session.listeners
        self.endpoints = Endpoints(
            *(self.settings, node, self.metrics, self.certificates, more),
            only=only,
            marks=ForwardedMarks(self.secrets.peer_keys),
            gateway_url=lambda: session.gateway_url,
        )

    async def start(self, handed_on: HandedOn | None = None) -> None:
        node = self.settings.node
        await self.endpoints.open(handed_on)
        self.reloading.start()
        self._session.start()
        self.node.start()
        await self._ready()
        self._session.take_up()
        LOGGER.info(
            "started",
            extra={
                "replica": node.id,
                "datacenter": node.datacenter,
                "session": self._session.ownership.session,
                "gateway": self._session.gateway_url,
                "pid": os.getpid(),
                "epoch": self.node.replica.config.epoch,
                **{name.removeprefix("node."): str(address) for name, address in node.listeners.items()},
            },
        )
        log_access(self.node)
        descriptors.log_lower_limit(self.settings.limits.connections, self.endpoints.connections.limit)

    async def stop(self, hurry: asyncio.Event) -> None:
        """Answer the requests under way, and one more of each connection: the nodes that have its keys now serve
        them."""
        self.endpoints.last_call()
        LOGGER.info("draining", extra={"writes_in_flight": self.node.in_flight})
        self.endpoints.close()
        await self._drain(hurry)
        await self.end()

    async def make_room(self, hurry: asyncio.Event) -> HandedOn:
        """For the gateway that this node becomes. Nothing is refused: requests of open connections are served until
        those close, each after its next answer, and new connections wait for the gateway. It may be the only node of
        its datacenter by now, and its clients have no other."""
        handed_on = self.endpoints.hand_on()
        await asyncio.sleep(DRAIN_POLL_S)  # connections that were accepted just now are not refused
        self.endpoints.last_call()
        LOGGER.info("draining", extra={"writes_in_flight": self.node.in_flight})
        await self._drain(hurry)
        return handed_on

    async def end(self) -> None:
        """What other nodes ask is served until here."""
        self.node.stop()
        self._session.stop()
        self.close()
        await self.endpoints.abort()  # of requests that only a gateway could have answered
        LOGGER.info("stopped")
