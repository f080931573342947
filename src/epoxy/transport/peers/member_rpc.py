"""What members ask each other while they change, on connections of their own: a page of a thousand keys must not stand
in the way of a vote. `Questions` asks, `QuestionEndpoint` answers."""

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter

from epoxy.codec import wire
from epoxy.model.errors import CodecError
from epoxy.model.members import ChangelogRead, MemberReply, MemberRequest
from epoxy.model.messages import Failed
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.request import HttpReply
from epoxy.transport.limits import CHANGELOG_READ_PATH, MEMBER_PATH, PeerLimits
from epoxy.transport.peers import auth
from epoxy.transport.peers.authenticator import LOST_STATUS, Gate
from epoxy.transport.peers.dial import Dial
from epoxy.transport.peers.link_context import Identity, LinkContext
from epoxy.transport.peers.peer import PeerRefused, check_answer
from epoxy.transport.peers.reconnect import Lanes, LinkObserver
from epoxy.transport.peers.signed_header import Signed, SignedHeader

MAX_WAITING = 8
"""Questions under way to one member: a learner has one, a coordinator one, a person who looks a few. One that has left
as many unanswered is hung up on, and what comes late is not mistaken for an answer."""

LIMITS = PeerLimits(connections=1)

MAX_REASON = 1000
"""Characters of a refusal that are passed on; the schema carries a few more."""

Answered = Callable[[MemberReply], None]
Answers = Callable[[SignedHeader, MemberRequest, Answered], None]
"""A member: what it is asked, and by whom."""


class Questions:
    """`ports.MemberTransport` on real links."""

    def __init__(self, identity: Identity, world: LinkContext) -> None:
        self._identity = identity
        self._world = world
        self._members: dict[int, Questioned] = {}

    def follow(self, links: Mapping[int, str]) -> None:
        """Who is there to be asked, and where. Connections to others end."""
        for member, questioned in list(self._members.items()):
            if links.get(member) != questioned.url:
                self._members.pop(member).close()
        for member, url in links.items():
            if member not in self._members:
                self._members[member] = Questioned(member, url, self._identity, self._world)

    def ask(self, to: int, request: MemberRequest, answered: Answered) -> None:
        member = self._members.get(to)
        if member is None:
            answered(Failed(reason=f"replica {to} has no address here"))
        else:
            member.ask(request, answered)

    def stop(self) -> None:
        self.follow({})


class Questioned:
    """One member, and the connection to it."""

    def __init__(self, member: int, url: str, identity: Identity, world: LinkContext) -> None:
        self.url = url
        self._member = member
        self._identity = identity
        self._world = world
        self._lanes = Lanes(url, world.ssl, world.dice, LIMITS, LinkObserver(lambda: None, lambda _: None))
        self._lanes.start()

    def close(self) -> None:
        self._lanes.close()

    def ask(self, request: MemberRequest, answered: Answered) -> None:
        body = wire.encode_member_request(request)
        self._world.link.there(self._member, partial(self._post, path_of(request), body, perf_counter(), answered))

    def _post(self, path: bytes, body: bytes, left_s: float, answered: Answered) -> None:
        dial = self._lanes.best()
        if dial is None or self._is_stuck(dial):
            answered(Failed(reason="unreachable"))
            return
        claim = self._identity.claim(self._member, self._world.dice.nonce())
        signature, mac = auth.sign(self._identity.secret, claim, path, body)
        head = b"POST %b HTTP/1.1\r\nhost: %b\r\nauthorization: %b\r\ncontent-length: %d\r\n\r\n" % (
            path,
            self._lanes.netloc,
            signature,
            len(body),
        )
        there_ms = (perf_counter() - left_s) * 1000
        dial.request(head, body, partial(self._heard, mac, there_ms, answered))

    def _is_stuck(self, dial: Dial) -> bool:
        if dial.waiting < MAX_WAITING:
            return False
        dial.abort()
        return True

    def _heard(self, mac: bytes, there_ms: float, answered: Answered, answer: HttpReply | None) -> None:
        if answer is None:
            answered(Failed(reason="connection lost"))
        elif answer.status != LOST_STATUS:
            self._world.link.back(self._member, there_ms, lambda: answered(self._reply(mac, answer)))

    def _reply(self, mac: bytes, answer: HttpReply) -> MemberReply:
        try:
            check_answer(self._identity, self._member, mac, answer)
            return wire.decode_member_reply(answer.body)
        except (CodecError, PeerRefused) as error:
            return Failed(reason=f"answered {answer.status}: {error}"[:MAX_REASON])


def path_of(request: MemberRequest) -> bytes:
    return CHANGELOG_READ_PATH if isinstance(request, ChangelogRead) else MEMBER_PATH


class QuestionEndpoint:
    """The handler of both addresses. Changelogs are read at their own, and nothing else is."""

    def __init__(self, answers: Answers, gate: Gate) -> None:
        self._answers = answers
        self._gate = gate

    def __call__(self, exchange: Exchange) -> None:
        signed = self._gate.enter(exchange)
        if signed is None:
            return
        try:
            request = wire.decode_member_request(exchange.request.body)
        except CodecError as error:
            exchange.fail(400, "bad_frame", repr(error))
            return
        if path_of(request) != exchange.request.path:
            exchange.fail(400, "wrong_address", f"this is asked at {path_of(request).decode()}")
            return
        self._answers(signed.claim, request, partial(self._respond, exchange, signed))

    def _respond(self, exchange: Exchange, signed: Signed, reply: MemberReply) -> None:
        self._gate.answer(exchange, signed, wire.encode_member_reply(reply))
