"""Requests between members during a change of members, on connections of their own, so that a page of a thousand keys
does not delay votes. `MemberRpcClient` sends them, `MemberRpcEndpoint` serves them."""

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
from epoxy.transport.peers.authenticator import LOST_STATUS, Authenticator
from epoxy.transport.peers.link_context import Identity, LinkContext
from epoxy.transport.peers.peer import PeerRefused, check_answer
from epoxy.transport.peers.reconnect import PeerConnections
from epoxy.transport.peers.signed_header import Signed, SignedHeader

MAX_WAITING = 8
"""Requests under way to one member: a learner has one, a coordinator one, an operator a few. With so many unanswered
the connection is closed; late answers go with it."""

LIMITS = PeerLimits(connections=1)

MAX_REASON = 1000
"""Characters of an error that are passed on; the schema allows a few more."""

Answered = Callable[[MemberReply], None]
Answers = Callable[[SignedHeader, MemberRequest, Answered], None]
"""A member: takes a request and the header of its sender, and calls back with the reply."""


class MemberRpcClient:
    """`ports.MemberTransport` over the network."""

    def __init__(self, identity: Identity, context: LinkContext) -> None:
        self._identity = identity
        self._context = context
        self._members: dict[int, MemberConnection] = {}

    def set_links(self, links: Mapping[int, str]) -> None:
        """The members from now on, with their addresses. Connections to others are closed."""
        for member, connection in list(self._members.items()):
            if links.get(member) != connection.url:
                self._members.pop(member).close()
        for member, url in links.items():
            if member not in self._members:
                self._members[member] = MemberConnection(member, url, self._identity, self._context)

    def ask(self, to: int, request: MemberRequest, answered: Answered) -> None:
        member = self._members.get(to)
        if member is None:
            answered(Failed(reason=f"replica {to} has no address here"))
        else:
            member.ask(request, answered)

    def stop(self) -> None:
        self.set_links({})


class MemberConnection:
    def __init__(self, member: int, url: str, identity: Identity, context: LinkContext) -> None:
        self.url = url
        self._member = member
        self._identity = identity
        self._context = context
        self._connections = PeerConnections(url, context, LIMITS, on_ready=self._introduce)
        self._connections.start()

    def close(self) -> None:
        self._connections.close()

    def ask(self, request: MemberRequest, answered: Answered) -> None:
        body = wire.encode_member_request(request)
        self._context.link.there(self._member, partial(self._send, path_of(request), body, perf_counter(), answered))

    def _introduce(self) -> None:
        """A signed request at once, without a question: until then a connection counts among strangers there, and may
        be closed for want of room."""
        dial = self._connections.best()
        if dial is not None and not dial.answers and not dial.waiting:
            self._context.link.there(
                self._member, partial(self._send, MEMBER_PATH, b"", perf_counter(), lambda _: None)
            )

    def _send(self, path: bytes, body: bytes, left_s: float, answered: Answered) -> None:
        dial = self._connections.best()
        if dial is not None and dial.waiting >= MAX_WAITING:
            dial.abort()
            dial = None
        if dial is None:
            answered(Failed(reason="unreachable"))
            return
        header = self._identity.header(self._member, self._context.dice.nonce())
        secret = self._identity.keys.spoken.secret
        signature, mac = auth.sign(secret, header, path, body)
        head = b"POST %b HTTP/1.1\r\nhost: %b\r\nauthorization: %b\r\ncontent-length: %d\r\n\r\n" % (
            path,
            dial.host,
            signature,
            len(body),
        )
        there_ms = (perf_counter() - left_s) * 1000
        dial.request(head, body, partial(self._on_answer, secret, header, mac, there_ms, answered))

    def _on_answer(
        self,
        secret: bytes,
        header: SignedHeader,
        mac: bytes,
        there_ms: float,
        answered: Answered,
        answer: HttpReply | None,
    ) -> None:
        if answer is None:
            answered(Failed(reason="connection lost"))
        elif answer.status != LOST_STATUS:
            self._context.link.back(self._member, there_ms, lambda: answered(self._reply(secret, header, mac, answer)))

    def _reply(self, secret: bytes, header: SignedHeader, mac: bytes, answer: HttpReply) -> MemberReply:
        try:
            check_answer(self._identity, secret, header, mac, answer)
            return wire.decode_member_reply(answer.body)
        except (CodecError, PeerRefused) as error:
            return Failed(reason=f"answered {answer.status}: {error}"[:MAX_REASON])


def path_of(request: MemberRequest) -> bytes:
    return CHANGELOG_READ_PATH if isinstance(request, ChangelogRead) else MEMBER_PATH


class MemberRpcEndpoint:
    """The HTTP handler of both addresses. A request at the wrong one is refused. One without a body asks nothing: its
    sender has shown who it is."""

    def __init__(self, answers: Answers, authenticator: Authenticator) -> None:
        self._answers = answers
        self._authenticator = authenticator

    def __call__(self, exchange: Exchange) -> None:
        signed = self._authenticator.authenticate(exchange)
        if signed is None:
            return
        if not exchange.request.body:
            self._authenticator.respond(exchange, signed, b"")
            return
        try:
            request = wire.decode_member_request(exchange.request.body)
        except CodecError as error:
            exchange.fail(400, "bad_frame", repr(error))
            return
        if path_of(request) != exchange.request.path:
            exchange.fail(400, "wrong_address", f"this request belongs to {path_of(request).decode()}")
            return
        self._answers(signed.header, request, partial(self._respond, exchange, signed))

    def _respond(self, exchange: Exchange, signed: Signed, reply: MemberReply) -> None:
        self._authenticator.respond(exchange, signed, wire.encode_member_reply(reply))
