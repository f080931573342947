"""The listeners of a node: which address serves what, and how they open, stop and close.

`http` and `resp` are for clients. Other nodes and operators have addresses of their own if the file names them
(`node.peers`, `node.admin`), so that a firewall can tell them apart, and then `http` does not serve them.
"""

import asyncio

from epoxy.api.http.router import Api, Elsewhere
from epoxy.api.resp.server import RespServer
from epoxy.model.access import Access
from epoxy.node.process.config import NodeSettings, Settings
from epoxy.node.process.listening import listen
from epoxy.server.certificates import Certificates
from epoxy.transport.http.connections import Connections
from epoxy.transport.http.listener import Listener
from epoxy.transport.http.server import serve_http
from epoxy.transport.limits import HttpLimits

HTTP, RESP, PEERS, ADMIN = "node.http", "node.resp", "node.peers", "node.admin"

LINKS_PATH = b"/v2/admin/links"

DRAIN_S = 10.0
"""How long a stopping node waits for writes under way. No round trip on earth takes as long; the outcome of a write
that is not decided by then is unknown to its client anyway."""

DRAIN_POLL_S = 0.01
"""How often a stopping node checks whether the last client has gone."""

LAST_CALL_S = 0.25
"""How long a stopping node still reads requests, refuses them as `stopping`, and closes each connection after the
answer, before it closes the idle ones: a request that is on its way when its connection is closed has no outcome. The
longest round trip on earth."""


def serving(access: Access, node: NodeSettings) -> tuple[str, ...]:
    """The listeners that serve what demands this, by their settings."""
    match access:
        case Access.PEER:
            return (PEERS,) if node.peers is not None else (HTTP,)
        case Access.OPERATE:
            return (ADMIN,) if node.admin is not None else (HTTP,)
        case Access.PUBLIC | Access.ANY:
            return (HTTP, ADMIN) if node.admin is not None else (HTTP,)
        case _:
            return (HTTP,)


def elsewhere(listener: str, node: NodeSettings) -> Elsewhere:
    """Where a route is served that this listener does not serve."""

    def find(access: Access) -> str:
        there = serving(access, node)
        return "" if listener in there else there[0]

    return find


class Listeners:
    """`most`: connections of clients, at each of the two listeners they have. `connections` are those of `node.http`;
    peers and operators with listeners of their own are counted apart from them."""

    def __init__(
        self, settings: Settings, api: Api, resp: RespServer, certificates: Certificates, connections: Connections
    ) -> None:
        self._node = settings.node
        self._limits = HttpLimits(connections=connections.limit, pipelined=settings.limits.pipeline)
        self._api = api
        self._resp = resp
        self._certificates = certificates
        self._connections = {HTTP: connections}
        for name in (PEERS, ADMIN):
            if name in self._node.listeners:
                self._connections[name] = Connections(connections.limit)
        self._open: list[Listener] = []

    async def open(self) -> None:
        for name, address in self._node.listeners.items():
            ssl = self._certificates.for_peers if name == PEERS else self._certificates.for_clients
            if name == RESP:
                opening = self._resp.serve(address.host, address.port, ssl=ssl)
            else:
                opening = serve_http(
                    self._api.for_listener(elsewhere(name, self._node)),
                    address.host,
                    address.port,
                    ssl=ssl,
                    limits=self._limits,
                    connections=self._connections[name],
                )
            self._open.append(await listen(name, address, opening))

    def last_call(self) -> None:
        """From now on each connection is closed after its next answer, and new ones are refused."""
        for connections in self._connections.values():
            connections.last_call()
        self._resp.last_call()

    def close(self) -> None:
        """Stop listening."""
        for listener in self._open:
            listener.close()

    async def drain(self) -> None:
        """Until everything under way is answered, and every connection is closed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LAST_CALL_S
        while self.has_clients and loop.time() < deadline:
            await asyncio.sleep(DRAIN_POLL_S)
        draining = [connections.drain(DRAIN_S) for connections in self._connections.values()]
        await asyncio.gather(*draining, self._drain_resp())

    @property
    def has_clients(self) -> bool:
        """Also those whose handshake is under way, which are not among the connections yet."""
        opening = any(listener.opening for listener in self._open)
        return opening or any(self._connections.values()) or bool(self._resp.connections)

    async def _drain_resp(self) -> None:
        """Its connections close when their commands under way are answered."""
        self._resp.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_S
        while self._resp.connections and loop.time() < deadline:
            await asyncio.sleep(DRAIN_POLL_S)
        self._resp.abort()
