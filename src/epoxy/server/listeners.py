"""The listeners of a node: which address serves what, and how they open, stop and close.

`http` and `resp` are for clients. Other nodes and operators have addresses of their own if the file names them
(`node.peers`, `node.admin`), so that a firewall can tell them apart, and then `http` does not serve them.
"""

import asyncio
import socket
from collections.abc import Collection, Mapping, Sequence

from epoxy.api.http.router import Api, Elsewhere
from epoxy.api.resp.server import RespServer
from epoxy.model.access import Access
from epoxy.model.address import Address
from epoxy.node.process import descriptors
from epoxy.node.process.config import NodeSettings, Settings
from epoxy.node.process.listening import listen
from epoxy.server.certificates import Certificates
from epoxy.transport.holdings import Holdings
from epoxy.transport.http.connections import DRAIN_POLL_S, Connections
from epoxy.transport.http.listener import Listener
from epoxy.transport.http.reserves import Room, bands
from epoxy.transport.http.server import serve_http
from epoxy.transport.limits import HttpLimits
from epoxy.transport.tls import ContextOf

HandedOn = Mapping[str, Sequence[socket.socket]]
"""Sockets that listen, by the names of their listeners."""

HTTP, RESP, PEERS, ADMIN = "node.http", "node.resp", "node.peers", "node.admin"

MAX_UNPROVEN, LEAST_UNPROVEN = 64, 4
"""Connections at a listener of peers or operators that have not proved to be one, and as many again on trial: each of
64 members has one that is idle until a change of members. Of a low limit of file descriptors, a quarter of the
reserve."""

DRAIN_S = 10.0
"""How long a stopping node waits for writes under way. No round trip on earth takes as long; the outcome of a write
that is not decided by then is unknown to its client anyway."""

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


def rooms(node: NodeSettings) -> dict[str, Room]:
    """Which file descriptors the connections of each listener may have. At `node.http`, what is above the band of
    clients is for peers and operators, if they have no listeners of their own."""
    found, handshakes = bands(), descriptors.handshakes_per_port()
    few = max(descriptors.LEAST_HANDSHAKES, found.reserved // 4)
    shared = found.clients
    if node.peers is None:
        shared = found.peers
    if node.admin is None:
        shared = found.operators
    return {
        HTTP: Room(ceiling=shared, reserve=found.clients, handshakes=handshakes),
        RESP: Room(ceiling=found.clients, reserve=found.clients, handshakes=handshakes),
        PEERS: Room(ceiling=found.peers, reserve=found.peers, handshakes=few),
        ADMIN: Room(ceiling=found.operators, reserve=found.operators, handshakes=few),
    }


def few_connections(holdings: Holdings | None = None) -> Connections:
    """For a listener of peers or operators: what has proved to be one is not counted there, and of others it needs
    few."""
    few = max(LEAST_UNPROVEN, min(MAX_UNPROVEN, bands().reserved // 4))
    return Connections(few, few, holdings)


class Listeners:
    """`connections` are those of `node.http`. Peers and operators with listeners of their own have connections and
    budgets of their own."""

    def __init__(
        self,
        settings: Settings,
        api: Api,
        resp: RespServer,
        certificates: Certificates,
        connections: Connections,
        only: Collection[str] | None = None,
    ) -> None:
        """`only`: what this process opens of them; None: all."""
        self._node = settings.node
        self._only = only
        self._limits = HttpLimits(
            connections=connections.limit,
            pipelined=settings.limits.pipeline,
            held_bytes=settings.limits.held_mib << 20,
        )
        self._api = api
        self._resp = resp
        self._certificates = certificates
        self._connections = {HTTP: connections}
        for name in (PEERS, ADMIN):
            if name in self._node.listeners:
                self._connections[name] = few_connections(connections.holdings)
        resp.turns = connections.turns
        self._open: dict[str, Listener] = {}

    async def open(self, handed_on: HandedOn | None = None) -> None:
        """`handed_on`: the sockets of listeners before these, which have not ceased to listen."""
        room = rooms(self._node)
        for name, address in self._node.listeners.items():
            if self._only is not None and name not in self._only:
                continue
            ssl = self._certificates.for_peers if name == PEERS else self._certificates.for_clients
            sockets = handed_on[name] if handed_on is not None else ()
            if name == RESP:
                opening = self._open_resp(address, ssl, room[name], sockets)
            else:
                opening = serve_http(
                    self._api.for_listener(elsewhere(name, self._node), name),
                    address.host,
                    address.port,
                    ssl=ssl,
                    limits=self._limits,
                    connections=self._connections[name],
                    room=room[name],
                    sockets=sockets,
                )
            self._open[name] = await listen(name, address, opening)

    async def _open_resp(
        self, address: Address, ssl: ContextOf | None, room: Room, sockets: Sequence[socket.socket]
    ) -> Listener:
        """Shared by the processes of a node. The first makes sure that the address is not another node's: among sockets
        that are shared, the system does not."""
        is_shared = self._node.processes > 1
        if is_shared and self._only is None and not sockets:
            (await self._resp.serve(address.host, address.port)).close()
        return await self._resp.serve(
            address.host, address.port, ssl=ssl, room=room, is_shared=is_shared, sockets=sockets
        )

    def last_call(self) -> None:
        """From now on each connection is closed after its next answer, and new ones are refused."""
        for connections in self._connections.values():
            connections.last_call()
        self._resp.last_call()

    def close(self) -> None:
        """Stop listening."""
        for listener in self._open.values():
            listener.close()

    def hand_on(self) -> HandedOn:
        """Accept no more: new connections wait for the next listeners."""
        return {name: listener.hand_on() for name, listener in self._open.items()}

    async def drain_clients(self) -> None:
        """Until everything that clients asked for is answered, and their connections are closed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LAST_CALL_S
        while self.has_clients and loop.time() < deadline:
            await asyncio.sleep(DRAIN_POLL_S)
        draining = [connections.drain_clients(DRAIN_S) for connections in self._connections.values()]
        await asyncio.gather(*draining, self._drain_resp())

    async def drain(self) -> None:
        """The same of peers. Clients come first: what a client waits for may be with a peer, which tells it on a
        connection of its own."""
        await asyncio.gather(*[connections.drain(DRAIN_S) for connections in self._connections.values()])

    async def abort(self) -> None:
        """Close what is still open: clients do not know the outcome of what they asked for there."""
        for connections in self._connections.values():
            await connections.drain(0)
        self._resp.abort()

    @property
    def has_clients(self) -> bool:
        """Also those whose handshake is under way, which are not among the connections yet."""
        opening = any(listener.opening for listener in self._open.values())
        return opening or any(self._connections.values()) or bool(self._resp.connections)

    async def _drain_resp(self) -> None:
        """Its connections close when their commands under way are answered."""
        self._resp.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_S
        while self._resp.connections and loop.time() < deadline:
            await asyncio.sleep(DRAIN_POLL_S)
        self._resp.abort()
