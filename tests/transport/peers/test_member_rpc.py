"""What members ask each other: each question at its own address, answered by whom it was meant for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from epoxy.codec import wire
from epoxy.model.incarnation import MismatchCode, StoreMismatch
from epoxy.model.members import (
    NO_STAMP,
    ChangelogPage,
    ChangelogRead,
    MemberReply,
    MemberRequest,
    MemberStatus,
    SnapshotRead,
    StatusRead,
)
from epoxy.model.messages import Failed
from epoxy.protocol.members.digest import NOTHING
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import CHANGELOG_READ_PATH, MEMBER_PATH
from epoxy.transport.peers import auth
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.gateway_refusal import refuse_peer
from epoxy.transport.peers.keyring import SigningKey, keyring_of
from epoxy.transport.peers.link_context import Identity, LinkContext
from epoxy.transport.peers.member_rpc import MAX_WAITING, MemberRpcClient, MemberRpcEndpoint
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.wan.emulation import Link
from tests.transport.http.harness import RunningServer, run, running_server, with_server
from tests.transport.peers.pair import ME, PEER, SECRET, HandGate
from tests.transport.peers.test_endpoint import NOW_MS, unsigned

OURS, THEIRS = 0x0A, 0x0B
STATUS = MemberStatus(identity=THEIRS, epoch=3, keys=5)
CHANGES = ChangelogRead(reader=ME, store=THEIRS, after=NO_STAMP)
SNAPSHOT = SnapshotRead(reader=ME, store=0, after=None, held=NOTHING)
NONCES = count(1)
LOST = Failed(reason="connection lost")


class Answerer:
    def __init__(self) -> None:
        self.asked: list[tuple[SignedHeader, MemberRequest]] = []
        self.waiting: list[Callable[[MemberReply], None]] = []
        self.silent = False

    def __call__(self, header: SignedHeader, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        self.asked.append((header, request))
        if self.silent:
            self.waiting.append(answered)
        elif isinstance(request, ChangelogRead):
            answered(ChangelogPage(entries=(), cursor=NO_STAMP, more=False))
        else:
            answered(STATUS)


class Asker:
    def __init__(self, links: dict[int, str]) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self.gate = HandGate(OURS)
        identity = Identity(ME, keyring_of(SECRET), lambda: 3, self.gate)
        self.link = Link(clock)
        self.rpc = MemberRpcClient(identity, LinkContext(clock, SystemDice(), self.link, None))
        self.rpc.set_links(links)

    async def ask(self, request: MemberRequest, to: int = PEER) -> MemberReply:
        answer: asyncio.Future[MemberReply] = asyncio.get_running_loop().create_future()
        self.rpc.ask(to, request, answer.set_result)
        return await answer

    async def insist(self, request: MemberRequest) -> MemberReply:
        """Until the connection is there, and not one that has just been lost."""
        while (reply := await self.ask(request)) in (Failed(reason="unreachable"), LOST):
            await asyncio.sleep(0.001)
        return reply


@asynccontextmanager
async def both(answerer: Answerer) -> AsyncIterator[Asker]:
    endpoint = MemberRpcEndpoint(answerer, Authenticator(Verifier(PEER, SECRET), OpenGate(THEIRS)))
    async with running_server(endpoint) as opened:
        asker = Asker({PEER: f"http://127.0.0.1:{opened.port}"})
        try:
            yield asker
        finally:
            asker.rpc.stop()


def test_a_question_is_answered_and_both_stores_are_named() -> None:
    answerer = Answerer()

    async def story() -> None:
        async with both(answerer) as asker:
            assert await asker.insist(StatusRead()) == STATUS
            assert isinstance(await asker.ask(CHANGES), ChangelogPage)
            theirs = OpenGate(THEIRS).greeting(ME)
            assert asker.gate.of("meet") == [(PEER, theirs, asker.gate.known)] * 3, "of the introduction, too"
            assert asker.gate.of("told") == [(PEER, theirs.known)] * 3
            assert asker.gate.of("answered") == [PEER] * 3

    run(story())
    assert [request for _, request in answerer.asked] == [StatusRead(), CHANGES]
    assert {(header.sender, header.epoch, header.store) for header, _ in answerer.asked} == {(ME, 3, OURS)}


def test_the_answer_of_another_store_does_not_count() -> None:
    async def story() -> None:
        async with both(Answerer()) as asker:
            asker.gate.mismatch = StoreMismatch(
                MismatchCode.ANOTHER_STORE, f"another store is on record for replica {PEER}"
            )
            reply = await asker.insist(StatusRead())
            assert isinstance(reply, Failed)
            assert f"another_store: another store is on record for replica {PEER}" in reply.reason
            assert asker.gate.of("answered") == []

    run(story())


def test_who_is_not_there_cannot_be_asked() -> None:
    async def story() -> None:
        asker = Asker({})
        assert await asker.ask(StatusRead()) == Failed(reason=f"replica {PEER} has no address here")
        asker.rpc.set_links({PEER: "http://127.0.0.1:1"})
        assert await asker.ask(StatusRead()) == Failed(reason="unreachable")
        asker.rpc.stop()
        assert await asker.ask(StatusRead()) == Failed(reason=f"replica {PEER} has no address here")

    run(story())


def test_one_that_leaves_everything_unanswered_is_hung_up_on() -> None:
    answerer = Answerer()
    answerer.silent = True

    async def story() -> None:
        async with both(answerer) as asker:
            replies: list[MemberReply] = []
            while LOST not in replies:
                asker.rpc.ask(PEER, StatusRead(), replies.append)
                await asyncio.sleep(0.001)
            assert replies.count(LOST) == MAX_WAITING, "all who waited, at once"
            answerer.silent = False
            for answered in answerer.waiting:
                answered(STATUS)
            assert await asker.insist(StatusRead()) == STATUS

    run(story())


def test_a_link_that_is_cut_carries_no_questions() -> None:
    async def story() -> None:
        async with both(Answerer()) as asker:
            assert await asker.insist(StatusRead()) == STATUS
            asker.link.cut(PEER)
            replies: list[MemberReply] = []
            asker.rpc.ask(PEER, StatusRead(), replies.append)
            asker.link.heal(PEER)
            assert await asker.ask(StatusRead()) == STATUS
            assert replies == []

    run(story())


def post(request: MemberRequest, path: bytes) -> bytes:
    body = wire.encode_member_request(request)
    header = SignedHeader(ME, PEER, 1, NOW_MS, next(NONCES), OpenGate(OURS).greeting(PEER))
    return unsigned(body, path, b"authorization: " + auth.sign(SECRET, header, path, body)[0])


@pytest.mark.parametrize(
    ("request_", "path", "status"),
    [
        (CHANGES, CHANGELOG_READ_PATH, 200),
        (CHANGES, MEMBER_PATH, 400),
        (StatusRead(), MEMBER_PATH, 200),
        (StatusRead(), CHANGELOG_READ_PATH, 400),
        (SNAPSHOT, MEMBER_PATH, 200),
        (SNAPSHOT, CHANGELOG_READ_PATH, 400),
    ],
)
def test_changelogs_are_read_at_their_own_address_and_nothing_else_is(
    request_: MemberRequest, path: bytes, status: int
) -> None:
    answerer = Answerer()

    async def test(server: RunningServer) -> None:
        assert (await server.ask(post(request_, path))).startswith(b"HTTP/1.1 %d " % status)
        assert (await server.ask(unsigned(b"", path))).startswith(b"HTTP/1.1 401 ")

    with_server(MemberRpcEndpoint(answerer, Authenticator(Verifier(PEER, SECRET, now_ms=lambda: NOW_MS))), test)
    assert len(answerer.asked) == (status == 200)


def test_a_stranger_is_answered_without_a_word_about_our_store() -> None:
    authenticator = Authenticator(
        Verifier(PEER, SECRET, now_ms=lambda: NOW_MS), OpenGate(THEIRS), has_left=lambda _: True
    )

    async def test(server: RunningServer) -> None:
        assert b"epoxy-mac: 0000000000000000," in await server.ask(post(StatusRead(), MEMBER_PATH))

    with_server(MemberRpcEndpoint(Answerer(), authenticator), test)


def test_an_impostor_is_told_why_it_is_not_heard() -> None:
    gate = HandGate(THEIRS)
    gate.hears, gate.mismatch = (
        False,
        StoreMismatch(MismatchCode.ANOTHER_STORE, "a replica that lost its disk needs a new id"),
    )
    authenticator = Authenticator(Verifier(PEER, SECRET, now_ms=lambda: NOW_MS), gate)

    async def test(server: RunningServer) -> None:
        answer = await server.ask(post(StatusRead(), MEMBER_PATH))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"a replica that lost its disk needs a new id" in answer

    with_server(MemberRpcEndpoint(Answerer(), authenticator), test)


Forgery = Callable[[Verifier, Signed, bytes], tuple[bytes, bytes]]


def honest(verifier: Verifier, signed: Signed, body: bytes) -> tuple[bytes, bytes]:
    return verifier.answer(signed, 200, body, OpenGate(THEIRS).greeting(ME))


def of_another_body(verifier: Verifier, signed: Signed, body: bytes) -> tuple[bytes, bytes]:
    return verifier.answer(signed, 200, body + b"x")


def of_another_status(verifier: Verifier, signed: Signed, body: bytes) -> tuple[bytes, bytes]:
    return verifier.answer(signed, 500, body)


def with_another_secret(verifier: Verifier, signed: Signed, body: bytes) -> tuple[bytes, bytes]:
    return verifier.answer(Signed(signed.header, signed.mac, SigningKey(b"another secret of some length")), 200, body)


def of_another_question(verifier: Verifier, signed: Signed, body: bytes) -> tuple[bytes, bytes]:
    """What was recorded, and is good for the question it answered."""
    return verifier.answer(Signed(signed.header, bytes(len(signed.mac)), signed.key), 200, body)


def of_another_store(verifier: Verifier, signed: Signed, body: bytes) -> tuple[bytes, bytes]:
    name, value = honest(verifier, signed, body)
    return name, b"%016x" % OURS + value[16:]


def missing(_: Verifier, __: Signed, ___: bytes) -> tuple[bytes, bytes]:
    return b"x-nothing", b"to show"


@pytest.mark.parametrize(
    "forge",
    [of_another_body, of_another_status, with_another_secret, of_another_question, of_another_store, missing],
)
def test_an_answer_that_does_not_prove_itself_is_not_heard(forge: Forgery) -> None:
    """Whoever sits between two members may say what it likes; nothing of it counts."""
    verifier = Verifier(PEER, SECRET)
    authenticator = Authenticator(verifier)
    forges = True

    def impostor(exchange: Exchange) -> None:
        signed = authenticator.authenticate(exchange)
        assert signed is not None
        body = wire.encode_member_reply(STATUS)
        exchange.respond(200, body, headers=((forge if forges else honest)(verifier, signed, body),))

    async def story() -> None:
        nonlocal forges
        async with running_server(impostor) as opened:
            asker = Asker({PEER: f"http://127.0.0.1:{opened.port}"})
            try:
                reply = await asker.insist(StatusRead())
                assert isinstance(reply, Failed)
                assert "not signed with the cluster's secret" in reply.reason
                assert asker.gate.calls == [], "nor is the store it names"
                forges = False
                assert await asker.insist(StatusRead()) == STATUS
            finally:
                asker.rpc.stop()

    run(story())


def test_the_gateway_of_a_member_answers() -> None:
    """A node that is not it is told apart by its first answer: the connection goes to the next address."""

    async def story() -> None:
        answerer = Answerer()
        endpoint = MemberRpcEndpoint(answerer, Authenticator(Verifier(PEER, SECRET), OpenGate(THEIRS)))
        async with running_server(refuse_peer) as shard, running_server(endpoint) as gateway:
            asker = Asker({PEER: f"http://127.0.0.1:{shard.port},http://127.0.0.1:{gateway.port}"})
            assert await asker.insist(StatusRead()) == STATUS
            connections = asker.rpc._members[PEER]._connections
            assert (connections.refused, connections.lost) == (0, 0)
            asker.rpc.stop()

    run(story())
