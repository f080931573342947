"""Handshakes between builds that speak different versions of the wire, and offers that are not what they should be."""

import asyncio
from collections.abc import Sequence

import pytest

from epoxy.model.messages import Behind, Reply
from epoxy.model.versions import UNTOLD, PeerVersions, WireVersions
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.http.response import problem_of
from epoxy.transport.limits import STREAM_PATH
from epoxy.transport.peers import auth
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import PeerHandshake, handshake_request
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.negotiation import (
    known_versions,
    offer_text,
    read_offer,
    sign_offer,
    verify_offer,
    version_of,
)
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.peers.transport import PeerEndpoint, Peers
from tests.transport.http.harness import RunningServer, run, running_server, until, with_server
from tests.transport.peers.pair import ME, NEVER_MS, PEER, SECRET, Replica, patient, read

LIMITS = patient(backoff_ms=1, backoff_cap_ms=4, tick_ms=20, probe_ms=NEVER_MS)


def speaking(oldest: int, newest: int, release: str = "9.9.0") -> WireVersions:
    return WireVersions(oldest=oldest, newest=newest, release=release)


class Ends:
    """A client and a server of two builds, with what each has heard and logged."""

    def __init__(self, mine: WireVersions, theirs: WireVersions) -> None:
        self.warned: dict[int, list[str]] = {ME: [], PEER: []}
        self.client = PeerVersions(ME, mine, warn=self.warned[ME].append)
        self.server = PeerVersions(PEER, theirs, warn=self.warned[PEER].append)
        self.endpoint = PeerEndpoint(
            Replica(lambda _: Behind(version=3)).handle,
            Authenticator(Verifier(PEER, SECRET), versions=self.server),
        )

    def linked(self, port: int) -> Peers:
        return Peers(
            ME,
            SECRET,
            {PEER: f"http://127.0.0.1:{port}"},
            epoch=lambda: 1,
            clock=LoopClock(asyncio.get_running_loop()),
            dice=SystemDice(),
            limits=LIMITS,
            versions=self.client,
        )


@pytest.mark.parametrize(
    ("mine", "theirs", "common"), [((5, 5), (5, 5), 5), ((5, 6), (5, 5), 5), ((5, 7), (6, 9), 7), ((6, 6), (5, 6), 6)]
)
def test_links_open_in_the_highest_common_version(mine: tuple[int, int], theirs: tuple[int, int], common: int) -> None:
    ends = Ends(speaking(*mine, "0.2.0"), speaking(*theirs, "0.3.0"))

    async def story() -> None:
        answers: list[Reply] = []
        async with running_server(ends.endpoint) as server:
            peers = ends.linked(server.port)
            peers.start()
            await until(lambda: peers.reachable(PEER))
            peers.send(PEER, [read(1)], answers.append)
            await until(lambda: bool(answers))
            await peers.stop()
        assert answers == [Behind(version=3)]

    run(story())
    assert (ends.client.common(PEER), ends.server.common(ME)) == (common, common)
    assert (ends.client.release_of(PEER), ends.server.release_of(ME)) == ("0.3.0", "0.2.0")
    assert ends.warned == {ME: [], PEER: []}


@pytest.mark.parametrize(("mine", "theirs"), [((5, 5), (6, 7)), ((8, 9), (5, 7))])
def test_no_common_version_is_named_by_both_ends(mine: tuple[int, int], theirs: tuple[int, int]) -> None:
    ends = Ends(speaking(*mine, "0.2.0"), speaking(*theirs, "0.3.0"))

    async def story() -> None:
        async with running_server(ends.endpoint) as server:
            peers = ends.linked(server.port)
            peers.start()
            await until(lambda: "no common wire version" in peers.trouble(PEER) and ends.server.mismatches > 1)
            for words in ("(release 0.2.0) speaks", "(release 0.3.0) speaks", "upgrade replica"):
                assert words in peers.trouble(PEER)
            assert not peers.reachable(PEER)
            await peers.stop()

    run(story())
    (line,) = ends.warned[PEER]
    assert "replica 1 is not spoken to: no common wire version: replica 2 (release 0.3.0)" in line
    assert ends.server.trouble(ME) in line


