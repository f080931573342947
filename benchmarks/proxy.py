"""A delay on TCP links, in a process of its own: `python -m benchmarks.proxy LINKS`, driven by `DelayProxy`.

Each link listens at one address, connects to another, and holds back whatever passes, either way, for half of the round
trip. The proxy knows nothing of what it carries, so every system is delayed alike. What it cannot do: it accepts before
its target does, and a connection that is refused there ends here only after it was made.

A system whose members tell each other one address for all cannot have a link for each pair: there a door stands for
each of them, and who calls is read from what the caller says first. Nothing passes before it is known.

LINKS is JSON. Every line on the standard input asks for the counters, which come as one line of JSON. When the input
ends, so does the process: it cannot outlive its parent.
"""

import asyncio
import json
import re
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


MOST_FIRST_BYTES = 4096
"""Within which a caller at a door must have said who it is."""


class Link(Struct, frozen=True, kw_only=True, tag=True):
    """`listen` is a port of the loopback, or the path of a Unix socket for programs without a port for each link."""

    name: str
    listen: int | str
    target: int
    one_way_ms: float


class Way(Struct, frozen=True, kw_only=True):
    name: str
    one_way_ms: float


class Door(Struct, frozen=True, kw_only=True, tag=True):
    """The one address of a member. `caller` is a pattern whose first group names the caller; `ways` are by that name.
    Others are hung up on."""

    listen: int
    target: int
    caller: str
    ways: dict[str, Way]


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
        """Everything that is due; nothing before there is a receiver."""
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

    def __init__(self, target: int, delay_s: float, count: Callable[[int], None]) -> None:
        super().__init__(delay_s, count)
        self._target = target
        self._calling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._calling = self._loop.create_task(self._call())

    async def _call(self) -> None:
        called = Pipe(self._delay_s, self._count)
        called.other = self
        try:
            await self._loop.create_connection(lambda: called, "127.0.0.1", self._target)
        except OSError:
            assert self.transport is not None
            self.transport.abort()
            return
        self.other = called
        self._wait()


class Recognized(Accepted):
    """At a door. Whatever was said before the caller is known waits with it."""

    def __init__(self, door: Door, count: Callable[[str, int], None]) -> None:
        super().__init__(door.target, 0.0, lambda _: None)
        self._door = door
        self._count_for = count
        self._said: bytes | None = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Pipe.connection_made(self, transport)

    def data_received(self, data: bytes) -> None:
        if self._said is not None:
            self._said += data
            data = self._said
            named = re.search(self._door.caller.encode(), data)
            if named is None and len(data) < MOST_FIRST_BYTES:
                return
            way = self._door.ways.get(named[1].decode()) if named is not None else None
            if way is None:
                assert self.transport is not None
                self.transport.abort()
                return
            self._said, self._delay_s, self._count = None, way.one_way_ms / 1000, partial(self._count_for, way.name)
            self._calling = self._loop.create_task(self._call())
        super().data_received(data)


async def carry(links: Sequence[Link | Door]) -> None:
    """Until the standard input ends."""
    loop = asyncio.get_running_loop()
    pieces: Counter[str] = Counter()
    sizes: Counter[str] = Counter()

    def count(name: str, size: int) -> None:
        pieces[name] += 1
        sizes[name] += size

    for link in links:
        accept: Callable[[], Accepted]
        if isinstance(link, Door):
            accept = partial(Recognized, link, count)
        else:
            accept = partial(Accepted, link.target, link.one_way_ms / 1000, partial(count, link.name))
        if isinstance(link.listen, int):
            await loop.create_server(accept, "127.0.0.1", link.listen)
        else:
            await loop.create_unix_server(accept, link.listen)
    names = [name for link in links for name in names_of(link)]
    print("ready", flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        print(json.dumps({name: [pieces[name], sizes[name]] for name in names}), flush=True)


def names_of(link: Link | Door) -> list[str]:
    return [way.name for way in link.ways.values()] if isinstance(link, Door) else [link.name]


def main() -> None:
    """With select(2), because its timers have microseconds; epoll's and uvloop's have milliseconds."""
    links = msgspec.json.decode(sys.argv[1], type=list[Link | Door])
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(carry(links))


class DelayProxy:
    """The proxy's process, as a benchmark holds it."""

    def __init__(self, links: Sequence[Link | Door]) -> None:
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
