"""Connections to a peer are opened, and opened again with back-off."""

import asyncio
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers.dial import Dial
from epoxy.transport.peers.link_context import LinkContext
from epoxy.transport.peers.reconnect import PeerConnections
from epoxy.transport.wan.emulation import Link
from tests.transport.http.harness import run, until

LIMITS = PeerLimits(connections=2, backoff_ms=1, backoff_cap_ms=4)


def connections(
    url: str,
    *,
    ready: Callable[[], None] = lambda: None,
    failed: Callable[[str], None] = lambda _: None,
    make: Callable[[Callable[[], None]], Dial] = Dial,
) -> PeerConnections:
    clock = LoopClock(asyncio.get_running_loop())
    context = LinkContext(clock, SystemDice(), Link(clock), None)
    return PeerConnections(url, context, LIMITS, on_ready=ready, on_failed=failed, make=make)


@pytest.mark.parametrize(
    ("url", "words"), [("ftp://a", "no address"), ("http://", "no address"), ("https://a", r"there is no \[tls\]")]
)
def test_an_address_that_cannot_be_used_is_refused(url: str, words: str) -> None:
    async def story() -> None:
        with pytest.raises(ValueError, match=words):
            connections(url)

    run(story())


def test_a_lost_connection_is_opened_again() -> None:
    async def story() -> None:
        accepted: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        opened: list[None] = []
        kept = connections(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", ready=lambda: opened.append(None))
        assert kept.best() is None
        kept.start()
        await until(lambda: len(accepted) == len(opened) == 2)
        accepted[0].transport.abort()
        await until(lambda: len(accepted) == len(opened) == 3)
        await kept.stop()
        assert kept.best() is None
        for writer in accepted:
            writer.close()
        server.close()

    run(story())


class SlowDial(Dial):
    """Its handshake never ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.opened = asyncio.get_running_loop().create_future()


@pytest.mark.pure("inherits from a connection")
def test_what_the_peer_refused_or_ended_is_counted_and_nothing_else() -> None:
    async def story() -> None:
        accepted: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        kept = connections(url)
        kept.start()
        await until(lambda: len(accepted) == 2 and len(kept._open) == 2)
        kept._open[0].abort()
        await until(lambda: len(accepted) == 3 and len(kept._open) == 2)
        assert (kept.refused, kept.lost) == (0, 0)
        accepted[-1].transport.abort()
        await until(lambda: kept.lost == 1)
        await until(lambda: len(accepted) == 4)
        await kept.stop()
        refused = connections(url, make=SlowDial)
        refused.start()
        await until(lambda: len(accepted) == 6)
        accepted[-1].transport.abort()
        await until(lambda: refused.refused == 1 and len(accepted) == 7)
        await refused.stop()
        assert (refused.refused, refused.lost) == (1, 0)
        nowhere = connections("http://127.0.0.1:1")
        nowhere.start()
        await asyncio.sleep(0.01)
        await nowhere.stop()
        assert nowhere.refused == 0
        for writer in accepted:
            writer.close()
        server.close()

    run(story())


def test_failures_are_reported_while_none_is_open() -> None:
    async def story() -> None:
        failures: list[str] = []
        kept = connections("http://127.0.0.1:1", failed=failures.append)
        kept.start()
        await until(lambda: len(failures) >= 4)
        await kept.stop()
        assert all("Connect" in failure or "refused" in failure for failure in failures), failures

    run(story())


def test_the_best_connection_has_the_fewest_answers_outstanding() -> None:
    async def story() -> None:
        kept = connections("http://127.0.0.1:1")
        busy, paused, idle = (Mock(waiting=waiting, write_paused=False) for waiting in (3, 0, 1))
        paused.write_paused = True
        kept._open = [busy, paused, idle]
        assert kept.best() is idle

    run(story())


def test_pauses_double_up_to_a_cap_with_jitter() -> None:
    async def story() -> None:
        kept = connections("http://127.0.0.1:1")
        for failures, most_ms in ((1, 2), (2, 4), (3, 4), (1000, 4)):
            pauses = [1000 * kept._pause_s(failures) for _ in range(50)]
            assert 0.5 * most_ms <= min(pauses) < max(pauses) <= 1.5 * most_ms

    run(story())


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


def test_addresses_are_dialled_one_after_the_other_until_one_accepts() -> None:
    async def story() -> None:
        accepted: list[asyncio.StreamWriter] = []
        failures: list[str] = []
        server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        url = f"http://127.0.0.1:1,http://127.0.0.1:{port_of(server)}"
        kept = connections(url, failed=failures.append)
        kept.start()
        await until(lambda: len(kept._open) == 2)
        assert {dial.host for dial in kept._open} == {b"127.0.0.1:%d" % port_of(server)}
        assert not failures
        await kept.stop()
        for writer in accepted:
            writer.close()
        server.close()

    run(story())


def test_if_none_accepts_all_reasons_are_told_once() -> None:
    async def story() -> None:
        failures: list[str] = []
        kept = connections("http://127.0.0.1:1,http://127.0.0.1:2", failed=failures.append)
        kept.start()
        await until(lambda: len(failures) >= 4)
        await kept.stop()
        for failure in failures:
            assert failure.index("http://127.0.0.1:1: ") < failure.index("; http://127.0.0.1:2: ")

    run(story())


def test_a_long_round_is_reported_before_it_is_over() -> None:
    """Otherwise a link would count as up for as long as sixteen silent addresses take."""

    async def story() -> None:
        accepted: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        other = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        failures: list[str] = []
        clock = LoopClock(asyncio.get_running_loop())
        context = LinkContext(clock, SystemDice(), Link(clock), None)
        limits = PeerLimits(connections=1, connect_timeout_ms=20, backoff_ms=1, backoff_cap_ms=4)
        silent, url = f"http://127.0.0.1:{port_of(server)}", f"http://127.0.0.1:{port_of(other)}"
        kept = PeerConnections(f"{silent},{url}", context, limits, on_failed=failures.append, make=SlowDial)
        kept.start()
        try:
            await until(lambda: any(url in failure for failure in failures))
        finally:
            await kept.stop()
        both = next(place for place, failure in enumerate(failures) if url in failure)
        assert failures[both] == f"{silent}: connecting took too long; {url}: connecting took too long"
        assert both > 0, "the first address was reported alone before"
        assert set(failures[:both]) == {f"{silent}: connecting took too long"}
        assert kept.refused == 0
        for writer in accepted:
            writer.close()
        server.close()
        other.close()

    run(story())