def asked(offer: bytes | None, oldest: int = 5, *, nonce: int = 1, mac: bytes = b"") -> bytes:
    """A handshake with these bytes as its offer, after `mac` was put into them; None: as release 0.1.0 asks."""
    header = SignedHeader(ME, PEER, 1, auth.wall_ms(), nonce)
    signature, signed = auth.sign(SECRET, header, STREAM_PATH, b"")
    value = sign_offer(SECRET, signed, speaking(oldest, oldest)) if offer == b"right" else offer
    if value is not None and value.endswith(b"MAC"):
        value = value[:-3] + auth.mac_of(SECRET, b"speaks\n%b\n" % (mac or signed), value[:-4])
    words = handshake_request(b"x", signature, oldest, value or b"")
    return words if value is not None else words.replace(b"epoxy-speaks: \r\n", b"")


async def answered(server: RunningServer, words: bytes) -> tuple[bytes, str]:
    client = await server.dial()
    client.send(words)
    head = await client.reader.readuntil(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0]
    if b"101" in status:
        client.writer.close()
        return head, ""
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    _, words_ = problem_of(await client.reader.readexactly(length))
    client.writer.close()
    return head, words_


GARBAGE: Sequence[bytes] = (
    b"",
    b"5",
    b"5-5",
    b"5-5,0.2.0",
    b"5-5,0.2.0," + b"0" * 64,
    b"0-5,0.2.0,MAC",
    b"6-5,0.2.0,MAC",
    b"5-,0.2.0,MAC",
    b"-5-5,0.2.0,MAC",
    b"5-123456,0.2.0,MAC",
    b"5-5,,MAC",
    b"5-5," + b"9" * 65 + b",MAC",
    b"5-5,<script>,MAC",
    b"5-5,0.2.0\x1b[2J,MAC",
    b"\xd9\xa5-5,0.2.0,MAC",
    b"5-5,0.2.0," + b"x" * 200 + b",MAC",
)


@pytest.mark.parametrize("offer", GARBAGE)
def test_an_offer_that_cannot_be_read_is_refused(offer: bytes) -> None:
    ends = Ends(speaking(5, 5), speaking(5, 6))

    async def test(server: RunningServer) -> None:
        head, words = await answered(server, asked(offer))
        assert head.startswith(b"HTTP/1.1 400 ")
        assert "epoxy-speaks" in words or "not HTTP" in words
        assert ends.server.of(ME) is None

    with_server(ends.endpoint, test)


def test_an_offer_of_another_request_is_refused() -> None:
    ends = Ends(speaking(5, 5), speaking(5, 6))

    async def test(server: RunningServer) -> None:
        head, _ = await answered(server, asked(b"5-6,0.2.0,MAC", mac=b"of another request"))
        assert head.startswith(b"HTTP/1.1 400 ")

    with_server(ends.endpoint, test)


def test_more_fields_of_a_later_release_are_skipped() -> None:
    ends = Ends(speaking(5, 5), speaking(5, 6))

    async def test(server: RunningServer) -> None:
        head, _ = await answered(server, asked(b"5-9,0.9.0,zstd;q=1,MAC"))
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"upgrade: epoxy-frames/6\r\n" in head
        assert ends.server.of(ME) == speaking(5, 9, "0.9.0")

    with_server(ends.endpoint, test)


def test_a_client_of_the_first_release_is_answered_as_that_reads_it() -> None:
    """It takes nothing but the version it asked for, and a greeting of nine fields."""
    ends = Ends(speaking(5, 5), speaking(5, 6))

    async def test(server: RunningServer) -> None:
        head, _ = await answered(server, asked(None))
        begin = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: epoxy-frames/5\r\nepoxy-session: "
        assert head.startswith(begin)
        assert len(head.removeprefix(begin).split(b",")) == 1 + 9 + 1
        assert ends.server.of(ME) == UNTOLD

    with_server(ends.endpoint, test)


