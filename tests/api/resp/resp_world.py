"""Doors on real sockets, in front of a node that is told what to say, and of a cluster in one process."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import sha256
from random import Random
from typing import Any, Literal

import msgspec
import uvloop
from msgspec import Struct

from epoxy.api.resp.limits import RespLimits
from epoxy.api.resp.server import RespServer
from epoxy.codec.resp import array, bulk
from epoxy.model.access import AccessRole, AccessTable, Grant, TokenDigest
from epoxy.model.cluster import first_epoch
from epoxy.model.messages import Failed, Reply, Request
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import (
    Committed,
    Consistency,
    Outcome,
    Path,
    ReadAnswer,
    ReadResult,
    Source,
    Write,
)
from epoxy.node.access.audit import AuditLog
from epoxy.node.access.guesses import Guesses
from epoxy.node.process.config import AccessSettings
from epoxy.node.service import Node
from epoxy.protocol.access.grants import PrincipalIndex
from epoxy.protocol.access.principal import Principal
from epoxy.protocol.access.tokens import digest_of, token_of
from epoxy.runtime.admission import Caller
from epoxy.scripting.scripts import LuaScripts
from epoxy.store.memory import MemoryStore
from tests.node.service_bench import PromptLinks, settings_of

MINE = ProposalId(1, 1)


class FakePeer(Struct, frozen=True, kw_only=True):
    id: int
    rtt_ms: float | None
    reachable: bool


class FakeStatus(Struct, frozen=True, kw_only=True):
    id: int = 1
    datacenter: str = "eu-west-1"
    ready: bool = True
    fast_path_share: float | None = None
    peers: tuple[FakePeer, ...] = (FakePeer(id=2, rtt_ms=68.5, reachable=True),)


def proposal(value: bytes | None, *, version: int = 1, mutable: bool = True) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=MINE)


def committed(value: bytes | None, *, mine: bool = True, previous: bytes | None = None) -> Committed:
    before = proposal(previous, version=1) if previous is not None else None
    return Committed(proposal=proposal(value, version=2), mine=mine, path=Path.FAST, previous=before)


def found(value: bytes | None) -> ReadResult:
    return ReadResult(committed=proposal(value) if value is not None else None, source=Source.QUORUM)


def token_for(name: str) -> str:
    return token_of(sha256(name.encode()).digest())


def granted(name: str, *roles: AccessRole, prefixes: tuple[bytes, ...] = (), **more: Any) -> Grant:
    """A grant whose token is `token_for(name)`."""
    digests = (TokenDigest(sha256=digest_of(token_for(name).encode())),)
    return Grant(name=name, roles=roles, prefixes=prefixes, **{"digests": digests, **more})


class FakeAccess:
    """Grants in force that a test changes at will. Without any the node is open."""

    def __init__(self, grants: Sequence[Grant] | None = None) -> None:
        self.is_open = grants is None
        self.generation = 0
        self.grant(*(grants or ()))

    def grant(self, *grants: Grant, now_s: int = 0) -> None:
        """These, and no others."""
        self._index = PrincipalIndex(AccessTable(grants=grants), now_s)
        self.generation += 1

    def of_certificate(self, names: Sequence[str]) -> Principal | None:
        return self._index.of_certificate(names)

    def of_token(self, token: bytes) -> Principal | None:
        return self._index.of_digest(digest_of(token))


class FakeQuotas:
    """Refuses what a test says, and notes what is charged."""

    def __init__(self) -> None:
        self.wait = 0.0
        self.room: int | None = None
        self.charged: list[bytes] = []

    def wait_s(self, _principal: Principal) -> float:
        return self.wait

    def refusal(self, _principal: Principal, more_bytes: int) -> str | None:
        return "there is no room" if self.room is not None and more_bytes > self.room else None

    def charge(self, _principal: Principal, key: bytes, _outcome: Outcome) -> None:
        self.charged.append(key)

    def charging(
        self, _principal: Principal, txn: Txn, answered: Callable[[TxnOutcome], None]
    ) -> Callable[[TxnOutcome], None]:
        self.charged.extend(txn.footprint)
        return answered


class FakeSessions:
    """Each request is a write that the test answers: of a new session by its time to live, of others by their id."""

    def __init__(self, write: Callable[[Write, Callable[[Outcome], None]], None]) -> None:
        self._write = write

    def begin(self, ttl_ms: int, answered: Callable[[Outcome], None]) -> bytes:
        self._write(Write(key=b"new", value=b"", mutable=True, ttl_ms=ttl_ms), answered)
        return bytes(range(16))

    def renew(self, session: bytes, answered: Callable[[Outcome], None]) -> None:
        self._write(Write(key=session, value=None, mutable=True, touch=True), answered)

    def end(self, session: bytes, answered: Callable[[Outcome], None]) -> None:
        self._write(Write(key=session, value=None, mutable=True), answered)


class FakeNode:
    """Holds what it is given, and asks the test for every outcome, which may come at any time."""

    def __init__(self, grants: Sequence[Grant] | None = None) -> None:
        self.access: Any = FakeAccess(grants)
        self.quotas: Any = FakeQuotas()
        self.audit, self.guesses = AuditLog(), Guesses()
        self.held: dict[bytes, Proposal] = {}
        self.left: dict[bytes, int] = {}
        self.scripts = LuaScripts()
        self.writes: deque[tuple[Write, Callable[[Outcome], None]]] = deque()
        self.reads: deque[tuple[bytes, Consistency, Callable[[ReadAnswer], None]]] = deque()
        self.txns: deque[tuple[Txn, Callable[[TxnOutcome], None]]] = deque()
        self.outcomes: deque[Outcome | Exception] = deque()
        self.asked = self.counted = self.peeked = 0
        self.room = 1 << 30
        self.sessions = FakeSessions(self.write)
        self.broken: set[bytes] = set()
        self.changing: set[bytes] = set()
        self.overwritten: Callable[[bytes], None] = lambda _: None

    @property
    def leases(self) -> "FakeNode":
        return self

    def remaining_ms(self, key: bytes, _committed: Proposal) -> int | None:
        return self.left.get(key)

    def write(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None:  # noqa: ARG002
        self.asked += 1
        if not self.outcomes:
            self.writes.append((write, answered))
            return
        outcome = self.outcomes.popleft()
        if isinstance(outcome, Exception):
            raise outcome
        answered(outcome)

    def read(
        self,
        key: bytes,
        consistency: Consistency,
        answered: Callable[[ReadAnswer], None],
        caller: Caller | None = None,  # noqa: ARG002
    ) -> None:
        self.asked += 1
        self.reads.append((key, consistency, answered))

    def peek(self, key: bytes) -> ReadResult | None:
        self.peeked += 1
        if key in self.broken:
            raise RuntimeError("a bug")
        here = self.held.get(key)
        return ReadResult(committed=here, source=Source.LOCAL) if here is not None else None

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None], caller: Caller | None = None) -> None:  # noqa: ARG002
        self.asked += 1
        self.txns.append((txn, answered))

    def on_overwrite(self, listener: Callable[[bytes], None]) -> None:
        self.overwritten = listener

    def stays(self, key: bytes, here: ReadResult) -> bool:
        return key not in self.changing and here.committed == self.held.get(key)

    def page(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        keys = sorted(key for key in self.held if key.startswith(prefix) and (after is None or key > after))
        return [(key, self.held[key]) for key in keys[:limit]]

    def count(self, after: bytes | None, rows: int, prefix: bytes = b"") -> tuple[int, bytes | None]:
        self.counted += 1
        found = self.page(prefix, after, rows)
        return sum(not each.is_tombstone for _, each in found), found[-1][0] if len(found) == rows else None

    def is_full(self, *, writes: bool) -> bool:
        return len(self.writes if writes else self.reads) >= self.room

    def status(self) -> Struct:
        return FakeStatus()


class Rope:
    """A client that sends bytes and reads bytes: what a library hides, a test wants to see."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def send(self, *commands: str | bytes) -> None:
        """Each command's words are parted by blanks."""
        self.writer.write(b"".join(packed(command) for command in commands))

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def expect(self, expected: bytes) -> None:
        """Fails with the first byte that differs: a wrong reply may be shorter."""
        got = b""
        while len(got) < len(expected):
            piece = await self._reader.read(len(expected) - len(got))
            got += piece
            assert expected.startswith(got)
            assert piece, "the connection was closed"

    async def take(self, size: int) -> bytes:
        return await self._reader.readexactly(size)

    async def line(self) -> str:
        return (await self._reader.readline()).decode().removesuffix("\r\n")

    async def rest(self) -> bytes:
        """Until the door closes."""
        return await self._reader.read()

    async def says(self, command: str | bytes, expected: bytes) -> None:
        self.send(command)
        await self.expect(expected)


