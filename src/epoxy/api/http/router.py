"""The HTTP door: one handler for everything a node serves on its port.

A request finds its route by its path alone, a key's by its prefix. What a client may have done wrong is answered here,
in one place; what the node answers is put into words by the routes.
"""

from collections.abc import Mapping

from msgspec import Struct

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import ApiCall, Route
from epoxy.api.http.cross_site import CrossSiteGuard, Names
from epoxy.api.http.inputs import BadRequest, shown
from epoxy.api.http.routes_changes import Changes
from epoxy.api.http.routes_kv import KEYS, KeyRoutes
from epoxy.api.http.routes_members import MembersRoutes
from epoxy.api.http.routes_status import INSPECT, Condition, not_ready
from epoxy.api.http.routes_txn import Transact
from epoxy.api.metrics import Metrics
from epoxy.transport.http.exchange import Exchange, Handler


class Resource(Struct, frozen=True):
    """What may be done at one address. `routes` has for each method its route and what that is counted under."""

    routes: dict[str, tuple[str, Route]]
    needs_ready: bool = False

    @property
    def allow(self) -> bytes:
        return ", ".join(sorted(self.routes)).encode()


class Api:
    """A Handler. `extra` are other handlers on the same port (peers, links, pages), by their exact path; `names`: what
    this node is called."""

    def __init__(self, node: Backend, metrics: Metrics, extra: Mapping[bytes, Handler], names: Names) -> None:
        self._node = node
        self._guard = CrossSiteGuard(names)
        self._observer = metrics.counters
        self._changes = Changes(node)
        keys, state, membership = KeyRoutes(node), Condition(node, metrics), MembersRoutes(node)
        self._key = Resource(
            reading("key", keys.get) | {"PUT": ("http_put_key", keys.put), "DELETE": ("http_delete_key", keys.delete)},
            needs_ready=True,
        )
        self._inspect = Resource(reading("inspect", state.inspect), needs_ready=True)
        self._resources = {
            b"/v2/kv": Resource(reading("keys", keys.page), needs_ready=True),
            b"/v2/changes": Resource({"GET": ("http_get_changes", self._changes.get)}, needs_ready=True),
            b"/v2/status": Resource(reading("status", state.status)),
            b"/v2/members": Resource(
                reading("members", membership.get) | {"POST": ("http_post_members", self._change_members)}
            ),
            b"/v2/txn": Resource({"POST": ("http_post_txn", Transact(node).post)}, needs_ready=True),
            b"/metrics": Resource(reading("metrics", state.metrics)),
            b"/healthz": Resource(reading("healthz", state.healthz)),
            b"/readyz": Resource(reading("readyz", state.readyz)),
            b"/openapi.json": Resource(reading("openapi", state.openapi)),
        }
        self._extra = dict(extra)
        self._membership = membership

    def __call__(self, exchange: Exchange) -> None:
        path = exchange.request.path
        if (objection := self._guard.objection(exchange.request)) is not None:
            ApiCall(exchange, "http_refused", self._observer).reject(objection)
        elif path.startswith(KEYS):
            self._serve(exchange, self._key)
        elif (handler := self._extra.get(path)) is not None:
            handler(exchange)
        elif (resource := self._resources.get(path)) is not None:
            self._serve(exchange, resource)
        elif path.startswith(INSPECT):
            self._serve(exchange, self._inspect)
        else:
            call = ApiCall(exchange, "http_unknown", self._observer)
            call.fail(404, "no_such_route", f"nothing is at '{shown(path)}'; GET /openapi.json lists what there is")

    def close(self) -> None:
        """End what would not end by itself, so that the connections can be drained."""
        self._changes.close()

    def _change_members(self, call: ApiCall) -> None:
        """Who is asked must have a say; who only wants to know need not."""
        if self._node.ready:
            self._membership.post(call)
        else:
            not_ready(call, self._node)

    def _serve(self, exchange: Exchange, resource: Resource) -> None:
        method = exchange.request.method
        kind, route = resource.routes.get(method, ("http_unknown", None))
        call = ApiCall(exchange, kind, self._observer)
        if route is None:
            message = f"{shown(method.encode())} is not possible here"
            call.fail(405, "method_not_allowed", message, headers=((b"Allow", resource.allow),))
        elif resource.needs_ready and not self._node.ready:
            not_ready(call, self._node)
        else:
            try:
                route(call)
            except BadRequest as rejected:
                call.reject(rejected)


def reading(name: str, route: Route) -> dict[str, tuple[str, Route]]:
    """HEAD is a GET whose body the transport keeps to itself."""
    return dict.fromkeys(("GET", "HEAD"), (f"http_get_{name}", route))


def build_api(
    node: Backend, metrics: Metrics, extra: Mapping[bytes, Handler] | None = None, names: Names = tuple
) -> Api:
    return Api(node, metrics, extra or {}, names)
