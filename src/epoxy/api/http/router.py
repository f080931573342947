"""The HTTP API: one table of routes for everything a node serves on its port.

A request finds its route by its path, that of a key by its prefix. The router answers what is wrong with a request as
such (its host, its path, its method, a parameter); the routes turn the node's outcomes into answers.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from epoxy.api.http import openapi
from epoxy.api.http.authorization import Authorization
from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.cross_site import PREFLIGHT_ANSWER, CrossSiteGuard, Names, is_preflight
from epoxy.api.http.inputs import BadRequest, shown
from epoxy.api.http.routes import JSON, Route
from epoxy.api.http.routes_changes import Changes
from epoxy.api.http.routes_console import FILES, PAGES, ConsoleRoutes
from epoxy.api.http.routes_history import HistoryRoutes
from epoxy.api.http.routes_kv import KeyRoutes
from epoxy.api.http.routes_members import MembersRoutes
from epoxy.api.http.routes_plan import PlanRoutes
from epoxy.api.http.routes_sessions import SessionRoutes
from epoxy.api.http.routes_status import StatusRoutes, not_ready, plain_route
from epoxy.api.http.routes_txn import TxnRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.access import Access
from epoxy.model.errors import InvalidRequest, RottenRow, StoreUnavailable
from epoxy.protocol.access.principal import OPEN, STRANGER
from epoxy.transport.http import response
from epoxy.transport.http.exchange import Exchange, Handler
from epoxy.transport.limits import GATEWAY_PATHS
from epoxy.transport.peers.forwarded_mark import FORWARDED, BadMark, ForwardedMarks
from epoxy.transport.peers.gateway_refusal import refuse_peer


def nowhere(call: ApiCall) -> None:
    path = shown(call.request.path)
    call.fail(404, "no_such_route", f"nothing is at '{path}'; GET /openapi.json lists what there is")


UNKNOWN = Route(method="", path="", kind="http_unknown", handler=nowhere, access=Access.PUBLIC)
REFUSED = Route(method="", path="", kind="http_refused", handler=nowhere, access=Access.PUBLIC)
PREFLIGHT = Route(method="", path="", kind="http_preflight", handler=nowhere, access=Access.PUBLIC)

Methods = dict[str, Route]
"""The routes of one path."""

Elsewhere = Callable[[Access], str]
"""The listener that serves what demands this; empty: this one does."""


Forward = Callable[[Exchange, str], None]
"""Has the gateway of this datacenter serve a request that came in at the listener of this name."""

AT_EVERY_NODE = frozenset(
    ("/v2/kv/{key}", "/healthz", "/readyz", "/metrics", "/v2/status", "/openapi.json", PAGES, FILES)
)
"""Paths that each node of a datacenter serves itself, beside those of peers; the gateway serves all others."""


class RouteMap:
    """What one listener serves: by the beginning of a path, and by exact path. Prefixes are few, and those of keys come
    first."""

    __slots__ = ("exact", "listener", "prefixes")

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.prefixes: list[tuple[bytes, Methods]] = []
        self.exact: dict[bytes, Methods] = {}

    def find(self, path: bytes) -> Methods | None:
        for prefix, methods in self.prefixes:
            if path.startswith(prefix):
                return methods
        return self.exact.get(path)


class Api:
    """A Handler that serves everything; `for_listener` makes one that serves a part. `more` are routes that need more
    than a Backend; `names`: the host names of this node; `origins`: whose pages it serves; `panel`: where the demo that
    it is part of takes orders. `forward`: this node is not the gateway of its datacenter, which serves all but
    `AT_EVERY_NODE` and decides who may have it. `marks`: of requests that other nodes of the datacenter forward."""

    def __init__(
        self,
        node: Backend,
        metrics: Metrics,
        names: Names = tuple,
        more: Iterable[Route] = (),
        origins: Iterable[str] = (),
        panel: str = "",
        forward: Forward | None = None,
        marks: ForwardedMarks | None = None,
    ) -> None:
        self._node = node
        self._forward = forward
        self._marks = marks
        self._listeners: dict[str, RouteMap] = {}
        self._guard = CrossSiteGuard(names, origins)
        self._observer = metrics.counters
        self._access = node.access
        self._authorization = Authorization(node)
        self._changes = Changes(node)
        self._document = b""
        """OpenAPI's, once it was asked for."""
        self.routes: list[Route] = [
            *KeyRoutes(node).table(),
            *SessionRoutes(node).table(),
            *self._changes.table(),
            *StatusRoutes(node, metrics).table(),
            *HistoryRoutes(node).table(),
            *MembersRoutes(node).table(),
            *TxnRoutes(node).table(),
            *ConsoleRoutes(panel).table(),
            *PlanRoutes().table(),
            plain_route("/openapi.json", self._openapi, "getOpenapi", "This document", {JSON: Any}, Access.PUBLIC),
            *more,
        ]
        self._all = self._route_map(lambda _access: "", "")

    def __call__(self, exchange: Exchange) -> None:
        self._dispatch(self._all, exchange)

    def for_listener(self, elsewhere: Elsewhere, name: str = "") -> Handler:
        """A listener that serves a part of the routes, and refuses the others with a word about where they are."""
        routes = self._listeners[name] = self._route_map(elsewhere, name)
        return partial(self._dispatch, routes)

    def _route_map(self, elsewhere: Elsewhere, listener: str) -> RouteMap:
        found = RouteMap(listener)
        routes = [moved(route, elsewhere(route.access)) for route in self.routes]
        for place, methods in by_path(routes).items():
            if "{" in place:
                found.prefixes.append((place.partition("{")[0].encode(), methods))
            else:
                found.exact[place.encode()] = methods
        return found

    def _dispatch(self, routes: RouteMap, exchange: Exchange) -> None:
        if self._marks is not None and FORWARDED in exchange.request.headers:
            self._serve_forwarded(self._marks, exchange)
            return
        if (objection := self._guard.objection(exchange.request)) is not None:
            ApiCall(exchange, REFUSED, self._observer).reject(objection)
            return
        if b"origin" in exchange.request.headers and (shared := self._guard.sharing(exchange.request)):
            exchange.shared = shared
            if is_preflight(exchange.request):
                ApiCall(exchange, PREFLIGHT, self._observer).answer(204, headers=PREFLIGHT_ANSWER)
                return
        self._find(routes, exchange)

    def _find(self, routes: RouteMap, exchange: Exchange) -> None:
        methods = routes.find(exchange.request.path)
        if self._forward is not None and not is_served_here(methods, exchange.request.method):
            self._pass_on(self._forward, exchange, routes.listener)
        elif methods is not None:
            self._serve(methods, exchange)
        else:
            nowhere(ApiCall(exchange, UNKNOWN, self._observer))

    def _pass_on(self, forward: Forward, exchange: Exchange, listener: str) -> None:
        """Who may ask is for the gateway to say. On a connection beyond the limit only this node could say it."""
        if exchange.request.path in GATEWAY_PATHS:
            refuse_peer(exchange)
        elif exchange.on_trial:
            refuse_crowd(ApiCall(exchange, REFUSED, self._observer))
        else:
            forward(exchange, listener)

    def _serve_forwarded(self, marks: ForwardedMarks, exchange: Exchange) -> None:
        """As if its client had asked at this node, at the listener of the same name. Where the request comes from is
        checked already (`cross_site`). It is not forwarded again."""
        call = ApiCall(exchange, REFUSED, self._observer)
        try:
            client = marks.read(exchange.request)
        except BadMark as bad:
            call.fail(401, "unauthenticated", str(bad))
            return
        exchange.mark_as_peer()
        exchange.forwarded = client
        if self._forward is not None:
            words = "the node that this was forwarded to is not the gateway of the datacenter; nothing was done"
            call.fail(503, "no_gateway", words, retry_after_ms=RETRY_AFTER_MS)
        else:
            self._find(self._listeners.get(client.listener, self._all), exchange)

    def close(self) -> None:
        """End the streams, which do not end by themselves, so that the connections can be drained."""
        self._changes.close()

    def _serve(self, methods: Methods, exchange: Exchange) -> None:
        method = exchange.request.method
        route = methods.get(method, UNKNOWN)
        is_open = self._access.is_open and not (route.signed or route.guarded)
        call = ApiCall(exchange, route, self._observer, OPEN if is_open else STRANGER)
        if route is UNKNOWN:
            message = f"{shown(method.encode())} is not possible here"
            allow = ", ".join(sorted(methods)).encode()
            call.fail(405, "method_not_allowed", message, headers=((b"Allow", allow),))
        elif not is_open and not self._authorization.admits(call, route):
            return
        elif route.needs_ready and not (self._node.ready or (route.local and self._node.lifecycle.reads)):
            not_ready(call, self._node)
        elif not exchange.on_trial or has_room(call, route):
            if route.is_act:
                self._authorization.watch(call, route)
            try:
                route.handler(call)
            except BadRequest as rejected:
                if rejected.status == 403 and call.on_answer is None:
                    self._authorization.refused(call, route, rejected.code)  # The message names the key.
                call.reject(rejected)
            except InvalidRequest as error:
                call.fail(400, "bad_request", str(error))
            except RottenRow as rot:
                call.fail(503, "rotten_row", f"{rot}; it is being repaired", retry_after_ms=RETRY_AFTER_MS)
            except StoreUnavailable as error:
                # Only reads wait for the database inside a handler: what writes has its answer when that is durable.
                call.fail(503, "store_unavailable", f"{error}; try again", retry_after_ms=RETRY_AFTER_MS)

    def _openapi(self, call: ApiCall) -> None:
        if not self._document:
            self._document = msgspec.json.encode(openapi.document(self.routes, is_open=self._access.is_open))
        call.answer(200, self._document, content_type=response.JSON)


