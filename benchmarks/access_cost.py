"""What it costs to ask clients for tokens: an open cluster and one with tokens, side by side, in one run.

    python -m benchmarks.access_cost [--rounds 15] [--window 0.4] [--only WORDS] [--python P] [--folder DIR]

The same clients load one cluster after the other, in short windows that alternate: the open one, the one with tokens
by a token for all keys, and the same by a token with two prefixes. What disturbs the machine for longer than a window
disturbs all three. Of each round the ratios to the open cluster are taken, and of these the median and the middle half
are told: for the time of a request, and for the CPU time of all nodes for it, which depends less on what else runs.
"""

import argparse
import asyncio
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import uvloop
from msgspec import Struct

from benchmarks.learn_cluster import free_port, wait_until

KEYS = 100
VALUE = b"0123456789abcdef"
PREFIX = "bench/"
WARM_S = 0.05
GOAL = 0.02
PATIENCE_S = 10.0


class Served(Struct, frozen=True, kw_only=True):
    """A cluster that is asked at its first node. `tokens`: by kind; empty: it is open."""

    http: int
    resp: int
    pids: tuple[int, ...]
    tokens: dict[str, str]

    def cpu_s(self) -> float:
        """Of all its nodes, by the clock that Linux keeps for each process."""
        return sum([time.clock_gettime(~pid << 3 | 2) for pid in self.pids])


class Variant(Struct, frozen=True, kw_only=True):
    name: str
    cluster: Served
    token: str = ""


class Workload(Struct, frozen=True, kw_only=True):
    """`make`: the bytes of the next request; `lines`: line ends in each reply of RESP, 0 for HTTP. `depth`: requests
    under way on a connection: Redis clients pipeline, HTTP clients do not."""

    name: str
    nodes: int
    connections: int
    depth: int
    lines: int
    make: Callable[[Variant], Callable[[], bytes]]


class Window(Struct, frozen=True):
    """Requests in a second, and microseconds of the nodes' CPU for each."""

    rate: float
    cpu_us: float


