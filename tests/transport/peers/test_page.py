"""docs/protocol/peers.md: others would implement the protocol from it, so its examples are sent to a real server."""

import hmac
import os
import re
from pathlib import Path

import msgspec
import pytest

from epoxy.codec.wire import MAX_ENCODED_BYTES
from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.model.messages import Read, ReadOk
from epoxy.model.versions import PeerVersions, WireVersions
from epoxy.node.process.config import Limits
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import CHANGELOG_READ_PATH, MEMBER_PATH, MESSAGE_PATH, STREAM_PATH, HttpLimits, PeerLimits
from epoxy.transport.peers.auth import MAX_NONCES, OPERATOR, SCHEME, WINDOW_MS, Verifier, read_authorization, sign
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import FrameExchange
from epoxy.transport.peers.negotiation import PROTOCOL
from epoxy.transport.peers.session import NONCE_BYTES
from epoxy.transport.peers.signed_header import SignedHeader, greeting_text
from epoxy.transport.peers.transport import PeerEndpoint
from epoxy.transport.wan.emulation import Link
from tests.api.http.access_bench import links_api
from tests.transport.http.harness import RunningServer, with_server
from tests.transport.peers.pair import HandGate, Replica
from tests.transport.wan.test_emulation import JumpingClock

PAGE = (Path(__file__).parents[3] / "docs" / "protocol" / "peers.md").read_text("utf-8")
KEY, ME, STORE, NOW_MS = b"secret", 2, 0xFEDC_BA98_7654_3210, 1_800_000_000_000

CLIENT = Greeting(
    incarnation=Incarnation(store=0x0123456789ABCDEF, counter=3, nonce=0x1111111111111111, base=900),
    position=1000,
    known=Sighting(store=STORE, counter=7, nonce=0x2222222222222222, position=2000),
)

blocks = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in re.findall(r"(?:^    .*\n|^\n)+", PAGE, re.M)]
examples = [block.strip("\n") for block in blocks if block.strip("\n")]


def example(begins: str) -> str:
    (found,) = [each for each in examples if each.startswith(begins)]
    return found


def in_http(text: str) -> bytes:
    """Lines as they are sent, and the body from hex."""
    head, _, body = text.partition("\n\n")
    return head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + bytes.fromhex(body)


def in_frames(text: str) -> list[bytes]:
    """Hex up to a comment, which two spaces begin; frames stand apart."""
    return [bytes.fromhex("".join(line.split("  ")[0] for line in part.split("\n"))) for part in text.split("\n\n")]


def without_time(answer: bytes) -> bytes:
    return re.sub(rb"epoxy-took-us: \d+", b"epoxy-took-us: ?", answer)


def authenticator() -> Authenticator:
    gate = HandGate(STORE, nonce=0x2222222222222222, position=2004)
    gate.incarnation = Incarnation(store=STORE, counter=7, nonce=0x2222222222222222, base=1900)
    gate.known = Sighting(store=0x0123456789ABCDEF, counter=3, nonce=0x1111111111111111, position=996)
    versions = PeerVersions(ME, WireVersions(oldest=5, newest=5, release="0.2.0"))
    return Authenticator(Verifier(ME, KEY, now_ms=lambda: NOW_MS), gate, versions=versions)


def test_the_request_is_answered_as_the_page_says() -> None:
    replica = Replica(lambda _: ReadOk(committed=None, vote=None))

    async def test(server: RunningServer) -> None:
        answer = await server.ask(in_http(example("POST /v2/epoxy/message")))
        assert without_time(answer) == without_time(in_http(example("HTTP/1.1 200")))
        assert replica.asked == [Read(key=b"k", epoch=5)]

    with_server(PeerEndpoint(replica.handle, authenticator()), test)


def test_the_handshake_and_the_frames_are_answered_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    nonce, (request, answer) = bytes(range(NONCE_BYTES)), in_frames(example("39 00 00 00"))
    system = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: nonce if size == NONCE_BYTES else system(size))
    asked: list[tuple[SignedHeader, int, bytes]] = []

    def respond(exchange: FrameExchange) -> None:
        asked.append((exchange.header, exchange.position, exchange.body))
        exchange.respond(200, bytes.fromhex("04 00 01 03 00 00"), 412, recorded=True)

    def switch(exchange: Exchange) -> None:
        session = authenticator().accept(exchange)
        assert session is not None
        exchange.switch(session, respond)

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(in_http(example("GET /v2/epoxy/stream")))
        expected = in_http(example("HTTP/1.1 101"))
        assert await client.reader.readexactly(len(expected)) == expected
        client.send(request)
        assert await client.reader.readexactly(len(answer)) == answer
        assert asked == [(SignedHeader(1, ME, 5, NOW_MS, 0xC0FFEE00C0FFEF, CLIENT), 1000, request[-9:])]

    with_server(switch, test)