def packed(command: str | bytes) -> bytes:
    words = command.encode().split() if isinstance(command, str) else command.split()
    return array([bulk(word) for word in words])


class World:
    def __init__(self, node: FakeNode, door: RespServer, port: int) -> None:
        self.node = node
        self.door = door
        self.port = port
        self._ropes: list[Rope] = []

    async def connect(self) -> Rope:
        rope = Rope(*await asyncio.open_connection("127.0.0.1", self.port))
        self._ropes.append(rope)
        return rope

    async def close(self) -> None:
        for rope in self._ropes:
            rope.writer.transport.abort()
            with contextlib.suppress(OSError):
                await rope.writer.wait_closed()


@contextlib.asynccontextmanager
async def world(
    limits: RespLimits | None = None, grants: Sequence[Grant] | None = None, reserve_prefixes: Sequence[str] = ()
) -> AsyncIterator[World]:
    """With `grants`, clients must show a token."""
    node = FakeNode(grants)
    door = RespServer(node, limits, reserve_prefixes=reserve_prefixes)
    server = await door.serve("127.0.0.1", 0)
    at = World(node, door, server.sockets[0].getsockname()[1])
    try:
        yield at
    finally:
        server.close()
        door.abort()
        await at.close()
        await turns()


async def turns(count: int = 5) -> None:
    """Let everybody who can go on, go on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Sockets take their own number of turns; a test that waits for what never comes is ended from outside."""
    while not condition():
        await asyncio.sleep(0)


