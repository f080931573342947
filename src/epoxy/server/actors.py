"""Actors in one node's process: put together, opened, and closed in order."""

import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from math import inf

from msgspec.structs import replace

from epoxy.actors.asks import Asks
from epoxy.actors.datacenter_lease import MAX_LABEL, HomeLease
from epoxy.actors.home_changes import HomeChanges
from epoxy.actors.hosting import Hosting
from epoxy.actors.orphans import Orphans
from epoxy.actors.service import ActorService
from epoxy.actors.streams import CLOSE_MOVED
from epoxy.api.home_metrics import ActorCallMetrics, HomeMetrics
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.envoy_session import EnvoySession
from epoxy.api.http.relay import LinkRelay, RelayEndpoint
from epoxy.api.http.routes import Route
from epoxy.api.http.routes_actors import ActorRoutes
from epoxy.api.metrics import Metrics
from epoxy.api.placement_metrics import PlacementMetrics
from epoxy.model.access import Access
from epoxy.model.errors import RottenRow
from epoxy.model.records import Proposal
from epoxy.model.writes import Outcome, Write
from epoxy.node.process.logs import LOGGER
from epoxy.node.service import Node
from epoxy.ports import Clock, Dice, Store
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.service import Placement
from epoxy.transport.http import websocket
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.link_context import Identity
from epoxy.transport.tls import ContextOf
from epoxy.transport.wan.emulation import Link

MAX_ENVOYS = 10_000
"""Connected to one node. With four pings in ten seconds each they are 4,000 transactions a second."""

REFUSED = "the store of this node is refused"


class ActorSystem:
    """`store` and `clock` are the node's own. Other datacenters are found by the configuration in force, and what is
    passed on between them is signed by `identity` and checked by `authenticator`."""

    def __init__(
        self,
        node: Node,
        store: Store,
        clock: Clock,
        dice: Dice,
        config: PlacementConfig,
        link: Link,
        tls: ContextOf | None,
        metrics: Metrics,
        identity: Identity,
        authenticator: Authenticator,
    ) -> None:
        self._node = node
        self._store = store
        self._open: set[EnvoySession] = set()
        node.access.watchers.append(self._look_again)
        self.max_envoys = MAX_ENVOYS
        observer = PlacementMetrics()
        metrics.include(observer)
        self._relay = LinkRelay(self._urls_of, link, tls, identity, dice, clock)
        self._placement = Placement(store, config, clock, dice, int(time.time() * 1000), observer, owner=node.me)
        self._placement.warn = LOGGER.warning
        here = node.settings.node.datacenter
        self._hosting = Hosting(store, self._placement, clock, dice, here, node.me, node)
        self._hosting.wall_ms = lambda: int(time.time() * 1000)
        if store.loads_ahead:
            # A gateway that was paused may have been replaced: two of them would keep one actor alive twice.
            self._hosting.fence = store.when_durable
        self._lease = HomeLease(LeaseKeys(node), store, clock, dice, node.me, config.home_lease_ms)
        self._lease.host(self._hosting)
        self._changes = HomeChanges(node, store, self._lease, self._hosting, dice, node.me)
        self._changes.members = lambda: [info.id for info in node.replica.config.replicas]
        self._changes.distance = self._distance
        self._changes.datacenter = node.datacenter_of
        metrics.include(HomeMetrics(self._changes))
        self._actors = ActorService(self._changes, self._relay)
        self._orphans = Orphans(self._changes, node, clock, self._names, self._actors.settle)
        self._endpoint = RelayEndpoint(self._actors, authenticator)
        self._asks = Asks(self._actors)
        self._routes = ActorRoutes(self._actors, node.datacenter_of, self._orphans.homeless)
        metrics.include(ActorCallMetrics(self._hosting.calls, lambda: self._routes.paths.sockets))

    def routes(self) -> list[Route]:
        connect = Route(
            method="GET",
            path="/v2/envoys/connect",
            handler=self._connect,
            kind="http_get_envoy_connect",
            access=Access.WORK,
            head=False,
        )
        routes = [*self._routes.table(), self._endpoint.route(), connect]
        if self._node.me > MAX_LABEL:
            return [replace(route, handler=refuse) for route in routes]
        return routes

    def start(self) -> None:
        self._placement.start()
        self._hosting.start()
        self._lease.start()
        self._orphans.start()

    def last_call(self) -> None:
        """Refuse new requests; those under way, here or in another datacenter, are still answered. WebSockets do not
        end by themselves: their clients connect to another node."""
        self._hosting.last_call()
        self._routes.paths.close(CLOSE_MOVED, "the node is stopping")

    def stop(self) -> None:
        self._lease.stop()
        self._orphans.stop()
        self._placement.stop()
        self._hosting.stop()
        self._routes.paths.close(CLOSE_MOVED, "the node is stopping")
        for session in list(self._open):
            session.close()
        self._relay.close()
        self._endpoint.close()

    def refused(self) -> None:
        """The store was refused: its rows of actors may be old, and another process may host the same ones."""
        self.last_call()
        for session in list(self._open):
            session.close(REFUSED)
        self.stop()

    def _look_again(self) -> None:
        for session in list(self._open):
            session.look_again()
        self._routes.paths.look_again()

    def _connect(self, call: ApiCall) -> None:
        if len(self._open) >= self.max_envoys:
            message = f"{self.max_envoys} envoys are connected already"
            call.fail(503, "too_many_connections", message, retry_after_ms=RETRY_AFTER_MS)
        else:
            websocket.accept(call.exchange, partial(self._welcome, call))

    def _welcome(self, call: ApiCall, socket: websocket.WebSocket) -> EnvoySession:
        session = EnvoySession(
            socket, self._hosting, self._open.discard, call.principal, call.principal_now, self._asks
        )
        self._open.add(session)
        return session

    def _names(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        """None if a row is rotten: the scrub repairs it."""
        try:
            return list(islice(self._node.replica.keyspace.everything(self._store.durable(), prefix, after), limit))
        except RottenRow:
            return []

    def _distance(self, label: int) -> float:
        rtt_ms = self._node.links.rtt_ms(label) if self._node.links.reachable(label) else None
        return rtt_ms if rtt_ms is not None else inf

    def _urls_of(self, label: int) -> tuple[str, ...] | None:
        return next((info.urls for info in self._node.replica.config.replicas if info.id == label), None)


class LeaseKeys:
    """The per-key engine for the lease of this datacenter: a write of it is not counted among those of clients. A node
    with too many of them would lose all its actors otherwise."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.peek, self.read = node.peek, node.read

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        if self._node.ready:
            self._node.driver.write(write, answered)
        else:
            self._node.write(write, answered)


def refuse(call: ApiCall) -> None:
    message = f"a node with an id above {MAX_LABEL} has no label for actors"
    call.fail(503, "not_ready", message, retry_after_ms=RETRY_AFTER_MS)
