"""Agents that connect over real sockets, and strangers that may not."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
import uvloop
from msgspec.structs import replace

from epoxy.agent import links
from epoxy.agent.links import Dialer, IncomingLink, LinkListener
from epoxy.codec.resp import CommandReader
from epoxy.model.address import Address
from epoxy.node.process.certificates import CertificateFiles
from epoxy.protocol.elect import codec as wire
from epoxy.protocol.elect import handshake
from epoxy.protocol.elect.handshake import Party, party_of
from epoxy.protocol.elect.link_session import DialerSession
from epoxy.protocol.elect.lists import first
from epoxy.protocol.elect.messages import Acceptance, Message
from epoxy.testing import free_ports
from epoxy.transport.tls import ContextOf, TlsFiles, client_context
from tests.protocol.elect.bench import config_of
from tests.transport.test_tls import Office

CONFIG = config_of("abc")
VOTE = Acceptance(epoch=3, node="a", candidate="b")
PATIENCE_S = 60.0


def party(me: str, **settings: object) -> Party:
    return replace(party_of(CONFIG, me, (b"x" * 16,), first(CONFIG)), **settings)


class Pair:
    """b listens, and `dialer` connects to it."""

    def __init__(self, dialer: Party, listening: ContextOf | None = None, dialing: ContextOf | None = None) -> None:
        (port,) = free_ports(1)
        self.address = Address("127.0.0.1", port)
        self.heard: list[Message] = []
        self.news = asyncio.Event()
        self.listener = LinkListener(lambda: party("b"), self._hear, listening)
        self.dialer = Dialer(lambda: dialer, "b", self.address, CONFIG, dialing)

    def _hear(self, message: Message) -> None:
        self.heard.append(message)
        self.news.set()

    async def play(self, story: Callable[["Pair"], Awaitable[None]]) -> None:
        await self.listener.start(self.address)
        task = asyncio.create_task(self.dialer.run())
        try:
            await asyncio.wait_for(story(self), PATIENCE_S)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            self.listener.close()


def test_what_is_put_is_heard_also_after_a_connection_was_lost() -> None:
    async def story(pair: Pair) -> None:
        pair.dialer.put(VOTE)
        await pair.news.wait()
        assert pair.heard == [VOTE]
        pair.news.clear()
        pair.listener.close()
        await pair.listener.start(pair.address)
        later = replace(VOTE, epoch=4)
        while not pair.heard or pair.heard[-1] != later:
            pair.dialer.put(later)
            with suppress(TimeoutError):
                await asyncio.wait_for(pair.news.wait(), 0.2)

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


@pytest.mark.parametrize(
    "wrong", [{"secrets": (b"y" * 16,)}, {"config_hash": "other"}, {"lists": "0:other"}, {"cluster": "other"}]
)
def test_who_does_not_belong_is_not_heard(wrong: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    async def story(pair: Pair) -> None:
        pair.dialer.put(VOTE)
        while "refused a connection" not in caplog.text and "no connection to a peer" not in caplog.text:
            await asyncio.sleep(0)
        assert not pair.dialer.connected
        assert pair.heard == []

    async def play() -> None:
        await Pair(party("a", **wrong)).play(story)

    uvloop.run(play())


def test_who_speaks_for_another_or_in_tongues_is_cut_off() -> None:
    async def story(pair: Pair) -> None:
        for frame in (wire.encode(replace(VOTE, node="c")), b"*1\r\n$4\r\nNOPE\r\n", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection(pair.address.host, pair.address.port)
            writer.write(frame)
            assert await reader.read() == b""
            writer.close()
        pair.dialer.put(replace(VOTE, node="c"))
        while not pair.dialer.connected:
            await asyncio.sleep(0)
        while pair.dialer.connected:
            await asyncio.sleep(0)
        assert pair.heard == []

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def test_a_message_leaves_at_once_and_a_peer_that_acknowledges_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the second, what is sent to a machine that was switched off waits for a quarter of an hour."""
    dialled: list[socket.socket] = []
    set_up = links.OutgoingLink.set_up

    def noted(line: links.OutgoingLink, silence_ms: int) -> None:
        set_up(line, silence_ms)
        assert line._transport is not None
        dialled.append(line._transport.get_extra_info("socket"))

    monkeypatch.setattr(links.OutgoingLink, "set_up", noted)

    async def story(pair: Pair) -> None:
        pair.dialer.put(VOTE)
        await pair.news.wait()
        (link,) = dialled
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == CONFIG.timing.down_after_ms

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def greeting(me: str = "a", to: str = "b") -> bytes:
    return wire.encode_hello(handshake.hello(party(me), to, b"n" * handshake.NONCE_BYTES))


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