class Replies:
    """Counts replies in a stream, however it is cut into pieces. Raises if one is an error."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._rest = b""
        self._seen = 0

    def count(self, data: bytes) -> int:
        if self._lines:
            assert not data.startswith(b"-") or self._seen % self._lines, data
            assert b"\r\n-" not in data, data
            before = self._seen // self._lines
            self._seen += data.count(b"\n")
            return self._seen // self._lines - before
        text = self._rest + data
        self._rest = text[1 - len(STATUS) :]
        count = text.count(STATUS)
        assert text[:-1].count(STATUS[:-1]) == count, text
        return count


STATUS = b"HTTP/1.1 2"


class Pipe(asyncio.Protocol):
    """Keeps `depth` requests under way while it is open."""

    def __init__(self, lines: int, depth: int, make: Callable[[], bytes]) -> None:
        self._replies = Replies(lines)
        self._depth = depth
        self._make = make
        self._transport: asyncio.Transport | None = None
        self._greeted: asyncio.Future[bytes] | None = None
        self.sent = self.done = 0
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._greeted is not None:
            self._greeted.set_result(data)
            return
        count = self._replies.count(data)
        self.done += count
        if self.is_open and count:
            self.send(count)

    async def greet(self, command: bytes) -> None:
        """Of one line, as its reply."""
        assert self._transport is not None
        greeted = self._greeted = asyncio.get_running_loop().create_future()
        self._transport.write(command)
        reply = await greeted
        self._greeted = None
        assert reply.startswith(b"+"), reply

    def open(self) -> None:
        self.is_open = True
        self.send(self._depth)

    def send(self, count: int) -> None:
        assert self._transport is not None
        self.sent += count
        self._transport.write(b"".join([self._make() for _ in range(count)]))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def measured(workload: Workload, variants: list[Variant], rounds: int, window_s: float) -> list[list[Window]]:
    """For each round, a window of each variant. Their order changes from round to round."""
    pipes = [await opened(workload, variant) for variant in variants]
    found = []
    for number in range(rounds + 1):
        order = [(number + i) % len(variants) for i in range(len(variants))]
        windows = {i: await one_window(variants[i].cluster, pipes[i], window_s) for i in order}
        found.append([windows[i] for i in range(len(variants))])
    for pipe in itertools.chain(*pipes):
        pipe.close()
    return found[1:]  # The first one fills caches.


async def opened(workload: Workload, variant: Variant) -> list[Pipe]:
    loop = asyncio.get_running_loop()
    port = variant.cluster.resp if workload.lines else variant.cluster.http
    made = []
    for _ in range(workload.connections):
        pipe = Pipe(workload.lines, workload.depth, workload.make(variant))
        await loop.create_connection(partial(given, pipe), "127.0.0.1", port)
        if workload.lines:
            await pipe.greet(hello(variant))
        made.append(pipe)
    return made


def given(pipe: Pipe) -> Pipe:
    return pipe


async def one_window(cluster: Served, pipes: list[Pipe], window_s: float) -> Window:
    for pipe in pipes:
        pipe.open()
    await asyncio.sleep(WARM_S)
    began, cpu_s, before = time.perf_counter(), cluster.cpu_s(), sum([pipe.done for pipe in pipes])
    await asyncio.sleep(window_s)
    while (count := sum([pipe.done for pipe in pipes]) - before) == 0:  # a busy machine
        assert time.perf_counter() < began + PATIENCE_S, "no answer"
        await asyncio.sleep(0.01)
    took_s, spent_s = time.perf_counter() - began, cluster.cpu_s() - cpu_s
    for pipe in pipes:
        pipe.is_open = False
    deadline = time.perf_counter() + PATIENCE_S
    while any(pipe.sent > pipe.done for pipe in pipes):
        assert time.perf_counter() < deadline, "requests without an answer"
        await asyncio.sleep(0.001)
    return Window(count / took_s, spent_s / count * 1e6)


# Requests


def redis_command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def hello(variant: Variant) -> bytes:
    return redis_command(b"AUTH", variant.token.encode()) if variant.token else redis_command(b"PING")


def redis_reads(command: bytes, kind: str) -> Callable[[Variant], Callable[[], bytes]]:
    def make(_: Variant) -> Callable[[], bytes]:
        keys = [redis_command(command, f"{PREFIX}{kind}/{i}".encode()) for i in range(KEYS)]
        return itertools.cycle(keys).__next__

    return make


def redis_writes(_: Variant) -> Callable[[], bytes]:
    unique, numbers = os.urandom(4).hex(), itertools.count()
    return lambda: redis_command(b"SET", f"{PREFIX}w/{unique}/{next(numbers)}".encode(), VALUE)


def head(method: str, key: str, variant: Variant, more: str = "") -> bytes:
    token = f"Authorization: Bearer {variant.token}\r\n" if variant.token else ""
    host = f"127.0.0.1:{variant.cluster.http}"
    return f"{method} /v2/kv/{key.replace('/', '%2F')} HTTP/1.1\r\nHost: {host}\r\n{token}{more}\r\n".encode()


def http_reads(kind: str) -> Callable[[Variant], Callable[[], bytes]]:
    def make(variant: Variant) -> Callable[[], bytes]:
        return itertools.cycle([head("GET", f"{PREFIX}{kind}/{i}", variant) for i in range(KEYS)]).__next__

    return make


def http_writes(variant: Variant) -> Callable[[], bytes]:
    unique, numbers, length = os.urandom(4).hex(), itertools.count(), f"Content-Length: {len(VALUE)}\r\n"
    return lambda: head("PUT", f"{PREFIX}w/{unique}/{next(numbers)}", variant, length) + VALUE


def workloads() -> Iterator[Workload]:
    def reads(name: str, lines: int, make: Callable[[Variant], Callable[[], bytes]], depth: int = 16) -> Workload:
        return Workload(name=name, nodes=1, connections=8, depth=depth, lines=lines, make=make)

    yield reads("RESP GET, immutable, cached", 2, redis_reads(b"GET", "immutable"))
    yield reads("RESP GET, immutable, cached, one at a time", 2, redis_reads(b"GET", "immutable"), depth=1)
    yield reads("RESP GET, mutable", 2, redis_reads(b"GET", "mutable"))
    yield reads("RESP STRLEN, mutable, not cached", 1, redis_reads(b"STRLEN", "mutable"))
    yield reads("HTTP GET, immutable, cached", 0, http_reads("immutable"), depth=1)
    yield reads("HTTP GET, mutable", 0, http_reads("mutable"), depth=1)
    for nodes in (1, 3):
        many = {"nodes": nodes, "connections": 64, "depth": 1}
        yield Workload(name=f"RESP SET, commits of {nodes} node{'s'[: nodes > 1]}", lines=1, make=redis_writes, **many)
        yield Workload(name=f"HTTP PUT, commits of {nodes} node{'s'[: nodes > 1]}", lines=0, make=http_writes, **many)


# Clusters


@contextmanager
def served(folder: Path, nodes: int, auth: str, python: str) -> Iterator[Served]:
    folder.mkdir()
    (folder / "secret").write_text(os.urandom(32).hex())
    (folder / "secret").chmod(0o600)
    ports = [(free_port(), free_port()) for _ in range(nodes)]
    members = [
        f'{{id = {me}, datacenter = "dc-{me}", url = "http://127.0.0.1:{http}"}}'
        for me, (http, _) in enumerate(ports, start=1)
    ]
    processes = []
    try:
        for me, (http, resp) in enumerate(ports, start=1):
            config = folder / f"{me}.toml"
            config.write_text(
                f'[node]\nid = {me}\ndata_dir = "{folder / f"data-{me}"}"\nhttp = "127.0.0.1:{http}"\n'
                f'resp = "127.0.0.1:{resp}"\n[cluster]\nsecret_file = "{folder / "secret"}"\n'
                f'members = [{", ".join(members)}]\n[access]\nauth = "{auth}"\n'
            )
            with (folder / f"{me}.log").open("wb") as log:
                command = [python, "-m", "epoxy", "serve", "--config", str(config)]
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        wait_until(lambda: all(is_ready(python, http) for http, _ in ports), "every node is ready")
        tokens = made_tokens(folder, ports[0][0], python) if auth == "tokens" else {}
        pids = tuple([process.pid for process in processes])
        yield Served(http=ports[0][0], resp=ports[0][1], pids=pids, tokens=tokens)
    except BaseException:
        for me in range(1, nodes + 1):
            print((folder / f"{me}.log").read_text()[-1000:], file=sys.stderr)
        raise
    finally:
        for process in processes:
            process.kill()
            process.wait()


def is_ready(python: str, port: int) -> bool:
    script = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/readyz', timeout=2)"
    return subprocess.run([python, "-c", script], capture_output=True, check=False).returncode == 0


def made_tokens(folder: Path, port: int, python: str) -> dict[str, str]:
    """For all keys, and for those under two prefixes."""
    auth = [python, "-m", "epoxy", "auth"]

    def told(*arguments: str, token: str = "") -> str:
        environ = os.environ | {"EPOXY_TOKEN": token} if token else os.environ
        return subprocess.run(
            [*auth, *arguments], env=environ, stdout=subprocess.PIPE, check=True, text=True
        ).stdout.strip()

    root = told("init", "--config", str(folder / "1.toml"))
    create = ("token", "create", "--url", f"http://127.0.0.1:{port}", "--role", "writer")
    prefixes = ("--prefix", "other/", "--prefix", PREFIX)
    return {"all": told(*create, "all", token=root), "some": told(*create, *prefixes, "some", token=root)}


async def fill(variant: Variant) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", variant.cluster.resp)
    commands = [hello(variant)]
    for i in range(KEYS):
        commands.append(redis_command(b"RESERVE", f"{PREFIX}immutable/{i}".encode(), VALUE))
        commands.append(redis_command(b"SET", f"{PREFIX}mutable/{i}".encode(), VALUE))
    writer.write(b"".join(commands))
    for _ in commands:
        reply = await reader.readline()
        assert reply.startswith(b"+"), reply
    writer.close()


# The report


class Change(Struct, frozen=True):
    """Against the open cluster: the median of all rounds, and their middle half. 0.01: one percent more."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:+.1%} ({self.low:+.1%} to {self.high:+.1%})"


