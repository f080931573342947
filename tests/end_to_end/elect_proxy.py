"""A network between agents and servers that can be cut: in front of every port stands one that forwards to it, or holds
everything back as a cable without a machine at its other end. It can also change, repeat, leave out and insert what
agents say to each other."""

import asyncio
import random
import threading
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from benchmarks.failover_cluster import ElectCluster
from epoxy.codec.resp import CommandReader
from epoxy.protocol.elect import codec as wire
from epoxy.protocol.elect.link_session import SEALED
from epoxy.protocol.elect.messages import Heartbeat, Role, ServerState

READ_BYTES = 65_536

CLAIM = Heartbeat(
    epoch=2,
    node="b",
    role=Role.PRIMARY,
    offset=0,
    leader_epoch=2,
    leader="b",
    history=2,
    state=ServerState.OPEN,
    stamp=1,
    echo=0,
    stage=0,
    list="0" * 16,
)
CLAIMS = [wire.encode(replace(CLAIM, epoch=epoch, leader_epoch=epoch)) for epoch in (2, 1_000, 2**64 - 1)]
FORGED = [*CLAIMS, *(SEALED % (b"?" * 32, len(claim), claim) for claim in CLAIMS)]
"""Heartbeats of b, which leads a later epoch: without a seal, and with one that was guessed."""


class Wire:
    """One connection through the proxy, from whom (if that is known) to whom."""

    def __init__(self, receiver: str) -> None:
        self.ends = {receiver}
        self.writers: list[asyncio.StreamWriter] = []

    def drop(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Network:
    """While it is entered, the cluster's ports are reachable through it. `isolate` cuts one node off; `part` cuts the
    agents of two off from each other."""

    def __init__(self, cluster: ElectCluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._wires: set[Wire] = set()
        self._cuts: list[set[str]] = []
        self._servers: list[asyncio.Server] = []
        self._dice = random.Random(5)
        self._tampering = 0.0
        self.tampered = 0
        """Pieces of control connections that were touched."""

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def isolate(self, name: str) -> None:
        self._loop.call_soon_threadsafe(self._cuts.append, {name})

    def part(self, one: str, other: str) -> None:
        self._loop.call_soon_threadsafe(self._cuts.append, {one, other})

    def tamper(self, share: float) -> None:
        """With this share of what agents send to each other."""
        self._tampering = share

    def heal(self) -> None:
        """What was held back is lost with its connections."""

        def mend() -> None:
            for held in [each for each in self._wires if self._is_cut(each)]:
                held.drop()
            self._cuts.clear()

        self._loop.call_soon_threadsafe(mend)

    def _is_cut(self, held: Wire) -> bool:
        return any(cut <= held.ends for cut in self._cuts)

    async def _listen(self) -> None:
        for name, member in self._cluster.members.items():
            await self._forward(name, self._cluster.control[name], self._cluster.listen[name], control=True)
            await self._forward(name, self._cluster.front[name], member.server_port, control=False)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for each in list(self._wires):
            each.drop()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, name: str, port: int, target: int, *, control: bool) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held = Wire(name)
            held.writers.append(writer)
            self._wires.add(held)
            try:
                there, back = await asyncio.open_connection("127.0.0.1", target)
                held.writers.append(back)
                await asyncio.gather(
                    self._pump(held, reader, back, introduces=control),
                    self._pump(held, there, writer, introduces=False),
                )
            except OSError:
                pass
            finally:
                self._wires.discard(held)
                held.drop()

        self._servers.append(await asyncio.start_server(connected, "127.0.0.1", port))

    async def _pump(
        self, held: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, introduces: bool
    ) -> None:
        """The first frame of a control connection says who sends it."""
        frames = CommandReader(wire.LIMITS) if introduces else None
        while data := await reader.read(READ_BYTES):
            if frames is not None and (commands := frames.feed(data)):
                held.ends.add(wire.decode_hello(commands[0])[0].sender)
                frames = None
            elif introduces and self._dice.random() < self._tampering:
                data = self._touched(data)
            if not self._is_cut(held):
                writer.write(data)
        held.drop()

    def _touched(self, data: bytes) -> bytes:
        self.tampered += 1
        match self._dice.randrange(4):
            case 0:
                place = self._dice.randrange(len(data))
                return data[:place] + bytes([data[place] ^ 1 << self._dice.randrange(8)]) + data[place + 1 :]
            case 1:
                return data + data
            case 2:
                return b""
            case _:
                return self._dice.choice(FORGED) + data
