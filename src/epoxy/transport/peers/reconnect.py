"""Keeps a few connections to one peer open, and reconnects with back-off.

A member of several nodes has an address for each, and one of them is the gateway, which alone accepts peers. They are
tried one after the other, beginning with the one that accepted last, until one does; then comes the back-off."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec import Struct

from epoxy.model.node_urls import DEFAULT_PORTS, split_urls
from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers.dial import Dial, report
from epoxy.transport.peers.gateway_refusal import NOT_GATEWAY
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.link_context import LinkContext
from epoxy.transport.tls import ContextOf


class PeerAddress(Struct, frozen=True):
    """Of one node. `host_header` is sent to it; `ssl` None: without TLS."""

    url: str
    host: str
    port: int
    host_header: bytes
    ssl: ContextOf | None


def address_of(url: str, ssl: ContextOf | None) -> PeerAddress:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no address of a peer")
    secure = parts.scheme == "https"
    if secure and ssl is None:
        raise ValueError(f"{url!r} wants TLS, and there is no [tls]")
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    return PeerAddress(url, parts.hostname, port, parts.netloc.encode("ascii"), ssl if secure else None)


class PeerConnections:
    def __init__(
        self,
        url: str,
        context: LinkContext,
        limits: PeerLimits,
        *,
        on_ready: Callable[[], None] = lambda: None,
        on_failed: Callable[[str], None] = lambda _: None,
        make: Callable[[Callable[[], None]], Dial] = Dial,
    ) -> None:
        """`url`: as `ReplicaInfo` has it. `on_ready`: a connection was opened, or can be written to again. `on_failed`:
        an attempt failed, and none is open. `make` gets `on_ready` and makes a connection."""
        self._addresses = [address_of(each, context.ssl) for each in split_urls(url) or ("",)]
        self._worked = 0
        self._dice = context.dice
        self._limits = limits
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._make = make
        self._open: list[Dial] = []
        self._leaving: Dial | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self.refused = self.lost = 0
        """Handshakes that the peer refused or broke off, and open connections that it ended. What this end gave up for
        want of an answer is not counted: that says how slow the peer is. Nor is a node that is not the gateway."""

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_open()) for _ in range(self._limits.connections)]

    def close(self) -> None:
        """Without waiting for the end of the tasks."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        self.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def best(self) -> Dial | None:
        """The connection with the fewest answers outstanding."""
        found: Dial | None = None
        for dial in self._open:
            if not dial.write_paused and (found is None or dial.waiting < found.waiting):
                found = dial
        return found

    def renew(self, spoken: SigningKey) -> None:
        """Replace connections that rest on another secret than the one spoken now, one at a time: it is given no more
        requests, and closed when the last is answered. The only one stays until there is another, unless the other end
        will not have it any longer."""
        if self._leaving is not None:
            if not self._leaving.waiting:
                self._leaving.abort()
            return
        for dial in self._open:
            if dial.key is not None and dial.key is not spoken and (len(self._open) > 1 or dial.key.retired):
                self._open.remove(dial)
                self._leaving = dial
                return

    async def _keep_open(self) -> None:
        failures = 0
        while not self._closed:  # A cancellation in the moment of a timeout may be taken for that.
            try:
                was_good = await self._once()
            except Exception as error:
                # A bug, or an unusual error of the resolver. It is reported, and the peer is tried again.
                report(error)
                self._on_failed(f"connecting failed: {error!r}")
                was_good = False
            failures = 0 if was_good else failures + 1
            if failures:
                await asyncio.sleep(self._pause_s(failures))

    async def _once(self) -> bool:
        """Connect to the first address that accepts, and wait until the connection is lost. True: there was an answer
        on it. A round without an open connection is reported when it is over, or when it takes longer than a single
        address may."""
        loop, count = asyncio.get_running_loop(), len(self._addresses)
        first, troubles = self._worked, []
        # Timers ring a little early, by the loop's own clock.
        reports_from = loop.time() + 0.9 * self._limits.connect_timeout_ms / 1000
        for step in range(count):
            address = self._addresses[(first + step) % count]
            dial = self._make(self._on_ready)
            trouble = await self._connect(dial, address)
            if not trouble:
                self._worked = (first + step) % count
                await self._stay(dial)
                if not dial.not_gateway:
                    return dial.answers > 0
                trouble = NOT_GATEWAY
            troubles.append(trouble if count == 1 else f"{address.url}: {trouble}")
            if not self._open and (step + 1 == count or loop.time() >= reports_from):
                self._on_failed("; ".join(troubles))
        return False

    async def _connect(self, dial: Dial, address: PeerAddress) -> str:
        """Why there is no connection; empty: there is one."""
        dial.host = address.host_header
        try:
            async with asyncio.timeout(self._limits.connect_timeout_ms / 1000):
                context = address.ssl() if address.ssl is not None else None
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: dial, address.host, address.port, ssl=context)
                await dial.opened
        except OSError as error:  # TimeoutError and TLS's errors are among them.
            self.refused += dial.made and not dial.not_gateway and not isinstance(error, TimeoutError)
            dial.abort()
            return str(error) or "connecting took too long"
        return ""

    async def _stay(self, dial: Dial) -> None:
        """Use a connection until it is lost."""
        self._open.append(dial)
        self._on_ready()
        try:
            await dial.lost
            self.lost += not dial.aborted
        finally:
            if dial is self._leaving:
                self._leaving = None
            else:
                self._open.remove(dial)
            dial.abort()

    def _pause_s(self, failures: int) -> float:
        pause_ms = min(self._limits.backoff_ms * (1 << min(failures, 16)), self._limits.backoff_cap_ms)
        return pause_ms * (0.5 + self._dice.uniform()) / 1000
