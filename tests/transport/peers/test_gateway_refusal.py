"""A member of several nodes, over real sockets: its peers find the one that is the gateway, and find it again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from epoxy.model.errors import Unavailable
from epoxy.model.messages import AcceptOk, Failed
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.request import HttpReply
from epoxy.transport.http.response import problem
from epoxy.transport.limits import GATEWAY_PATHS
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import FrameExchange
from epoxy.transport.peers.gateway_refusal import (
    NOT_GATEWAY,
    is_not_gateway,
    may_be_not_gateway,
    refuse_frame,
    refuse_peer,
    says_not_gateway,
)
from epoxy.transport.peers.peer import LinkState
from epoxy.transport.peers.probe import ProbeEndpoint, ProbeRefused, probe_any
from epoxy.transport.peers.transport import PeerEndpoint, Peers
from tests.transport.http.harness import RunningServer, run, running_server, until
from tests.transport.peers.pair import ME, NEVER_MS, PEER, SECRET, Replica, accept, patient

LIMITS = patient(backoff_ms=1, backoff_cap_ms=4, tick_ms=20, probe_ms=NEVER_MS)


class NodeOf:
    """One node of a datacenter: the gateway, or one that refuses peers."""

    def __init__(self, *, gateway: bool) -> None:
        self.replica = Replica()
        self.gateway = gateway
        self.asked = 0
        self._authenticator = Authenticator(Verifier(PEER, SECRET))
        self._endpoint = PeerEndpoint(self.replica.handle, self._authenticator)

    def __call__(self, exchange: Exchange) -> None:
        self.asked += 1
        if not self.gateway:
            refuse_peer(exchange)
        elif (session := self._authenticator.accept(exchange)) is not None:
            exchange.switch(session, self._frame)

    def _frame(self, exchange: FrameExchange) -> None:
        (self._endpoint.handle_frame if self.gateway else refuse_frame)(exchange)


@asynccontextmanager
async def linked(nodes: Sequence[NodeOf]) -> AsyncIterator[tuple[Peers, list[RunningServer]]]:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(running_server(node)) for node in nodes]
        url = ",".join(f"http://127.0.0.1:{server.port}" for server in servers)
        clock = LoopClock(asyncio.get_running_loop())
        peers = Peers(ME, SECRET, {PEER: url}, epoch=lambda: 1, clock=clock, dice=SystemDice(), limits=LIMITS)
        peers.start()
        try:
            yield peers, servers
        finally:
            await peers.stop()


async def reply(peers: Peers) -> object:
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    peers.send(PEER, [accept()], answer.set_result)
    return await answer


async def first_reply(peers: Peers) -> object:
    """As soon as there is one that is no failure."""
    while isinstance(found := await reply(peers), Failed):
        await asyncio.sleep(0.001)
    return found


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_gateway_is_found_wherever_it_is(place: int, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        nodes = [NodeOf(gateway=number == place) for number in range(3)]
        async with linked(nodes) as (peers, _):
            assert await reply(peers) == AcceptOk()
            link = peers._peers[PEER]
            assert (link.refused, link.lost, link.trouble) == (0, 0, "")
            assert [len(node.replica.asked) for node in nodes] == [int(number == place) for number in range(3)]
            assert all(node.asked for node in nodes[: place + 1])
            assert not any(node.asked for node in nodes[place + 1 :])

    with caplog.at_level(logging.WARNING, "epoxy.peers"):
        run(story())
    assert not caplog.records


def test_the_address_that_worked_last_is_tried_first() -> None:
    async def story() -> None:
        nodes = [NodeOf(gateway=False), NodeOf(gateway=True)]
        async with linked(nodes) as (peers, servers):
            assert await reply(peers) == AcceptOk()
            link = peers._peers[PEER]
            await until(lambda: len(link._connections._open) == LIMITS.connections)
            asked = nodes[0].asked
            for connection in list(servers[1].connections._open):
                connection.abort()
            await until(lambda: link.lost == LIMITS.connections)
            assert await first_reply(peers) == AcceptOk()
            await until(lambda: len(link._connections._open) == LIMITS.connections)
            assert nodes[0].asked == asked

    run(story())


def test_the_gateway_moves_and_open_connections_are_refused() -> None:
    """The old gateway goes on as a shard node: a frame on a connection of before is refused, and the link looks for
    the next gateway."""

    async def story() -> None:
        nodes = [NodeOf(gateway=True), NodeOf(gateway=False)]
        async with linked(nodes) as (peers, _):
            assert await reply(peers) == AcceptOk()
            nodes[0].gateway, nodes[1].gateway = False, True
            assert await first_reply(peers) == AcceptOk()
            assert len(nodes[1].replica.asked) == 1
            assert peers._peers[PEER].refused == 0

    run(story())


def test_without_a_gateway_the_peer_is_unreachable_until_there_is_one() -> None:
    async def story() -> None:
        nodes = [NodeOf(gateway=False), NodeOf(gateway=False)]
        async with linked(nodes) as (peers, _):
            link = peers._peers[PEER]
            await until(lambda: link.state is LinkState.DOWN)
            assert link.trouble.count("it is not the gateway of its datacenter") == 2
            assert isinstance(await reply(peers), Failed)
            assert link.refused == 0
            nodes[1].gateway = True
            assert await first_reply(peers) == AcceptOk()
            assert link.trouble == ""

    run(story())


def test_a_node_that_is_down_is_passed_over() -> None:
    async def story() -> None:
        async with linked([NodeOf(gateway=False), NodeOf(gateway=True)]) as (peers, servers):
            assert await reply(peers) == AcceptOk()
            servers[0].listener.close()
            for connection in list(servers[1].connections._open):
                connection.abort()
            peers._peers[PEER]._connections._worked = 0
            assert await first_reply(peers) == AcceptOk()

    run(story())


# Probes


def test_the_gateway_answers_a_probe_of_all_addresses() -> None:
    async def story() -> None:
        gateway = ProbeEndpoint(Verifier(4, SECRET), lambda: b"{}")
        stranger = ProbeEndpoint(Verifier(4, b"another secret!!"), lambda: b"{}")
        async with running_server(refuse_peer) as other, running_server(gateway) as main:
            shard, there = f"http://127.0.0.1:{other.port}", f"http://127.0.0.1:{main.port}"
            assert await probe_any([shard, there, "http://127.0.0.1:1"], 4, SECRET, None, 10) == b"{}"
            with pytest.raises(Unavailable, match=f"{shard}: not_gateway") as refused:
                await probe_any([shard, "http://127.0.0.1:1"], 4, SECRET, None, 10)
            assert not isinstance(refused.value, ProbeRefused)
            async with running_server(stranger) as strange:
                with pytest.raises(ProbeRefused, match="not signed with our secret"):
                    await probe_any([shard, f"http://127.0.0.1:{strange.port}"], 4, SECRET, None, 10)

    run(story())


# The words


@pytest.mark.parametrize("path", sorted(GATEWAY_PATHS))
def test_every_address_of_peers_says_it_in_head_and_body(path: bytes) -> None:
    async def story() -> None:
        async with running_server(refuse_peer) as server:
            client = await server.dial()
            client.send(b"GET %b HTTP/1.1\r\nhost: a\r\n\r\n" % path)
            head, body = await client.answer()
            assert says_not_gateway(head)
            assert is_not_gateway(HttpReply(421, {}, body))

    run(story())


def test_other_refusals_are_none() -> None:
    assert not is_not_gateway(HttpReply(421, {}, problem("wrong_listener", "elsewhere")))
    assert not is_not_gateway(HttpReply(403, {}, problem(NOT_GATEWAY, "")))
    assert not says_not_gateway(b"HTTP/1.1 421 Misdirected Request\r\nepoxy-error: wrong_listener")
    assert not says_not_gateway(b"HTTP/1.1 403 Forbidden\r\nepoxy-error: not_gateway")
    assert may_be_not_gateway(b"HTTP/1.1 4")
    assert not may_be_not_gateway(b"HTTP/1.1 40")
