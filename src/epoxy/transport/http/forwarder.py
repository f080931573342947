"""Forwards requests that only the gateway of this node's datacenter can serve, over a pool of connections to it."""

import asyncio
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

from epoxy.model.node_urls import DEFAULT_PORTS
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.gateway_connection import GatewayConnection, refuse
from epoxy.transport.tls import ContextOf

CONNECT_S = 3.0
"""For a connection with its handshakes, inside one datacenter: as between datacenters, to spare an overloaded gateway
the connections of clients that have given up."""

PATIENCE_S = 3.0
"""For a gateway: as long as a request waits for the owner of its key. A hand-over takes less; when a gateway has died,
another one takes over after its lease."""

LOOK_S = 0.05
"""Between two looks whether there is one."""

MAX_FORWARDED = 1024
"""Under way at a time, each with a connection of its own, WebSockets and event streams among them: as many as an HTTP
server has connections."""

MAX_IDLE = 32
"""Connections kept for the next request: what arrives in the round trip of one."""

IDLE_S = 30.0
"""How long they are kept. The gateway closes one after 75 seconds, and a request that is sent into its closing would
have no outcome."""

WATCH_S = 1.0
"""How often a change of the gateway is looked for: what an old one was asked it answers no more, for it is fenced."""

OUTCOMES = ("sent", "refused", "lost")
"""What became of requests: the gateway has them; nothing was done; it had them, and its connection was lost."""

Mark = Callable[[Exchange, str], tuple[bytes, bytes]]
"""The header that marks a forwarded request, which came in at this listener."""


class Forwarder:
    """`gateway_url`: of the gateway as the table of shards names it; None: there is none, or it is this node."""

    def __init__(
        self,
        gateway_url: Callable[[], str | None],
        ssl: ContextOf | None,
        mark: Mark,
        *,
        limit: int = MAX_FORWARDED,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._gateway_url = gateway_url
        self._ssl = ssl
        self._mark = mark
        self._limit = limit
        self._patience_s = patience_s
        self._open: set[GatewayConnection] = set()
        self._idle: list[GatewayConnection] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))

    def forward(self, exchange: Exchange, listener: str) -> None:
        """What was not sent waits for a gateway that takes it."""
        url = self._gateway_url()
        connection = self._pooled(url) if url is not None else None
        if connection is not None:
            self._send(connection, exchange, listener)
        elif self.under_way >= self._limit:
            message = f"{self._limit} requests are forwarded to the gateway already"
            self._refuse(exchange, "too_many_connections", message)
        else:
            task = asyncio.get_running_loop().create_task(self._connect(exchange, listener))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def _send(self, connection: GatewayConnection, exchange: Exchange, listener: str) -> None:
        self.outcomes["sent"] += 1
        connection.forward(exchange, self._mark(exchange, listener))

    def _refuse(self, exchange: Exchange, code: str, message: str) -> None:
        self.outcomes["refused"] += 1
        refuse(exchange, code, message)

    @property
    def under_way(self) -> int:
        return len(self._open) - len(self._idle) + len(self._connecting)

    def last_call(self) -> None:
        """End what does not end by itself: event streams, and WebSockets, whose clients connect to another node."""
        for connection in list(self._open):
            connection.finish()

    def close(self) -> None:
        for task in list(self._connecting):
            task.cancel()
        for connection in list(self._open):
            connection.abort()

    def _pooled(self, url: str) -> GatewayConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.url == url and connection.is_open:
                return connection
            connection.abort()
        return None

    async def _connect(self, exchange: Exchange, listener: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while True:
            found = await self._try()
            if isinstance(found, GatewayConnection):
                break
            if loop.time() >= deadline:
                self._refuse(exchange, "no_gateway", f"{found}; nothing was done")
                return
            await asyncio.sleep(LOOK_S)
        self._open.add(found)
        self._watch_later()
        self._send(found, exchange, listener)

    async def _try(self) -> GatewayConnection | str:
        """A connection, or why there is none."""
        url = self._gateway_url()
        if url is None:
            return "no node is the gateway of this datacenter now"
        address, loop = urlsplit(url), asyncio.get_running_loop()
        connection = GatewayConnection(url, self._rests, self._over)
        try:
            if address.scheme == "https" and self._ssl is None:
                raise ConnectionError("it wants TLS, and there is no [tls]")
            async with asyncio.timeout(CONNECT_S):
                context = self._ssl() if self._ssl is not None and address.scheme == "https" else None
                port = address.port or DEFAULT_PORTS[address.scheme]
                await loop.create_connection(lambda: connection, address.hostname or "", port, ssl=context)
        except OSError as error:  # TimeoutError and TLS's errors are among them.
            return f"the gateway at {url} cannot be reached: {str(error) or 'no answer in time'}"
        return connection if connection.is_open else f"the gateway at {url} closed the connection"

    def _rests(self, connection: GatewayConnection) -> None:
        if len(self._idle) >= MAX_IDLE:
            connection.abort()
        else:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)

    def _over(self, connection: GatewayConnection) -> None:
        self._open.discard(connection)
        self.outcomes["lost"] += connection.lost_request
        if connection in self._idle:
            self._idle.remove(connection)

    def _watch_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WATCH_S, self._watch)

    def _watch(self) -> None:
        self._timer = None
        url, before = self._gateway_url(), asyncio.get_running_loop().time() - IDLE_S
        for connection in list(self._open):
            moved = url is not None and connection.url != url
            if moved or (not connection.is_used and connection.idle_since < before):
                connection.abort()
        if self._open:
            self._watch_later()
