"""A delay on TCP links, in a process of its own: `python -m benchmarks.proxy LINKS`, driven by `DelayProxy`.

Each link listens at one address, connects to another, and holds back whatever passes, either way, for half of the round
trip. The proxy knows nothing of what it carries, so every system is delayed alike. What it cannot do: it accepts before
its target does, and a connection that is refused there ends here only after it was made.

LINKS is JSON. Every line on the standard input asks for the counters, which come as one line of JSON. When the input
ends, so does the process: it cannot outlive whoever started it.
"""

import asyncio
import json
import selectors
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec import Struct

HELD_BYTES = 16 << 20
"""Held back on one connection and way, at most. A third of a second at 400 Mbit/s: beyond, the sender has to wait."""


class Link(Struct, frozen=True, kw_only=True):
    """`listen` is a port of the loopback, or the path of a Unix socket for those who cannot be told a port by link."""

    name: str
    listen: int | str
    target: int
    one_way_ms: float


class Counted(Struct, frozen=True):
    """What passed over one link, both ways: pieces as they came from the socket, and bytes."""

    pieces: int = 0
    bytes: int = 0


class Pipe(asyncio.Protocol):
    """One end of a connection. What arrives here leaves at `other`, later."""

    def __init__(self, delay_s: float, count: Callable[[int], None]) -> None:
        self.other: Pipe | None = None
        self.transport: asyncio.Transport | None = None
        self._delay_s = delay_s
        self._count = count
        self._held: deque[tuple[float, bytes | None]] = deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._count(len(data))
        self._held_bytes += len(data)
        if self._held_bytes > HELD_BYTES and self.transport is not None:
            self.transport.pause_reading()
        self._hold(data)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        """The news travels no faster than data."""
        self._hold(None)

    def _hold(self, data: bytes | None) -> None:
        self._held.append((self._loop.time() + self._delay_s, data))
        self._wait()

    def _wait(self) -> None:
        if self._held and self._timer is None:
            self._timer = self._loop.call_at(self._held[0][0], self.release)

    def release(self) -> None:
        """Everything that is due; nothing before there is somebody to take it."""
        self._timer = None
        if self.other is None or self.other.transport is None:
            return
        now = self._loop.time()
        while self._held and self._held[0][0] <= now:
            _, data = self._held.popleft()
            if data is None:
                self.other.transport.close()
            else:
                self._pass(data, self.other.transport)
        self._wait()

    def _pass(self, data: bytes, to: asyncio.Transport) -> None:
        self._held_bytes -= len(data)
        if not to.is_closing():
            to.write(data)
        if self._held_bytes <= HELD_BYTES and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()


class Accepted(Pipe):
    """The end that was called; it calls the target."""

    def __init__(self, link: Link, count: Callable[[int], None]) -> None:
        super().__init__(link.one_way_ms / 1000, count)
        self._link = link
        self._calling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._calling = self._loop.create_task(self._call())

    async def _call(self) -> None:
        called = Pipe(self._delay_s, self._count)
        called.other = self
        try:
            await self._loop.create_connection(lambda: called, "127.0.0.1", self._link.target)
        except OSError:
            assert self.transport is not None
            self.transport.abort()
            return
        self.other = called
        self._wait()


async def carry(links: Sequence[Link]) -> None:
    """Until the standard input ends."""
    loop = asyncio.get_running_loop()
    pieces: Counter[str] = Counter()
    sizes: Counter[str] = Counter()

    def count(name: str, size: int) -> None:
        pieces[name] += 1
        sizes[name] += size

    for link in links:
        accept = partial(Accepted, link, partial(count, link.name))
        if isinstance(link.listen, int):
            await loop.create_server(accept, "127.0.0.1", link.listen)
        else:
            await loop.create_unix_server(accept, link.listen)
    print("ready", flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        print(json.dumps({link.name: [pieces[link.name], sizes[link.name]] for link in links}), flush=True)


def main() -> None:
    """With select(2), because its timers have microseconds; epoll's and uvloop's have milliseconds."""
    links = msgspec.json.decode(sys.argv[1], type=list[Link])
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(carry(links))


class DelayProxy:
    """The process, for whoever measures."""

    def __init__(self, links: Sequence[Link]) -> None:
        command = [sys.executable, "-m", "benchmarks.proxy", msgspec.json.encode(links).decode()]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._hear() != b"ready":
            self.stop()
            raise RuntimeError("the delay proxy did not start")

    def counted(self) -> dict[str, Counted]:
        self._say(b"count")
        return {name: Counted(*figures) for name, figures in json.loads(self._hear()).items()}

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def _hear(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


if __name__ == "__main__":
    main()