def change(ratios: list[float]) -> Change:
    low, median, high = statistics.quantiles([ratio - 1 for ratio in ratios], n=4)
    return Change(median, low, high)


def told(workload: Workload, variants: list[Variant], rounds: list[list[Window]]) -> str:
    first = [each[0] for each in rounds]
    lines = [
        f"{workload.name}: open {statistics.median([each.rate for each in first]):,.0f} a second, "
        f"{statistics.median([each.cpu_us for each in first]):.1f} us of CPU each"
    ]
    for i, variant in enumerate(variants[1:], start=1):
        slower = change([each[0].rate / each[i].rate for each in rounds])
        dearer = change([each[i].cpu_us / each[0].cpu_us for each in rounds])
        above = "" if min(slower.median, dearer.median) <= GOAL else f"  ABOVE {GOAL:.0%}"
        lines.append(f"    {variant.name:20} time {slower!s:28} CPU {dearer!s:28}{above}")
    return "\n".join(lines)


async def run(folder: Path, python: str, rounds: int, window_s: float, only: str) -> None:
    print(f"load average when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for nodes in (1, 3):
        some = [each for each in workloads() if each.nodes == nodes and only.lower() in each.name.lower()]
        if not some:
            continue
        with (
            served(folder / f"open-{nodes}", nodes, "open", python) as free,
            served(folder / f"tokens-{nodes}", nodes, "tokens", python) as guarded,
        ):
            variants = [
                Variant(name="open", cluster=free),
                Variant(name="tokens, all keys", cluster=guarded, token=guarded.tokens["all"]),
                Variant(name="tokens, two prefixes", cluster=guarded, token=guarded.tokens["some"]),
            ]
            for variant in variants[:2]:
                await fill(variant)
            for workload in some:
                print(told(workload, variants, await measured(workload, variants, rounds, window_s)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--window", type=float, default=0.4, help="seconds")
    parser.add_argument("--only", default="", help="workloads whose names have these words")
    parser.add_argument("--python", default=sys.executable, help="whose `epoxy` is run: that of a compiled build, say")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        uvloop.run(run(folder, options.python, options.rounds, options.window, options.only))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