@pytest.mark.parametrize("request_line", ["POST /v2/epoxy/message", "GET /v2/epoxy/stream"])
def test_a_signature_is_made_as_the_page_says(request_line: str) -> None:
    head, _, body = in_http(example(request_line)).partition(b"\r\n\r\n")
    path = request_line.partition(" ")[2].encode()
    (shown,) = re.findall(rb"authorization: (.*)", head)
    header, text, mac = read_authorization(shown.strip())
    assert shown.startswith(SCHEME + text)
    (recipe,) = re.findall(r"^    (request\\n.*?)  +of a request$", PAGE, re.MULTILINE)
    named = {
        "address": path,
        "sender": b"%d" % header.sender,
        "recipient": b"%d" % header.recipient,
        "epoch": b"%d" % header.epoch,
        "time": b"%d" % header.time_ms,
        "nonce": b"%016x" % header.nonce,
        "greeting": greeting_text(header.greeting),
        "body": body,
    }
    signed = re.sub(rb"<(\w+)>", lambda name: named[name[1].decode()], recipe.replace("\\n", "\n").encode())
    assert hmac.new(KEY, signed, "sha256").hexdigest().encode() == mac == sign(KEY, header, path, body)[1]


def test_the_orders_to_an_emulated_link_do_what_the_page_says() -> None:
    link = Link(JumpingClock())
    bodies = re.findall(r"\{.*?\}+", example("POST /v2/admin/links"))
    both = {"sends": False, "hears": False}
    halved = {"2": {"sends": False, "hears": True}, "3": both}
    expected: list[dict[str, object]] = [
        {"cut": {"2": both, "3": both}},
        {"cut": halved},
        {"cut": halved, "slow": {"2": 300.0}},
        {"cut": {"3": both}},
        {"cut": {"3": both}},
    ]

    async def test(server: RunningServer) -> None:
        for nonce, (body, told) in enumerate(zip(map(str.encode, bodies), expected, strict=True)):
            signature, _ = sign(KEY, SignedHeader(OPERATOR, ME, 0, NOW_MS, nonce), b"/v2/admin/links", body)
            head = b"POST /v2/admin/links HTTP/1.1\r\nauthorization: %b\r\ncontent-length: %d\r\n\r\n"
            answer = await server.ask(head % (signature, len(body)) + body)
            assert msgspec.json.decode(answer.partition(b"\r\n\r\n")[2]) == told

    with_server(links_api(link, Verifier(ME, KEY, now_ms=lambda: NOW_MS)), test)


def test_the_page_has_the_addresses_and_the_protocol_of_peers() -> None:
    for spoken in (MESSAGE_PATH, STREAM_PATH, MEMBER_PATH, CHANGELOG_READ_PATH, PROTOCOL):
        assert spoken.decode() in PAGE


def test_the_limits_are_those_of_the_page() -> None:
    peers, http, node = PeerLimits(), HttpLimits(), Limits()
    for figure in (
        f"{node.peer_queue:,} messages (`limits.peer_queue`), {peers.queue_bytes >> 20} MiB",
        f"{peers.batch_messages} messages, {peers.batch_bytes >> 20} MiB and one message",
        f"{peers.flying_batches:,} batches, {peers.flying_bytes >> 20} MiB",
        f"| an answer | {peers.timeout_ms / 1000:g} s |",
        f"| a connection | {peers.connect_timeout_ms / 1000:g} s |",
        f"fewer than {peers.eager_batches} batches are under way",
        f"{peers.lazy_ms:g} ms, or {peers.busy_lazy_ms:g} if",
        f"after {peers.backoff_ms:g} ms, doubled up to {peers.backoff_cap_ms / 1000:g} s",
        f"a frame of {MAX_ENCODED_BYTES >> 20} MiB",
        f"within {WINDOW_MS // 1000} s of this clock",
        f"the last {MAX_NONCES:,} to {2 * MAX_NONCES:,} are remembered",
        f"head is longer than {http.head_bytes >> 10} KiB",
        f"under way exceed {http.held_bytes >> 20} MiB",
        f"{node.pipeline:,} requests (`limits.pipeline`) under\nway, {http.pipelined_bytes >> 20} MiB of them",
        f"after {http.write_timeout_s:g} s of not reading",
    ):
        assert figure in PAGE, figure
