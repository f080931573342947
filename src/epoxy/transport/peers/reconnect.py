"""Keeps a few connections to one peer open, and reconnects with back-off."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers.dial import Dial, report
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.link_context import LinkContext


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
        """`on_ready`: a connection was opened, or can be written to again. `on_failed`: an attempt failed, and none is
        open. `make` gets `on_ready` and makes a connection."""
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(f"{url!r} is no address of a peer")
        if address.scheme == "https" and context.ssl is None:
            raise ValueError(f"{url!r} wants TLS, and there is no [tls]")
        self.netloc = address.netloc.encode("ascii")
        self._host = address.hostname
        self._port = address.port or (443 if address.scheme == "https" else 80)
        self._ssl = context.ssl if address.scheme == "https" else None
        self._dice = context.dice
        self._limits = limits
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._make = make
        self._open: list[Dial] = []
        self._leaving: Dial | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.refused = self.lost = 0
        """Handshakes that the peer refused or broke off, and open connections that it ended. What this end gave up for
        want of an answer is not counted: that says how slow the peer is."""

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_open()) for _ in range(self._limits.connections)]

    def close(self) -> None:
        """Without waiting for the end of the tasks."""
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
        while True:
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
        """Connect, and wait until the connection is lost. True: there was an answer on it."""
        dial = self._make(self._on_ready)
        try:
            async with asyncio.timeout(self._limits.connect_timeout_ms / 1000):
                loop, context = asyncio.get_running_loop(), self._ssl() if self._ssl is not None else None
                await loop.create_connection(lambda: dial, self._host, self._port, ssl=context)
                await dial.opened
        except OSError as error:  # TimeoutError and TLS's errors are among them.
            self.refused += dial.made and not isinstance(error, TimeoutError)
            dial.abort()
            if not self._open:
                self._on_failed(str(error) or "connecting took too long")
            return False
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
        return dial.answers > 0

    def _pause_s(self, failures: int) -> float:
        pause_ms = min(self._limits.backoff_ms * (1 << min(failures, 16)), self._limits.backoff_cap_ms)
        return pause_ms * (0.5 + self._dice.uniform()) / 1000