def test_a_client_without_an_offer_is_refused_in_a_version_that_is_not_spoken() -> None:
    ends = Ends(speaking(5, 5), speaking(6, 7, "0.4.0"))

    async def test(server: RunningServer) -> None:
        head, words = await answered(server, asked(None))
        assert head.startswith(b"HTTP/1.1 400 ")
        assert "replica 2 (release 0.4.0) speaks epoxy-frames/6 to 7, and 'epoxy-frames/5' was asked for" in words

    with_server(ends.endpoint, test)


def test_an_offer_that_begins_elsewhere_than_the_header_is_refused() -> None:
    ends = Ends(speaking(5, 5), speaking(5, 6))

    async def test(server: RunningServer) -> None:
        head, _ = await answered(server, asked(b"6-6,0.2.0,MAC", oldest=5))
        assert head.startswith(b"HTTP/1.1 400 ")

    with_server(ends.endpoint, test)


def concluded(handshake: PeerHandshake, server: PeerVersions, change: tuple[bytes, bytes] = (b"", b"")) -> bytes:
    """What a server answers to a handshake, in one piece and without a socket, with a change on the way."""
    words: list[bytes] = []

    async def test(running: RunningServer) -> None:
        head, _ = await answered(running, handshake.request)
        words.append(head.removesuffix(b"\r\n\r\n").replace(*change))

    endpoint = PeerEndpoint(Replica().handle, Authenticator(Verifier(PEER, SECRET), versions=server))
    with_server(endpoint, test)
    return words[0]


def begun(versions: PeerVersions) -> PeerHandshake:
    header = SignedHeader(ME, PEER, 1, auth.wall_ms(), 77)
    return PeerHandshake(b"x", SigningKey(SECRET), header, OpenGate(), versions)


@pytest.mark.parametrize(
    "change",
    [
        (b"epoxy-frames/6", b"epoxy-frames/5"),
        (b",5-7,", b",5-5,"),
        (b",9.9.0,", b",0.1.0,"),
        (b",5-7,9.9.0,", b","),
        (b"epoxy-frames/6", b"epoxy-frames/x"),
    ],
)
def test_an_answer_that_was_changed_on_the_way_opens_nothing(change: tuple[bytes, bytes]) -> None:
    """Such as by an end in between that wants an older version to be spoken."""
    client = PeerVersions(ME, speaking(5, 6))
    handshake = begun(client)
    assert handshake.session(concluded(handshake, PeerVersions(PEER, speaking(5, 7)), change)) is None
    assert client.of(PEER) is None or client.common(PEER) == 6


def test_an_answer_as_it_was_sent_opens_the_link() -> None:
    client = PeerVersions(ME, speaking(5, 6))
    handshake = begun(client)
    session = handshake.session(concluded(handshake, PeerVersions(PEER, speaking(5, 7))))
    assert session is not None
    assert session.version == 6


def test_offers_are_read_as_they_are_written() -> None:
    mine = known_versions(ME).mine
    assert read_offer(offer_text(mine)) == mine
    assert verify_offer(b"secret", b"mac", sign_offer(b"secret", b"mac", mine)) == mine
    for secret, mac in ((b"other", b"mac"), (b"secret", b"other")):
        assert verify_offer(secret, mac, sign_offer(b"secret", b"mac", mine)) is None


@pytest.mark.parametrize(
    ("upgrade", "version"),
    [
        (b"epoxy-frames/5", 5),
        (b"Epoxy-Frames/17", 17),
        (b"epoxy-frames/", None),
        (b"epoxy-frames/5a", None),
        (b"epoxy-frames/\xb2", None),
        (b"epoxy-frames/123456", None),
        (b"epoxy-frames", None),
        (b"websocket", None),
        (b"", None),
    ],
)
def test_the_version_in_a_header(upgrade: bytes, version: int | None) -> None:
    assert version_of(upgrade) == version
