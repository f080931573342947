"""Peers on frames that do not read their answers, send halves, or send more than is taken: how much is held for them,
and for how long."""

from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import HttpLimits
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import FrameExchange
from tests.transport.http.harness import RunningServer, run, running_server, until, with_server
from tests.transport.peers.pair import Replica, accept
from tests.transport.peers.test_endpoint import frame, verifier
from tests.transport.peers.test_frames import endpoint, switched

LONG = b"v" * (256 << 10)


class Large:
    """Answers every frame at once with a quarter of a megabyte, and counts."""

    def __init__(self) -> None:
        self.begun = 0
        self._authenticator = Authenticator(verifier())

    def __call__(self, exchange: Exchange) -> None:
        signed = self._authenticator.verify(exchange)
        assert signed is not None
        exchange.switch(self._authenticator.open_session(signed), self._answer)

    def _answer(self, exchange: FrameExchange) -> None:
        self.begun += 1
        exchange.respond(200, LONG)


def test_a_peer_that_does_not_read_is_not_served_more_until_it_does() -> None:
    large, count = Large(), 200

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        caller.client.transport.pause_reading()
        caller.send(*[b"?"] * count)
        await until(lambda: large.begun > 0)
        other = await switched(opened)
        for _ in range(20):
            other.send(b"?")
            await other.answer()
        held = large.begun - 20
        assert held < count // 2, "what the sockets take, and no more"
        caller.client.transport.resume_reading()
        for _ in range(count):
            assert (await caller.answer()).body == LONG
        assert large.begun == count + 20

    with_server(large, test)


def test_a_peer_that_does_not_read_for_too_long_is_hung_up_on() -> None:
    large = Large()

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        caller.client.transport.pause_reading()
        caller.send(*[b"?"] * 200)
        await until(lambda: large.begun > 0)
        other = await switched(opened)
        other.send(b"?")
        await other.answer()
        opened.late(HttpLimits().write_timeout_s - 5)
        assert len(opened.connections) == 2
        opened.late(HttpLimits().write_timeout_s + 5)
        await until(lambda: len(opened.connections) == 1)
        other.send(b"?")
        assert (await other.answer()).status == 200

    with_server(large, test)


def test_frames_that_wait_stay_in_the_socket() -> None:
    """Of a flood, what was read when reading stopped; not all that was sent."""
    replica = Replica()
    replica.silent = True
    count, size = 300, 64 << 10

    async def story() -> None:
        async with running_server(endpoint(replica), HttpLimits(pipelined=2)) as opened:
            caller = await switched(opened)
            caller.send(*(frame(accept(n, size)) for n in range(count)))
            await until(lambda: len(replica.waiting) == 2)
            other = await switched(opened)
            replica.silent = False
            for _ in range(20):
                other.send(frame(accept(0)))
                await other.answer()
            assert opened.connections.peer_budget.bytes < 2 << 20, f"{count * size} were offered"
            replica.speak()
            for _ in range(count):
                assert (await caller.answer()).status == 200
            assert opened.connections.peer_budget.bytes == 0

    run(story())


def test_half_a_frame_waits_for_the_other_half() -> None:
    replica = Replica()

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        sealed = caller.sealed(frame(accept(1)))
        for piece in (sealed[:2], sealed[2:4], sealed[4:30], sealed[30:-1]):
            caller.client.send(piece)
            other = await switched(opened)
            other.send(frame(accept(2)))
            assert (await other.answer()).status == 200, "others are served meanwhile"
        assert len(replica.asked) == 4
        caller.client.send(sealed[-1:])
        assert (await caller.answer()).status == 200
        assert len(replica.asked) == 5

    with_server(endpoint(replica), test)


def test_half_a_frame_has_its_time() -> None:
    """Shorter than what a connection has where nothing is on its way."""
    limits = HttpLimits()
    assert limits.body_timeout_s + 5 < limits.idle_timeout_s

    async def test(opened: RunningServer) -> None:
        halfway, idle = await switched(opened), await switched(opened)
        for caller in (halfway, idle):
            caller.send(frame(accept(1)))
            await caller.answer()
        halfway.client.send(halfway.sealed(frame(accept(2)))[:-1])
        idle.send(frame(accept(3)))
        await idle.answer()
        opened.late(limits.body_timeout_s - 5)
        assert len(opened.connections) == 2
        opened.late(limits.body_timeout_s + 5)
        await halfway.hung_up_on()
        await until(lambda: len(opened.connections) == 1)
        idle.send(frame(accept(4)))
        assert (await idle.answer()).status == 200

    with_server(endpoint(Replica()), test)
