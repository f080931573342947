"""Regions without distances, in this process: one table of keys behind an HTTP server for each region. What is asked of
it is answered at once, so that a workload's smallest run takes a moment; and every write is sooner than possible, which
the workloads have to notice."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from benchmarks.contention.world import World
from benchmarks.peers.epoxy import EpoxyCluster

REQUEST = re.compile(rb"(\w+) /v2/(kv/([\w/-]+)|changes)(?:\?(\S*))? HTTP/1.1\r\n.*?\r\n\r\n", re.DOTALL)


class Keys:
    """`reserved` names have version 1 for ever. `broken`: nothing is decided, and nothing can be said about it."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[int, str]] = {}
        self.followers: list[asyncio.StreamWriter] = []
        self.broken = False

    def answer(self, method: str, key: str, query: str, body: str) -> tuple[int, dict[str, object]]:
        if self.broken:
            return 503, {"error": {"code": "consensus_failed", "definite": method == "GET"}}
        version, value = self.values.get(key, (0, ""))
        if method == "GET":
            found = {"version": version, "value": value}
            return (200, found) if version else (404, {"error": {"code": "not_found"}})
        if version and "mode=put" not in query:
            taken = {"error": {"code": "taken"}, "committed": {"version": version, "value": value}}
            return (409, taken) if value != body else (200, {"version": version, "value": value})
        self.values[key] = version + 1, body
        for follower in self.followers:
            follower.write(f'data: {{"key":"{key}"}}\n\n'.encode())
        return (200 if version else 201), {"version": version + 1, "value": body}


async def serve(keys: Keys, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the client hangs up."""
    with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            found = REQUEST.fullmatch(head)
            assert found is not None, head
            if found[2] == b"changes":
                keys.followers.append(writer)
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                continue
            size = re.search(rb"Content-Length: (\d+)", head)
            body = await reader.readexactly(int(size[1])) if size is not None else b""
            status, said = keys.answer(found[1].decode(), found[3].decode(), (found[4] or b"").decode(), body.decode())
            text = json.dumps(said).encode()
            writer.write(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text))


class FakeWorld(World):
    """`done`: what was done to it."""

    def __init__(self, regions: Sequence[str], ports: dict[str, int], folder: Path, keys: Keys) -> None:
        super().__init__(cast(EpoxyCluster, SimpleNamespace(regions=tuple(regions), ports=ports)), folder)
        self.keys = keys
        self.done: list[str] = []

    @contextlib.contextmanager
    def stopped(self, region: str) -> Iterator[None]:
        self.done.append(f"stop {region}")
        yield

    @contextlib.contextmanager
    def cut(self, here: str, there: str, *, both_ways: bool = True) -> Iterator[None]:
        self.done.append(f"cut {here}{' ' if both_ways else '>'}{there}")
        yield

    @contextlib.contextmanager
    def slow_disk(self, region: str) -> Iterator[None]:
        self.done.append(f"slow {region}")
        yield

    @contextlib.contextmanager
    def apart(self, few: Sequence[str]) -> Iterator[None]:
        self.done.append(f"apart {' '.join(few)}")
        self.keys.broken = True
        try:
            yield
        finally:
            self.keys.broken = False


WORLDS: list[FakeWorld] = []
"""All that were made, the last one at the end."""


@contextlib.asynccontextmanager
async def fake_running(
    regions: Sequence[str], folder: Path, *, proxied: bool = False, slow: Sequence[str] = ()
) -> AsyncIterator[FakeWorld]:
    keys = Keys()
    lines: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.add(asyncio.create_task(serve(keys, reader, writer)))

    servers = {region: await asyncio.start_server(accept, "127.0.0.1", 0) for region in regions}
    ports = {region: server.sockets[0].getsockname()[1] for region, server in servers.items()}
    world = FakeWorld(regions, ports, folder, keys)
    world.done += [f"proxied {proxied}", *(f"may be slow {region}" for region in slow)]
    WORLDS.append(world)
    try:
        yield world
    finally:
        world.close()
        for server in servers.values():
            server.close()
        await asyncio.gather(*lines)
        await asyncio.sleep(0)  # connections that were closed in this turn are gone in the next