def run(story: Callable[[], Awaitable[None]]) -> None:
    """On both event loops: their transports differ. A story has half a minute, and needs a blink."""

    async def limited() -> None:
        await asyncio.wait_for(story(), 60)

    asyncio.run(limited())
    uvloop.run(limited())


class Cluster(PromptLinks):
    """Replicas on one event loop. A message takes a turn of it, so rivals interleave; who is `down` is unreachable."""

    def __init__(self, n: int, auth: Literal["tokens", "open"] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._auth = auth
        self._dice = Random(7)
        self.config = first_epoch(tuple(range(1, n + 1)))
        self.messages = 0
        self.down: set[int] = set()
        self.is_mute = False
        """Messages are lost, and no replica knows."""
        self.nodes = {i: self._node(n, i) for i in self.config.active}
        for node in self.nodes.values():
            node.start()

    def _node(self, n: int, me: int) -> Node:
        settings = settings_of(n, writes_in_flight=1000, reads_in_flight=1000)
        settings = msgspec.structs.replace(settings, access=AccessSettings(auth=self._auth))
        settings = msgspec.structs.replace(settings, node=msgspec.structs.replace(settings.node, id=me))
        return Node(settings, MemoryStore(), self, self, self, self.alarm)

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()

    def rtt_ms(self, peer: int) -> float | None:
        del peer
        return 1.0

    def reachable(self, peer: int) -> bool:
        return peer not in self.down

    def trouble(self, peer: int) -> str:
        return "" if self.reachable(peer) else "gone"

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        self.messages += 1
        if not self.is_mute:
            self._loop.call_soon(self._deliver, to, requests, answered)

    def _deliver(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        def answer(reply: Reply) -> None:
            if answered is not None:
                self._loop.call_soon(answered, reply)

        if to in self.down:
            answer(Failed(reason="down"))
        else:
            self.nodes[to].replica.handle(requests, answer)

    def now_ms(self) -> float:
        return self._loop.time() * 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, then)

    def uniform(self) -> float:
        return self._dice.random()

    def nonce(self) -> int:
        return self._dice.getrandbits(64)

    def alarm(self, text: str) -> None:
        raise AssertionError(text)


@contextlib.asynccontextmanager
async def cluster(
    n: int = 3, auth: Literal["tokens", "open"] | None = None, request_timeout_ms: float = 4_000.0
) -> AsyncIterator[tuple[Cluster, list[int]]]:
    """The cluster, and the port of each replica's door."""
    built = Cluster(n, auth)
    limits = RespLimits(request_timeout_ms=request_timeout_ms)
    doors = [RespServer(node, limits) for node in built.nodes.values()]
    servers = [await door.serve("127.0.0.1", 0) for door in doors]
    try:
        yield built, [server.sockets[0].getsockname()[1] for server in servers]
    finally:
        for server, door in zip(servers, doors, strict=True):
            server.close()
            door.abort()
        await turns()
        built.stop()
