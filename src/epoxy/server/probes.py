"""Probes in one node's process: it answers those of others, and asks others on an operator's order or at its start."""

import msgspec

from epoxy.api.http.routes import Route, signed_route
from epoxy.api.http.routes_members import members
from epoxy.api.http.routes_probe import ProbeRoutes
from epoxy.codec import json_text
from epoxy.model.access import Access
from epoxy.model.api import Members, NodeProbe
from epoxy.model.cluster import ReplicaInfo
from epoxy.model.errors import CodecError, Unavailable
from epoxy.model.node_urls import split_urls
from epoxy.node.service import Node
from epoxy.transport.limits import PROBE_PATH
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.probe import ProbeEndpoint, probe_any
from epoxy.transport.tls import ContextOf

PROBE_S = 3.0
"""Ten round trips around the world. A start that waits for it fails otherwise."""

decoder = msgspec.json.Decoder(NodeProbe)


class Probes:
    def __init__(self, node: Node, verifier: Verifier, tls: ContextOf | None, *, certificates: bool) -> None:
        """`verifier`: of the cluster's secret, which operators sign with."""
        self._node = node
        self._verifier = verifier
        self._tls = tls
        self._endpoint = ProbeEndpoint(verifier, self._describe, certificates=certificates)

    def routes(self) -> list[Route]:
        return [signed_route("GET", PROBE_PATH, self._endpoint, Access.PEER), *ProbeRoutes(self.ask).table()]

    async def ask(self, url: str, replica: int) -> NodeProbe:
        return await ask(url, replica, self._verifier.keys.spoken.secret, self._tls)

    async def members_at(self, other: ReplicaInfo) -> Members:
        return (await self.ask(other.url, other.id)).members

    def _describe(self) -> bytes:
        node = self._node
        told = NodeProbe(
            id=node.me,
            datacenter=node.settings.node.datacenter,
            url=node.settings.node.advertise_url,
            cluster=node.settings.cluster.id,
            state=node.lifecycle.state.value,
            members=members(node.replica.config, None, node),
        )
        return msgspec.json.encode(told)


async def ask(url: str, replica: int, secret: bytes, tls: ContextOf | None, timeout_s: float = PROBE_S) -> NodeProbe:
    """`url`: of a member, as `ReplicaInfo` has it."""
    body = await probe_any(split_urls(url), replica, secret, tls() if tls is not None else None, timeout_s)
    try:
        return json_text.decode(decoder, body)
    except CodecError as error:
        raise Unavailable(f"{url}: answered what this release does not read: {error}") from error
