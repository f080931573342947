"""Actors in one node's process: put together, opened, and closed in order."""

import ssl
import time
from collections.abc import Callable
from functools import partial

from epoxy.actors.hosting import Hosting
from epoxy.actors.reservation import Reservations
from epoxy.actors.service import ActorService
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall, Route
from epoxy.api.http.envoy_session import EnvoySession
from epoxy.api.http.inputs import BadRequest, shown
from epoxy.api.http.relay import HttpRelay
from epoxy.api.http.routes_actors import ActorRoutes
from epoxy.api.http.routes_status import CODES
from epoxy.api.metrics import Metrics
from epoxy.api.placement_metrics import PlacementMetrics
from epoxy.node.process.logs import LOGGER
from epoxy.node.service import Node
from epoxy.ports import Clock, Dice, Store
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.service import Placement
from epoxy.transport.http import websocket
from epoxy.transport.http.exchange import Exchange, Handler
from epoxy.transport.limits import RELAY_PATH
from epoxy.transport.wan.emulation import Link

MAX_ENVOYS = 10_000
"""Connected to one node. With four pings in ten seconds each they are 4,000 transactions a second."""

MAX_LABEL = 0xFFFF
"""A datacenter's label is two bytes of an actor's id."""


class ActorsDoor:
    """`store` and `clock` are the node's own. Members are found by the configuration in force."""

    def __init__(
        self,
        node: Node,
        store: Store,
        clock: Clock,
        dice: Dice,
        config: PlacementConfig,
        link: Link,
        tls: ssl.SSLContext | None,
        metrics: Metrics,
    ) -> None:
        self._node = node
        self._metrics = metrics
        self._open: set[EnvoySession] = set()
        self.max_envoys = MAX_ENVOYS
        observer = PlacementMetrics()
        metrics.include(observer)
        self._relay = HttpRelay(self._url_of, link, tls)
        self._placement = Placement(store, config, clock, dice, int(time.time() * 1000), observer, owner=node.me)
        self._placement.warn = LOGGER.warning
        here = node.settings.node.datacenter
        self._hosting = Hosting(store, self._placement, clock, dice, here, node.me)
        self._actors = ActorService(Reservations(node, dice, node.me), self._hosting, self._relay, node.me)
        self._routes = ActorRoutes(self._actors, node.settings.datacenter_of)

    def doors(self) -> dict[bytes, Handler]:
        routes = self._routes
        resources: dict[bytes, dict[str, tuple[str, Route]]] = {
            b"/v2/actors": {
                "POST": ("http_post_actor", routes.ensure),
                "GET": ("http_get_actor", routes.get),
                "DELETE": ("http_delete_actor", routes.destroy),
            },
            b"/v2/actors/request": {"POST": ("http_post_actor_request", routes.request)},
            RELAY_PATH: {"POST": ("http_post_actor_relay", routes.relay)},
            b"/v2/envoys": {"GET": ("http_get_envoys", routes.envoys)},
            b"/v2/envoys/drain": {"POST": ("http_post_envoy_drain", routes.drain)},
        }
        doors: dict[bytes, Handler] = {path: partial(self._serve, each) for path, each in resources.items()}
        return doors | {b"/v2/envoys/connect": self._connect}

    def start(self) -> None:
        self._placement.start()
        self._hosting.start()

    def last_call(self) -> None:
        """What was asked and is under way, here or in another datacenter, is still answered."""
        self._hosting.last_call()

    def stop(self) -> None:
        self._placement.stop()
        self._hosting.stop()
        for session in list(self._open):
            session.close()
        self._relay.close()

    def _serve(self, resource: dict[str, tuple[str, Route]], exchange: Exchange) -> None:
        method = exchange.request.method
        kind, route = resource.get(method, ("http_unknown", None))
        call = ApiCall(exchange, kind, self._metrics.counters)
        if route is None:
            message = f"{shown(method.encode())} is not possible here"
            allow = ", ".join(sorted(resource)).encode()
            call.fail(405, "method_not_allowed", message, headers=((b"Allow", allow),))
        elif not self._able(lambda code, reason: call.fail(503, code, reason, retry_after_ms=RETRY_AFTER_MS)):
            return
        else:
            try:
                route(call)
            except BadRequest as rejected:
                call.reject(rejected)

    def _connect(self, exchange: Exchange) -> None:
        if not self._able(lambda code, reason: exchange.fail(503, code, reason)):
            return
        if len(self._open) >= self.max_envoys:
            exchange.fail(503, "too_many_connections", f"{self.max_envoys} envoys are connected already")
            return
        websocket.accept(exchange, self._welcome)

    def _welcome(self, socket: websocket.WebSocket) -> EnvoySession:
        session = EnvoySession(socket, self._hosting, self._open.discard)
        self._open.add(session)
        return session

    def _able(self, refuse: Callable[[str, str], None]) -> bool:
        if not self._node.ready:
            standing = self._node.lifecycle
            refuse(CODES.get(standing.state, "not_ready"), standing.reason)
        elif self._node.me > MAX_LABEL:
            refuse("not_ready", f"a node with an id above {MAX_LABEL} has no label for actors")
        else:
            return True
        return False

    def _url_of(self, label: int) -> str | None:
        return next((info.url for info in self._node.replica.config.replicas if info.id == label), None)
