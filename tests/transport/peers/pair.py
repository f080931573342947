"""Two ends of a link on loopback: `Peers` on one side, a `PeerEndpoint` behind a real server on the other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from ssl import SSLContext

import msgspec

from epoxy.codec.plain_requests import Incoming, decoded
from epoxy.model.ballot import Ballot
from epoxy.model.incarnation import Greeting, Incarnation, MismatchCode, Sighting, StoreMismatch
from epoxy.model.messages import Accept, AcceptOk, Read, Reply, Request
from epoxy.model.records import Proposal, ProposalId
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.keyring import Keyring
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.peers.transport import PeerEndpoint, Peers
from epoxy.transport.tls import ContextOf
from epoxy.transport.wan.emulation import Link
from tests.transport.http.harness import RunningServer, context_of, running_server, until

SECRET = b"a secret of the whole cluster"
ME, PEER = 1, 2


CLONE = StoreMismatch(MismatchCode.CLONE, "another process was started from a copy")


class HandGate(OpenGate):
    """A gate that is told what to say, and remembers what it was asked."""

    def __init__(self, store: int = 0, *, nonce: int = 1, position: int = 0) -> None:
        super().__init__(store)
        self.incarnation = Incarnation(store=store, counter=1, nonce=nonce, base=0)
        self.at = position
        self.position = lambda: self.at
        self.known: Sighting | None = None
        self.mismatch: StoreMismatch | None = None
        self.hears = True
        self.calls: list[tuple[str, object]] = []

    def greeting(self, peer: int) -> Greeting:  # noqa: ARG002
        return Greeting(incarnation=self.incarnation, position=self.at, known=self.known)

    def told(self, peer: int, known: Sighting | None) -> None:
        self.calls.append(("told", (peer, known)))

    def meet(self, peer: int, greeting: Greeting, told: Sighting | None) -> StoreMismatch | None:
        self.calls.append(("meet", (peer, greeting, told)))
        return self.mismatch

    def hear(self, peer: int, nonce: int, position: int) -> bool:
        self.calls.append(("hear", (peer, nonce, position)))
        return self.hears

    def answered(self, peer: int) -> None:
        self.calls.append(("answered", peer))

    def objected(self, peer: int, code: MismatchCode) -> None:
        self.calls.append(("objected", (peer, code)))

    def connected(self, peer: int, nonce: int) -> None:
        self.calls.append(("connected", (peer, nonce)))

    def disconnected(self, peer: int, nonce: int) -> None:
        self.calls.append(("disconnected", (peer, nonce)))

    def of(self, name: str) -> list[object]:
        return [given for called, given in self.calls if called == name]


NEVER_MS = 1e9


def patient(**limits: float) -> PeerLimits:
    """For what must succeed, however slow the machine."""
    return msgspec.structs.replace(PeerLimits(timeout_ms=25_000), **limits)


HASTY = PeerLimits(timeout_ms=150, tick_ms=20, probe_ms=NEVER_MS, backoff_ms=5, backoff_cap_ms=20)
"""For what must fail. A peer that is up is not probed, so only what a test sends can be late."""


def accept(number: int = 0, size: int = 8) -> Accept:
    proposal = Proposal(value=b"v" * size, version=1, mutable=False, proposal_id=ProposalId(ME, number))
    return Accept(key=b"key/%d" % number, epoch=1, ballot=Ballot(1, ME), proposal=proposal)


def read(number: int) -> Read:
    return Read(key=b"%d" % number, epoch=1)


class Replica:
    """Answers at once, later, or never, and remembers what it was asked."""

    def __init__(self, reply: Callable[[Request], Reply] = lambda _: AcceptOk()) -> None:
        self.reply = reply
        self.asked: list[Request] = []
        self.waiting: list[Callable[[], None]] = []
        self.silent = False

    def handle(self, incoming: Sequence[Incoming], answered: Callable[[Sequence[Reply]], None]) -> None:
        requests = [decoded(each) for each in incoming]
        self.asked += requests
        if self.silent:
            self.waiting.append(lambda: answered([self.reply(request) for request in requests]))
        else:
            answered([self.reply(request) for request in requests])

    def speak(self) -> None:
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            answer()


@asynccontextmanager
async def replica_server(
    replica: Replica,
    *,
    me: int = PEER,
    secret: bytes | Keyring = SECRET,
    port: int = 0,
    ssl: SSLContext | ContextOf | None = None,
    link: Link | None = None,
    certificates: bool = False,
    gate: OpenGate | None = None,
) -> AsyncIterator[RunningServer]:
    authenticator = Authenticator(Verifier(me, secret), gate, link=link, certificates=certificates)
    endpoint = PeerEndpoint(replica.handle, authenticator)
    async with running_server(endpoint, ssl=ssl, port=port) as opened:
        yield opened


@asynccontextmanager
async def peers_to(
    port: int,
    *,
    limits: PeerLimits | None = None,
    scheme: str = "http",
    host: str = "127.0.0.1",
    ssl: SSLContext | ContextOf | None = None,
    rtt_ms: float = 0.0,
    secret: bytes | Keyring = SECRET,
    gate: OpenGate | None = None,
) -> AsyncIterator["Caller"]:
    clock = LoopClock(asyncio.get_running_loop())
    link = Link(clock, {PEER: rtt_ms})
    peers = Peers(
        ME,
        secret,
        {PEER: f"{scheme}://{host}:{port}"},
        epoch=lambda: 1,
        clock=clock,
        dice=SystemDice(),
        limits=limits or patient(),
        ssl=context_of(ssl),
        link=link,
        gate=gate,
    )
    peers.start()
    try:
        yield Caller(peers, link)
    finally:
        await peers.stop()


class Caller:
    def __init__(self, peers: Peers, link: Link) -> None:
        self.peers = peers
        self.link = link

    def send(self, *requests: Request) -> "asyncio.Future[Reply]":
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.peers.send(PEER, requests, answer.set_result)
        return answer

    async def reached(self, yes: bool = True) -> None:
        await until(lambda: self.peers.reachable(PEER) is yes)

    async def insist(self, request: Request) -> Reply:
        """Again until it works: what fails while a link comes back is not the matter."""
        while True:
            await self.reached()
            reply = await self.send(request)
            if isinstance(reply, AcceptOk):
                return reply
