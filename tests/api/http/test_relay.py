"""What one datacenter passes on to another: signed, and nothing else is answered or believed."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from epoxy.actors.messages import GetActor, Missing, OwnerUnavailable, Verdict
from epoxy.api.http.relay import HttpRelay, RelayEndpoint
from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from epoxy.model.actors import ActorName
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.server import serve_http
from epoxy.transport.limits import RELAY_PATH
from epoxy.transport.peers.auth import OPERATOR, Verifier, sign, wall_ms
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.keyring import keyring_of
from epoxy.transport.peers.link_context import Identity
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.wan.emulation import Link
from tests.api.http.access_bench import GuardedNode, bearer
from tests.api.http.http_bench import SECRET, Answer, FakeNode, Wire, request

QUESTION = GetActor(target=ActorName("default", "room", "lobby"))
BODY = msgspec.json.encode(QUESTION)
OWNER, SENDER = 1, 2


class Owner:
    """Answers every question with the same."""

    def __init__(self, node: FakeNode, *, left: bool = False) -> None:
        self.asked: list[object] = []
        self.authenticator = Authenticator(Verifier(OWNER, SECRET), OpenGate(1), has_left=lambda _header: left)
        endpoint = RelayEndpoint(self, self.authenticator)  # type: ignore[arg-type]
        self.api = Api(node, Metrics(), more=[endpoint.route()])

    def ask(self, question: object, answered: Callable[[Verdict], None], *, relayed: bool = False) -> None:
        assert relayed
        self.asked.append(question)
        answered(Missing())


class PeerWire(Wire):
    is_peer = False

    def mark_as_peer(self) -> None:
        self.is_peer = True


def passed_on(owner: Owner, authorization: str = "", body: bytes = BODY) -> Answer:
    shown = {"authorization": authorization} if authorization else {}
    wire = PeerWire(request("POST", RELAY_PATH.decode(), body, content_type="application/json", **shown))
    owner.api(wire.exchange)
    return wire.answer()


def signature(body: bytes = BODY, *, secret: bytes = SECRET, sender: int = SENDER, recipient: int = OWNER) -> str:
    header = SignedHeader(sender, recipient, 1, wall_ms(), 7, OpenGate(2).greeting(recipient))
    return sign(secret, header, RELAY_PATH, body)[0].decode()


@pytest.mark.parametrize("is_open", [True, False])
def test_only_what_a_replica_signed_is_answered(is_open: bool) -> None:
    node = GuardedNode(is_open=is_open)
    owner = Owner(node)
    node.set()
    for refused in (
        "",
        bearer(1),
        signature(secret=b"another"),
        signature(b"another question"),
        signature(recipient=3),
        signature(sender=OPERATOR),
    ):
        assert passed_on(owner, refused).status == 401
    assert owner.asked == []
    signed = signature()
    answer = passed_on(owner, signed)
    assert (answer.status, msgspec.json.decode(answer.body)) == (200, {"type": "missing"})
    assert "epoxy-mac" in answer.headers
    assert passed_on(owner, signed).status == 401, "a repetition"
    assert owner.asked == [QUESTION]


def test_what_is_no_question_is_refused() -> None:
    assert passed_on(Owner(FakeNode()), signature(b"{"), b"{").status == 400


def test_a_datacenter_that_has_left_is_told_so() -> None:
    owner = Owner(FakeNode(), left=True)
    answer = passed_on(owner, signature())
    assert msgspec.json.decode(answer.body)["reason"] == "the datacenter that asked is no member any more"
    assert owner.asked == []


def relayed(handler: Callable[[Exchange], None]) -> Verdict | None:
    """What the sender makes of the owner's answer."""

    async def ask() -> Verdict | None:
        server = await serve_http(handler, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        identity = Identity(SENDER, keyring_of(SECRET), lambda: 1, OpenGate(2))
        relay = HttpRelay(lambda _label: url, Link(LoopClock(asyncio.get_running_loop())), None, identity, SystemDice())
        answered: asyncio.Future[Verdict | None] = asyncio.get_running_loop().create_future()
        relay.ask(OWNER, QUESTION, answered.set_result)
        try:
            return await answered
        finally:
            relay.close()
            server.close()

    return asyncio.run(ask())


def test_the_answer_of_the_owner_is_believed() -> None:
    owner = Owner(FakeNode())
    assert relayed(owner.api) == Missing()
    assert owner.asked == [QUESTION]


def test_an_answer_that_is_not_signed_is_not_believed() -> None:
    forged = msgspec.json.encode(OwnerUnavailable(reason="made up"))
    assert relayed(lambda exchange: exchange.respond(200, forged)) is None
    other = Verifier(OWNER, b"another")

    def wrongly_signed(exchange: Exchange) -> None:
        header = SignedHeader(SENDER, OWNER, 1, 0, 1)
        seal = other.answer(Signed(header, b"00", other.keys.spoken), 200, forged)
        exchange.respond(200, forged, headers=(seal,))

    assert relayed(wrongly_signed) is None