GARBAGE = {
    "noise": bytes(range(128, 256)) * 8,
    "zeros": bytes(4096),
    "no end": b"*1\r\n$" + b"9" * 5000,
    "too many words": b"*1000000\r\n",
    "a word too long": b"*1\r\n$1000000\r\n",
    "a negative length": b"*1\r\n$-5\r\n",
    "not UTF-8": command(b"\xff\xfe", b"\xc3\x28"),
    "a proof, and nothing it proves": wire.encode_proof("0" * 64),
    "a vote": wire.encode(VOTE),
    "a vote behind a greeting": greeting() + wire.encode(VOTE),
    "two greetings": greeting() + greeting(),
    "a made up proof": greeting() + wire.encode_proof("0" * 64),
    "a proof that is not ASCII": greeting() + command(b"PROOF", b"\xff" * 64),
    "an empty proof, and a vote": greeting() + wire.encode_proof("") + wire.encode(VOTE),
    "noise behind a greeting": greeting() + bytes(range(128, 256)),
    "a greeting of a stranger": greeting("a").replace(b"test", b"tess"),
    "a greeting for another": greeting(to="c"),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_before_a_proof_ends_its_own_connection_and_nothing_else(name: str) -> None:
    async def story(pair: Pair) -> None:
        reader, writer = await asyncio.open_connection(pair.address.host, pair.address.port)
        writer.write(GARBAGE[name])
        said = await reader.read()
        assert said.count(b"\r\n*") == 0, "at most the one answer to a greeting"
        writer.close()
        assert pair.heard == []
        pair.dialer.put(VOTE)
        await pair.news.wait()
        assert pair.heard == [VOTE]

    failures: list[dict[str, object]] = []

    async def play() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        await Pair(party("a")).play(story)

    uvloop.run(play())
    assert failures == [], "an unexpected error ended the connection"


def test_an_agent_of_the_version_before_is_told_which_one_this_is(caplog: pytest.LogCaptureFixture) -> None:
    """Its own code then says so in its log: the first word it compares is the version."""

    async def story(pair: Pair) -> None:
        reader, writer = await asyncio.open_connection(pair.address.host, pair.address.port)
        old = replace(handshake.hello(party("a"), "b", b"n" * handshake.NONCE_BYTES), version="2")
        writer.write(wire.encode_hello(old))
        assert await reader.read() == wire.encode_hello(handshake.other_version())
        writer.close()
        assert "version '2' of the protocol; this node speaks 3" in str([vars(each) for each in caplog.records])

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def test_a_connection_of_a_secret_that_is_gone_ends_and_one_of_another_stays() -> None:
    async def story(pair: Pair) -> None:
        pair.dialer.put(VOTE)
        await pair.news.wait()
        for end in (pair.listener, pair.dialer):
            end.renew((b"x" * 16, b"y" * 16))
            await asyncio.sleep(0)
            assert pair.dialer.connected
            end.renew((b"y" * 16,))
            while pair.dialer.connected:
                await asyncio.sleep(0)
            while not pair.dialer.connected:
                await asyncio.sleep(0.01)

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def test_a_handshake_begun_before_the_secret_was_replaced_is_not_finished_after_it() -> None:
    """Else a stranger that holds the old secret, and always has a handshake under way, would stay."""

    async def story(pair: Pair) -> None:
        reader, writer = await asyncio.open_connection(pair.address.host, pair.address.port)
        session = DialerSession(party("a"), "b", b"n" * handshake.NONCE_BYTES)
        writer.write(session.greeting)
        frames: list[list[bytes]] = []
        commands = CommandReader(wire.LINK_LIMITS)
        while not frames:
            frames = commands.feed(await reader.read(4096))
        pair.listener.renew((b"y" * 16,))
        writer.write(session.conclude(frames[0]) + session.seal(wire.encode(VOTE)))
        with suppress(ConnectionError):
            assert await reader.read() == b""
        assert pair.heard == []
        writer.close()

    async def play() -> None:
        await Pair(party("c")).play(story)

    uvloop.run(play())


def test_a_dialer_whose_secret_was_replaced_during_the_handshake_says_nothing_on_it() -> None:
    parties = [party("a"), *[party("a", secrets=(b"y" * 16,))] * 2]

    async def story(pair: Pair) -> None:
        pair.dialer = Dialer(lambda: parties.pop(0), "b", pair.address, CONFIG)
        pair.dialer.put(VOTE)
        dialing = asyncio.create_task(pair.dialer.run())
        while parties and not pair.heard:
            await asyncio.sleep(0.001)
        assert pair.heard == []
        dialing.cancel()

    async def play() -> None:
        await Pair(party("c")).play(story)

    uvloop.run(play())


def test_time_for_the_handshake_begins_after_that_of_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger that is slow with the one must not have for ever for the other."""
    monkeypatch.setattr(links, "HANDSHAKE_S", 0.0)

    async def play() -> None:
        link = IncomingLink(LinkListener(lambda: party("b"), lambda _: None))
        await asyncio.sleep(0.01)
        transport = Mock()
        link.connection_made(transport)
        while not transport.abort.called:
            await asyncio.sleep(0)

    uvloop.run(asyncio.wait_for(play(), PATIENCE_S))


@pytest.mark.parametrize("wrong", [{"config_hash": "other"}, {"lists": "0:other"}, {"cluster": "other"}])
def test_a_greeting_of_another_cluster_is_refused_also_if_its_sender_would_not_mind(wrong: dict[str, object]) -> None:
    """A dialer that checks nothing gets no answer that it could prove something with."""

    async def story(pair: Pair) -> None:
        reader, writer = await asyncio.open_connection(pair.address.host, pair.address.port)
        writer.write(wire.encode_hello(handshake.hello(party("a", **wrong), "b", b"n" * handshake.NONCE_BYTES)))
        assert await reader.read() == b""
        writer.close()

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def test_what_is_put_while_a_connection_ends_waits_for_the_next() -> None:
    """In every moment of it: the loop of the agent refuses to write on what is closed."""

    async def story(pair: Pair) -> None:
        pair.dialer.put(VOTE)
        await pair.news.wait()
        for epoch in range(10, 15):
            pair.listener.close()
            while pair.dialer.connected:
                pair.dialer.put(replace(VOTE, epoch=epoch))
                await asyncio.sleep(0)
            await pair.listener.start(pair.address)
            while pair.heard[-1].epoch != epoch:
                await asyncio.sleep(0)

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def test_a_peer_that_dials_again_takes_its_old_place() -> None:
    """A restarted peer must not wait until its old connection is noticed to be dead."""

    async def story(pair: Pair) -> None:
        pair.dialer.put(VOTE)
        await pair.news.wait()
        again = Dialer(lambda: party("a"), "b", pair.address, CONFIG)
        task = asyncio.create_task(again.run())
        while pair.dialer.connected:
            await asyncio.sleep(0)
        assert again.connected
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def test_one_too_many_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "HANDSHAKE_S", 10 * PATIENCE_S)
    monkeypatch.setattr(links, "MAX_INCOMING", 1)

    async def story(pair: Pair) -> None:
        _, first = await asyncio.open_connection(pair.address.host, pair.address.port)
        refused, second = await asyncio.open_connection(pair.address.host, pair.address.port)
        assert await asyncio.wait_for(refused.read(), PATIENCE_S / 2) == b"", (
            "not only when it has said nothing for long"
        )
        assert len(pair.listener._incoming) == 1
        first.close()
        second.close()

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def test_who_says_nothing_is_let_go_and_the_house_is_never_full_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "HANDSHAKE_S", 0.2)
    monkeypatch.setattr(links, "MAX_INCOMING", 1)

    async def story(pair: Pair) -> None:
        silent, first = await asyncio.open_connection(pair.address.host, pair.address.port)
        refused, second = await asyncio.open_connection(pair.address.host, pair.address.port)
        assert await refused.read() == b""
        assert await silent.read() == b""
        first.close()
        second.close()
        pair.dialer.put(VOTE)
        await pair.news.wait()
        assert pair.heard == [VOTE]

    async def play() -> None:
        await Pair(party("a")).play(story)

    uvloop.run(play())


def test_strangers_that_hold_all_places_keep_no_peer_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "HANDSHAKE_S", 10 * PATIENCE_S)
    monkeypatch.setattr(links, "MAX_INCOMING", 4)

    async def play() -> None:
        pair = Pair(party("a"))
        await pair.listener.start(pair.address)
        strangers = [await asyncio.open_connection(pair.address.host, pair.address.port) for _ in range(4)]
        while len(pair.listener._incoming) < len(strangers):
            await asyncio.sleep(0)
        task = asyncio.create_task(pair.dialer.run())
        pair.dialer.put(VOTE)
        try:
            await asyncio.wait_for(pair.news.wait(), PATIENCE_S / 4)
            assert await strangers[0][0].read() == b""
        finally:
            task.cancel()
            pair.listener.close()
            for _, writer in strangers:
                writer.close()

    uvloop.run(play())


# TLS


def files_of(office: Office) -> TlsFiles:
    cert, key = office.issue("127.0.0.1")
    return TlsFiles(cert=cert, key=key, ca=office.ca)


def certificates_of(office: Office) -> CertificateFiles:
    return CertificateFiles(files_of(office), "127.0.0.1")


def demanded(office: Office) -> ContextOf:
    """As `LinkCertificates.for_links`."""
    context = certificates_of(office).for_peers
    assert context is not None
    context().verify_mode = ssl.CERT_REQUIRED
    return context


def test_inside_tls_with_certificates_on_both_ends(tmp_path: Path) -> None:
    office = Office(tmp_path, "ca")

    async def story(pair: Pair) -> None:
        pair.dialer.put(VOTE)
        await pair.news.wait()
        assert pair.heard == [VOTE]

    async def play() -> None:
        await Pair(party("a"), demanded(office), certificates_of(office).for_dialing).play(story)

    uvloop.run(play())


@pytest.mark.parametrize("wrong", ["no certificate", "another authority", "no TLS", "TLS where there is none"])
def test_who_shows_no_certificate_of_ours_is_not_heard(tmp_path: Path, wrong: str) -> None:
    """Even with the secret."""
    office, other = Office(tmp_path / "ours", "ca"), Office(tmp_path / "theirs", "ca")
    dialing: dict[str, ContextOf | None] = {
        "no certificate": lambda: client_context(None, None, office.ca),
        "another authority": certificates_of(other).for_dialing,
        "no TLS": None,
        "TLS where there is none": certificates_of(office).for_dialing,
    }
    listening = None if wrong == "TLS where there is none" else demanded(office)
    failures: list[str] = []

    async def story(pair: Pair) -> None:
        pair.dialer.put(VOTE)
        while len(failures) < 2:
            await asyncio.sleep(0.01)
        assert pair.heard == []

    async def play() -> None:
        pair = Pair(party("a"), listening, dialing[wrong])
        pair.dialer._log_failure = lambda error: failures.append(str(error))  # type: ignore[method-assign]
        await pair.play(story)

    uvloop.run(play())
