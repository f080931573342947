"""Ask a node that is no member yet what it says of itself, before it is added."""

import asyncio
from collections.abc import Awaitable, Callable

from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, number
from epoxy.api.http.routes import JSON, Parameter, Route, RouteAnswer, overloaded, refusal
from epoxy.api.http.routes_members import addresses
from epoxy.model.access import Access
from epoxy.model.api import MAX_REPLICA_ID, NodeProbe, NodeUrls, ReplicaId
from epoxy.model.errors import Unavailable
from epoxy.transport.peers.probe import ProbeRefused

MAX_PROBES = 8
"""Under way at a time. Each is a connection; they are for a person who adds a node."""

Probe = Callable[[str, int], Awaitable[NodeProbe]]
"""Of the addresses of a member and the id of the replica that should run there. Raises Unavailable."""


class ProbeRoutes:
    """A member asks, not the operator's machine: the members have to reach the node, at its listener for peers."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._asking: set[asyncio.Task[None]] = set()

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/members/probe",
                handler=self.get,
                kind="http_get_probe",
                access=Access.OPERATE,
                operation="probeNode",
                summary="Ask a node that is to be added what it says of itself",
                parameters=(
                    Parameter("id", ReplicaId, "The replica that should run there.", required=True),
                    Parameter("url", NodeUrls, "Where the members reach it.", required=True),
                ),
                answers={
                    200: RouteAnswer("The node.", {JSON: NodeProbe}),
                    409: refusal("Another node runs there, or one with another secret.", "other_node"),
                    429: overloaded(),
                    503: refusal("It does not answer.", "unavailable"),
                },
                needs_ready=False,
            )
        ]

    def get(self, call: ApiCall) -> None:
        given = call.parameters()
        replica = number(given, b"id", low=1, high=MAX_REPLICA_ID)
        if replica is None or b"url" not in given:
            raise BadRequest(400, "bad_parameter", "id and url are required")
        url = addresses(given[b"url"].decode("ascii", "replace"))
        if len(self._asking) >= MAX_PROBES:
            call.overloaded(f"{MAX_PROBES} probes are under way already")
            return
        task = asyncio.get_running_loop().create_task(self._ask(call, url, replica))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, call: ApiCall, url: str, replica: int) -> None:
        try:
            call.json(200, await self._probe(url, replica))
        except ProbeRefused as refused:
            call.fail(409, "other_node", str(refused))
        except Unavailable as error:
            call.fail(503, "unavailable", str(error), retry_after_ms=RETRY_AFTER_MS)
