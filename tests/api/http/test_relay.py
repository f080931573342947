"""The connection between two datacenters: signed and sealed, with the delays and cuts of its link."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from epoxy.actors.messages import GetActor, Missing, OwnerUnavailable, Verdict
from epoxy.api.http import relay
from epoxy.api.http.relay import PROTOCOL, LinkRelay, OrderedCrossing, RelayEndpoint, SealedMessages
from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from epoxy.codec.seals import Seals
from epoxy.model.actors import ActorName
from epoxy.model.envoy_messages import ActorRequest, Opened, Response
from epoxy.model.exchanges import Credit, Head, Piece, Reset
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.server import serve_http
from epoxy.transport.limits import RELAY_PATH
from epoxy.transport.peers.auth import OPERATOR, Verifier, sign, wall_ms
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import BadFrame
from epoxy.transport.peers.gateway_refusal import refuse_peer
from epoxy.transport.peers.keyring import keyring_of
from epoxy.transport.peers.link_context import Identity
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.wan.emulation import Link
from tests.api.http.access_bench import GuardedNode, bearer
from tests.api.http.http_bench import SECRET, FakeNode, Wire, request
from tests.api.http.spoken_worker import spoken_worker
from tests.api.http.test_routes_actor_paths import AT, closed_with, raw, socket
from tests.api.http.test_routes_actors import places, run

QUESTION = GetActor(target=ActorName("default", "room", "lobby"))
OWNER, SENDER = 1, 2


class Owner:
    """Answers every question with the same."""

    def __init__(self, node: FakeNode, *, left: bool = False) -> None:
        self.asked: list[object] = []
        self.authenticator = Authenticator(Verifier(OWNER, SECRET), OpenGate(1), has_left=lambda _header: left)
        self.endpoint = RelayEndpoint(self, self.authenticator)  # type: ignore[arg-type]
        self.api = Api(node, Metrics(), more=[self.endpoint.route()])

    def ask(
        self,
        question: object,
        answered: Callable[[Verdict], None],
        *,
        relayed: bool = False,
        stream: object = None,
    ) -> None:
        assert relayed
        assert stream is None
        self.asked.append(question)
        answered(Missing())


class PeerWire(Wire):
    is_peer = False

    def mark_as_peer(self) -> None:
        self.is_peer = True


def dialled(owner: Owner, authorization: str = "", upgrade: bytes = PROTOCOL) -> int:
    shown = {"authorization": authorization} if authorization else {}
    wire = PeerWire(request("GET", RELAY_PATH.decode(), None, upgrade=upgrade.decode(), **shown))
    owner.api(wire.exchange)
    return wire.answer().status


def signature(*, secret: bytes = SECRET, sender: int = SENDER, recipient: int = OWNER) -> str:
    header = SignedHeader(sender, recipient, 1, wall_ms(), 7, OpenGate(2).greeting(recipient))
    return sign(secret, header, RELAY_PATH, b"")[0].decode()


@pytest.mark.parametrize("is_open", [True, False])
def test_only_replicas_are_answered(is_open: bool) -> None:
    node = GuardedNode(is_open=is_open)
    owner = Owner(node)
    node.set()
    strangers = ("", bearer(1), signature(secret=b"x"), signature(recipient=3), signature(sender=OPERATOR))
    assert [dialled(owner, shown) for shown in strangers] == [401] * len(strangers)
    assert dialled(owner, signature(), b"epoxy-actors/0") == 426
    assert dialled(Owner(FakeNode(), left=True), signature()) == 403


@asynccontextmanager
async def relay_to(handler: Callable[[Exchange], None], link: Link | None = None) -> AsyncIterator[LinkRelay]:
    server = await serve_http(handler, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    identity = Identity(SENDER, keyring_of(SECRET), lambda: 1, OpenGate(2))
    clock = LoopClock(asyncio.get_running_loop())
    made = LinkRelay(lambda _label: (url,), link or Link(clock), None, identity, SystemDice(), clock)
    try:
        yield made
    finally:
        made.close()
        server.close()


async def verdict(made: LinkRelay) -> Verdict | None:
    answered: asyncio.Future[Verdict | None] = asyncio.get_running_loop().create_future()
    made.ask(OWNER, QUESTION, answered.set_result)
    return await answered


def test_questions_share_one_connection_and_another_is_made_when_it_breaks() -> None:
    async def story() -> None:
        owner = Owner(FakeNode())
        async with relay_to(owner.api) as made:
            assert await asyncio.gather(*(verdict(made) for _ in range(20))) == [Missing()] * 20
            assert (len(made._dials), len(owner.endpoint._open)) == (1, 1)
            owner.endpoint.close()
            while made._dials:
                await asyncio.sleep(0.001)
            assert await verdict(made) == Missing()
            assert owner.asked == [QUESTION] * 21

    run(story())


def test_one_that_does_not_prove_itself_is_asked_nothing() -> None:
    async def story() -> None:
        forger = Authenticator(Verifier(OWNER, b"another"), OpenGate(1))
        sessions: list[object] = []

        def pretend(exchange: Exchange) -> None:
            signed = Authenticator(Verifier(OWNER, SECRET), OpenGate(1)).authenticate(exchange)
            assert signed is not None
            session = forger.open_session(signed)
            said = b"%b,%b,%b" % (session.nonce.hex().encode(), session.said, b"00" * 32)
            exchange.upgrade(relay.RelayServer(None, session, forger, sessions.append), ((b"epoxy-session", said),))  # type: ignore[arg-type]

        for handler in (pretend, lambda exchange: exchange.respond(200, b"{}")):
            async with relay_to(handler) as made:
                assert isinstance(await verdict(made), OwnerUnavailable)

    run(story())


def test_a_frame_that_was_changed_ends_the_connection() -> None:
    async def story() -> None:
        frames: list[bytes] = []
        sender = SealedMessages(Seals(b"a"), Seals(b"b"), frames.append)
        sender.send(Credit(stream=1, amount=2))
        sender.send(Piece(stream=1, body=bytes(300_000)))
        sender.flush()
        assert len(frames) == 2, "a long one has its own"
        assert SealedMessages(Seals(b"b"), Seals(b"a"), frames.append).read(b"".join(frames)) == [
            Credit(stream=1, amount=2),
            Piece(stream=1, body=bytes(300_000)),
        ]
        changed = frames[0][:-1] + bytes([frames[0][-1] ^ 1])
        for wrong in (changed, frames[1]):
            with pytest.raises(BadFrame):
                SealedMessages(Seals(b"b"), Seals(b"a"), frames.append).read(wrong)

    run(story())


def test_nothing_overtakes_on_a_link_and_nothing_passes_what_is_lost() -> None:
    arrivals: list[Callable[[], None]] = []
    heard: list[bytes] = []
    crossing = OrderedCrossing(arrivals.append, heard.append)
    for data in (b"1", b"2", b"3"):
        crossing.cross(data)
    arrivals[1]()
    assert heard == []
    arrivals[0]()
    assert heard == [b"1", b"2"]


def test_a_link_has_its_round_trip() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        link = Link(LoopClock(loop), {OWNER: 60.0})
        async with relay_to(Owner(FakeNode()).api, link) as made:
            await verdict(made)
            began = loop.time()
            await verdict(made)
            assert loop.time() - began >= 0.055

    run(story())


def test_a_link_that_is_cut_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "BEAT_S", 0.02)
    monkeypatch.setattr(relay, "CONNECT_S", 0.2)

    async def story() -> None:
        link = Link(LoopClock(asyncio.get_running_loop()))
        async with relay_to(Owner(FakeNode()).api, link) as made:
            assert await verdict(made) == Missing()
            link.cut(OWNER)
            assert await verdict(made) is None, "it may have arrived"
            assert isinstance(await verdict(made), OwnerUnavailable), "it was not sent"
            link.heal(OWNER)
            assert await verdict(made) == Missing()

    run(story())


def test_streams_and_sockets_reach_actors_of_another_datacenter() -> None:
    async def story() -> None:
        async with places(2) as (here, there), spoken_worker(there.url) as worker, raw(there) as near, raw(here) as far:
            near.send("GET", AT)
            made = await worker.next(ActorRequest)
            await worker.say(Response(request_id=made.request_id))
            await near.answer()
            far.send("POST", f"{AT}/echo", None)
            opened = await worker.next(Opened)
            far.chunk(b"one")
            assert (await worker.next(Piece)).body == b"one"
            await worker.say(Head(stream=opened.stream, status=202), Piece(stream=opened.stream, body=b"1", fin=True))
            status, headers = await far.head()
            assert (status, await far.body(headers)) == (202, b"1")
            opening = asyncio.ensure_future(socket(here).__aenter__())
            opened = await worker.next(Opened)
            await worker.accept(opened.stream)
            client = await opening
            await client.send("hi")
            assert (await worker.next(Piece)).body == b"hi"
            await worker.say(Piece(stream=opened.stream, body=b"ho", text=True))
            assert await client.recv() == "ho"
            there.system._endpoint.close()
            code, _ = await closed_with(client)
            assert code == 1012
            assert isinstance(await worker.next(Reset), Reset)

    run(story())


def test_whole_answers_come_back_with_status_and_headers() -> None:
    async def story() -> None:
        async with places(2) as (here, there), spoken_worker(there.url) as worker, raw(there) as near, raw(here) as far:
            for client in (near, far):
                client.send("GET", AT)
                asked = await worker.next(ActorRequest)
                await worker.say(Response(request_id=asked.request_id, body=b"b", status=404, headers=(("x-a", "1"),)))
                status, headers, body = await client.answer()
                assert (status, headers["x-a"], body) == (404, "1", b"b")

    run(story())


def test_a_question_that_waits_for_a_connection_is_withdrawn_unsent() -> None:
    async def story() -> None:
        owner = Owner(FakeNode())
        async with relay_to(owner.api) as made:
            told: list[Verdict | None] = []
            withdraw = made.ask(OWNER, QUESTION, told.append)
            later = made.ask(OWNER, QUESTION, told.append)
            assert withdraw()
            while not told:
                await asyncio.sleep(0.001)
            assert (told, owner.asked, later()) == ([Missing()], [QUESTION], False)

    run(story())


def test_the_gateway_is_asked_wherever_it_is() -> None:
    async def story() -> None:
        owner, asked = Owner(FakeNode()), [0, 0]

        def shard(exchange: Exchange) -> None:
            asked[0] += 1
            refuse_peer(exchange)

        def gateway(exchange: Exchange) -> None:
            asked[1] += 1
            owner.api(exchange)

        servers = [await serve_http(handler, "127.0.0.1", 0) for handler in (shard, gateway)]
        urls = tuple([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers])
        identity, clock = (
            Identity(SENDER, keyring_of(SECRET), lambda: 1, OpenGate(2)),
            LoopClock(asyncio.get_running_loop()),
        )
        nowhere = "http://127.0.0.1:1"
        made = LinkRelay(lambda _label: (nowhere, *urls), Link(clock), None, identity, SystemDice(), clock)
        assert await verdict(made) == Missing()
        assert asked == [1, 1]
        owner.endpoint.close()
        while made._dials:
            await asyncio.sleep(0.001)
        assert not made._ways
        assert await verdict(made) == Missing()
        assert asked == [1, 2], "the address that accepted last is dialled first"
        servers[1].close()
        owner.endpoint.close()
        while made._dials:
            await asyncio.sleep(0.001)
        refused = await verdict(made)
        assert isinstance(refused, OwnerUnavailable)
        assert all(url in refused.reason for url in urls)
        assert not made._ways
        made.close()
        servers[0].close()

    run(story())


def test_a_datacenter_without_an_address() -> None:
    async def story() -> None:
        identity, clock = (
            Identity(SENDER, keyring_of(SECRET), lambda: 1, OpenGate(2)),
            LoopClock(asyncio.get_running_loop()),
        )
        made = LinkRelay(lambda _label: (), Link(clock), None, identity, SystemDice(), clock)
        refused = await verdict(made)
        assert isinstance(refused, OwnerUnavailable)
        assert refused.reason.endswith("it has no address")

    run(story())
