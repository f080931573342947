"""How the node is doing, for people, for monitors and for tools."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import choice, key_of
from epoxy.api.http.permissions import check_read
from epoxy.api.http.routes import JSON, KEY, OTHER_PATH, TEXT, Parameter, Route, RouteAnswer, overloaded, refusal
from epoxy.api.metrics import CONTENT_TYPE, Metrics
from epoxy.codec.txn_json import quoted
from epoxy.model.access import Access
from epoxy.model.api import Inspection, NodeReport, ReplicaView
from epoxy.node.members.lifecycle import LifecycleState
from epoxy.node.quorum_watch import WORDS
from epoxy.protocol.keys.explanation import explain

INSPECT = "/v2/inspect/{key}"
PREFIX_BYTES = len("/v2/inspect/")

PLAIN = b"text/plain; charset=utf-8"
MAX_INSPECTIONS = 8
"""Under way at a time. Each looks through a thousand rows at every replica, some milliseconds of their event loops; it
is for people, who come one by one."""

STUCK_S = 60.0
"""For one sync. Network disks that fail over pause for half a minute; after a minute a restart is worth a try. It loses
nothing that was acknowledged."""

CODES = {
    LifecycleState.REMOVED: "removed",
    LifecycleState.DISPLACED: "displaced",
    LifecycleState.REFUSED: "refused",
    LifecycleState.STOPPING: "stopping",
}
"""Of nodes that will not serve again, or not in this process."""


class StatusRoutes:
    def __init__(self, node: Backend, metrics: Metrics) -> None:
        self._node = node
        self._metrics = metrics
        self._inspecting = 0

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path=INSPECT,
                handler=self.inspect,
                kind="http_get_inspect",
                access=Access.READ,
                operation="inspectKey",
                summary="What every replica holds for a key",
                parameters=(KEY,),
                answers={
                    200: RouteAnswer("What they hold.", {JSON: Inspection}),
                    400: refusal("The request is outside the contract.", "bad_key"),
                    404: OTHER_PATH,
                    429: overloaded(),
                },
            ),
            plain_route(
                "/v2/status",
                self.status,
                "getStatus",
                "How this node and its links are doing",
                {JSON: NodeReport},
                Access.ANY,
            ),
            plain_route("/metrics", self.metrics, "getMetrics", "Prometheus metrics", {TEXT: str}, Access.ANY),
            Route(
                method="GET",
                path="/healthz",
                handler=self.healthz,
                kind="http_get_healthz",
                access=Access.PUBLIC,
                operation="getHealth",
                summary="Is the process alive: it answers, and its disk takes what it writes",
                answers={
                    200: RouteAnswer("Yes, whatever its peers do.", {TEXT: str}),
                    503: refusal("Its disk has not ended a sync for a minute.", "store_stalled"),
                },
                needs_ready=False,
            ),
            Route(
                method="GET",
                path="/readyz",
                handler=self.readyz,
                kind="http_get_readyz",
                access=Access.PUBLIC,
                operation="getReady",
                summary="Does the node serve keys, and order transactions, if they are asked for",
                parameters=(
                    Parameter("for", Literal["keys", "transactions"], "What it should be ready for.", "keys"),
                    Parameter("quorum", Literal["0", "1"], "1: it must also reach a quorum, which writes need.", "0"),
                ),
                answers={
                    200: RouteAnswer("Yes.", {TEXT: str}),
                    503: refusal("No; the message says why.", "not_ready", "no_quorum", *CODES.values()),
                },
                needs_ready=False,
            ),
        ]

    def status(self, call: ApiCall) -> None:
        call.parameters()
        call.json(200, self._node.status())

    def inspect(self, call: ApiCall) -> None:
        call.parameters()
        key = key_of(call.request.path[PREFIX_BYTES:])
        check_read(call.principal, key)
        if self._inspecting >= MAX_INSPECTIONS:
            call.overloaded(f"{MAX_INSPECTIONS} inspections are under way already")
            return
        self._inspecting += 1
        self._node.inspect(key, partial(self._inspected, call, key))

    def _inspected(self, call: ApiCall, key: bytes, views: Sequence[ReplicaView]) -> None:
        self._inspecting -= 1
        remaining = next((view.remaining for view in views if view.remaining is not None), None)
        told = explain(views, self._node.replica.config, remaining)
        call.json(200, Inspection(key=quoted(key), replicas=list(views), explanation=told))

    def metrics(self, call: ApiCall) -> None:
        call.answer(200, self._metrics.text(), content_type=CONTENT_TYPE)

    def healthz(self, call: ApiCall) -> None:
        """That it answers shows that its event loop turns. Peers, quorums and a database that nodes share do not count:
        a supervisor that restarted a node for their sake would make things worse. So would one whose probe was refused
        for its parameters: they are not looked at."""
        syncs = self._node.syncs
        stuck_s = syncs.under_way_s() if syncs is not None else 0.0
        if stuck_s > STUCK_S:
            call.fail(503, "store_stalled", f"the disk has not ended a sync for {stuck_s:.0f} s")
        else:
            call.answer(200, b"ok\n", content_type=PLAIN)

    def readyz(self, call: ApiCall) -> None:
        """Whether it serves keys; `for=transactions`: whether it orders transactions, too; `quorum=1`: whether it
        reaches a quorum, too."""
        given = call.parameters()
        wanted = choice("for", given.get(b"for", b"keys"), (b"keys", b"transactions"))
        needs_quorum = choice("quorum", given.get(b"quorum", b"0"), (b"0", b"1")) == b"1"
        if not self._node.ready:
            not_ready(call, self._node)
        elif needs_quorum and self._node.quorum.look():
            call.fail(503, "no_quorum", f"keys that are held here are read, but {WORDS}", retry_after_ms=RETRY_AFTER_MS)
        elif needs_quorum and self._is_without_database():
            message = "nothing is decided here: the database that the nodes of this datacenter share does not answer"
            call.fail(503, "no_quorum", message, retry_after_ms=RETRY_AFTER_MS)
        elif wanted == b"transactions" and self._node.txn_waits:
            message = f"keys are served, but no transactions are ordered here: {self._node.txn_waits}"
            call.fail(503, "not_ready", message, retry_after_ms=RETRY_AFTER_MS)
        else:
            call.answer(200, b"ready\n", content_type=PLAIN)

    def _is_without_database(self) -> bool:
        """Of several nodes of a datacenter: its own lease is over, by the table as it was read last."""
        sessions = self._node.sessions_of_datacenter()
        return any(each.session == self._node.session and each.lease_ms <= 0 for each in sessions)


def plain_route(
    path: str,
    handler: Callable[[ApiCall], None],
    operation: str,
    summary: str,
    content: Mapping[str, Any],
    access: Access,
) -> Route:
    """Without parameters, answered in every state of the node, always with 200. It is counted by its last word."""
    return Route(
        method="GET",
        path=path,
        handler=handler,
        kind=f"http_get_{path.rpartition('/')[2].partition('.')[0]}",
        access=access,
        operation=operation,
        summary=summary,
        answers={200: RouteAnswer(summary, content)},
        needs_ready=False,
    )


def not_ready(call: ApiCall, node: Backend) -> None:
    """Definite: the request was not begun."""
    code = CODES.get(node.lifecycle.state, "not_ready")
    call.fail(503, code, node.lifecycle.reason, retry_after_ms=RETRY_AFTER_MS)
