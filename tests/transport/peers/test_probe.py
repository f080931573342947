"""Probes over real sockets: who is answered, and what is made of answers."""

import asyncio

import pytest

from epoxy.model.errors import Unavailable
from epoxy.transport.http.exchange import Exchange, Handler
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.probe import ProbeEndpoint, ProbeRefused, probe
from tests.transport.http.harness import running_server

SECRET = b"0123456789abcdef"
TOLD = b'{"id":4}'


def asked(handler: Handler, *, replica: int = 4, secret: bytes = SECRET) -> bytes:
    async def story() -> bytes:
        async with running_server(handler) as server:
            return await probe(f"http://127.0.0.1:{server.port}", replica, secret, None, 10)

    return asyncio.run(story())


def node(*, certificates: bool = False) -> ProbeEndpoint:
    return ProbeEndpoint(Verifier(4, SECRET), lambda: TOLD, certificates=certificates)


def test_a_holder_of_the_secret_is_told() -> None:
    assert asked(node()) == TOLD


@pytest.mark.parametrize(
    ("handler", "replica", "secret", "words"),
    [
        (node(), 5, SECRET, "meant for replica 5; this is 4"),
        (node(), 4, b"another secret!!", "not signed with our secret"),
        (node(certificates=True), 4, SECRET, "peers show a certificate"),
        (lambda exchange: exchange.respond(200, TOLD), 4, SECRET, "the answer is not signed"),
    ],
    ids=["id", "secret", "certificate", "forged"],
)
def test_another_node_is_refused_and_refuses(handler: Handler, replica: int, secret: bytes, words: str) -> None:
    with pytest.raises(ProbeRefused, match=words):
        asked(handler, replica=replica, secret=secret)


def test_the_answer_to_another_request_is_refused() -> None:
    """A planted fault: an answer that was overheard."""
    kept: list[tuple[bytes, bytes]] = []
    honest = Verifier(4, SECRET)

    def replaying(exchange: Exchange) -> None:
        if not kept:
            signed = honest.verify(exchange.request.headers, exchange.request.path, b"")
            kept.append(honest.answer(signed, 200, TOLD))
        exchange.respond(200, TOLD, headers=tuple(kept))

    async def story() -> None:
        async with running_server(replaying) as server:
            url = f"http://127.0.0.1:{server.port}"
            assert await probe(url, 4, SECRET, None, 10) == TOLD
            with pytest.raises(ProbeRefused):
                await probe(url, 4, SECRET, None, 10)

    asyncio.run(story())


def test_what_is_no_node_is_no_answer() -> None:
    """A proxy whose node is down, for one: nothing is concluded from it."""
    with pytest.raises(Unavailable, match="answered 502: which no Epoxy node says") as refused:
        asked(lambda exchange: exchange.respond(502, b"bad gateway"))
    assert not isinstance(refused.value, ProbeRefused)
    with pytest.raises(Unavailable, match="served on another address"):
        asked(
            lambda exchange: exchange.fail(421, "wrong_listener", "served on another address of this node, node.peers")
        )
    with pytest.raises(Unavailable):
        asyncio.run(probe("http://127.0.0.1:1", 4, SECRET, None, 10))
    with pytest.raises(Unavailable, match="wants TLS"):
        asyncio.run(probe("https://127.0.0.1:1", 4, SECRET, None, 10))