def has_room(call: ApiCall, route: Route) -> bool:
    """Whether a request is served on a connection beyond the limit: those of peers are, and those of operators. Signed
    requests prove themselves. False: it is refused, and its connection is closed."""
    if route.access is Access.PEER or route.signed:
        return True
    if call.principal is not OPEN and call.principal.operates and call.exchange.admit_operator():
        return True
    refuse_crowd(call)
    return False


def refuse_crowd(call: ApiCall) -> None:
    call.exchange.close = True
    call.fail(503, "too_many_connections", "as many connections are open already as clients may have")


def is_served_here(methods: Methods | None, method: str) -> bool:
    """By a node that is not the gateway."""
    route = methods.get(method) if methods is not None else None
    return route is not None and (route.access is Access.PEER or route.path in AT_EVERY_NODE)


def misdirected(there: str, call: ApiCall) -> None:
    path = shown(call.request.path)
    call.fail(421, "wrong_listener", f"nothing was done: '{path}' is served on another address of this node, {there}")


def moved(route: Route, there: str) -> Route:
    """`there`: as `Elsewhere` has it. The refusal needs no grant."""
    if not there:
        return route
    return replace(route, handler=partial(misdirected, there), access=Access.PUBLIC, needs_ready=False)


def by_path(routes: Iterable[Route]) -> dict[str, Methods]:
    found: dict[str, Methods] = {}
    for route in routes:
        methods = found.setdefault(route.path, {})
        assert route.method not in methods, (route.method, route.path)
        methods[route.method] = route
        if route.method == "GET" and route.head:
            methods["HEAD"] = route
    return found
