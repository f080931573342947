"""How the node is doing, for people, for monitors and for tools."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, key_of, parameters, shown, spelled
from epoxy.api.http.openapi_actors import document
from epoxy.api.metrics import CONTENT_TYPE, Metrics
from epoxy.node.members.lifecycle import LifecycleState
from epoxy.transport.http.response import JSON

INSPECT = b"/v2/inspect/"
TEXT = b"text/plain; charset=utf-8"
MAX_INSPECTIONS = 8
"""Under way at a time. Each looks through a thousand rows at every replica, some milliseconds of their event loops; it
is for people, who come one by one."""

NO_PARAMETERS: frozenset[bytes] = frozenset()
FOR = frozenset((b"for",))


CODES = {LifecycleState.REMOVED: "removed", LifecycleState.DISPLACED: "displaced", LifecycleState.STOPPING: "stopping"}
"""For those that will not serve again, or not this process."""


class Inspection(Struct, frozen=True, kw_only=True):
    key: str
    replicas: list[Any]


class Condition:
    def __init__(self, node: Backend, metrics: Metrics) -> None:
        self._node = node
        self._metrics = metrics
        self._openapi = msgspec.json.encode(document())
        self._inspecting = 0

    def status(self, call: ApiCall) -> None:
        parameters(call.request.query, NO_PARAMETERS)
        call.json(200, self._node.status())

    def inspect(self, call: ApiCall) -> None:
        parameters(call.request.query, NO_PARAMETERS)
        key = key_of(call.request.path[len(INSPECT) :])
        if self._inspecting >= MAX_INSPECTIONS:
            message = f"{MAX_INSPECTIONS} inspections are under way already"
            call.fail(429, "overloaded", message, retry_after_ms=RETRY_AFTER_MS)
            return
        self._inspecting += 1
        self._node.inspect(key, partial(self._inspected, call, key))

    def _inspected(self, call: ApiCall, key: bytes, views: Sequence[Any]) -> None:
        self._inspecting -= 1
        call.json(200, Inspection(key=spelled(key), replicas=list(views)))

    def metrics(self, call: ApiCall) -> None:
        call.answer(200, self._metrics.text(), content_type=CONTENT_TYPE)

    def healthz(self, call: ApiCall) -> None:
        call.answer(200, b"ok\n", content_type=TEXT)

    def readyz(self, call: ApiCall) -> None:
        """Whether it serves keys; `for=transactions`: whether it orders transactions, too."""
        wanted = parameters(call.request.query, FOR).get(b"for", b"keys")
        if wanted not in (b"keys", b"transactions"):
            raise BadRequest(400, "bad_parameter", f"for is keys or transactions, not '{shown(wanted)}'")
        if not self._node.ready:
            not_ready(call, self._node)
        elif wanted == b"transactions" and self._node.txn_waits:
            message = f"keys are served, but no transactions are ordered here: {self._node.txn_waits}"
            call.fail(503, "not_ready", message, retry_after_ms=RETRY_AFTER_MS)
        else:
            call.answer(200, b"ready\n", content_type=TEXT)

    def openapi(self, call: ApiCall) -> None:
        call.answer(200, self._openapi, content_type=JSON)


def not_ready(call: ApiCall, node: Backend) -> None:
    """Definite: whatever was asked for was not begun."""
    code = CODES.get(node.lifecycle.state, "not_ready")
    call.fail(503, code, node.lifecycle.reason, retry_after_ms=RETRY_AFTER_MS)
