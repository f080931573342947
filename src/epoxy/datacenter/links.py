"""Links to the other nodes of a datacenter: questions one way, answers back, each as a message of its own.

    GET /v2/epoxy/nodes         signed like every request between replicas; `upgrade: epoxy-nodes/1`
    101, epoxy-session          nonce, greeting and proof, as in the handshake of `transport/peers/frames.py`
    frame                       length u32 | seal, 32 bytes | messages (`messages.py`)

Each node dials each other one, and asks on the connections that it dialled. A question leaves in the same turn of the
event loop, with all others of that turn. Answers are matched by number, so one that takes long holds up no other. A
question that was not written to a connection when it fails was never sent; one that was may have been heard.

As signer, a node is `FIRST_NODE` + its session, which no replica is. In place of a store its greeting names the
replica, so that nodes of two datacenters, which share the secret, refuse each other. A session refuses what is meant
for the one before it at the same address.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from epoxy.api.http.routes import Route, signed_route
from epoxy.datacenter.link_ends import FIRST_NODE, PROTOCOL, NodeDial, NodeServer, deliver
from epoxy.datacenter.link_limits import NodeLinkLimits
from epoxy.datacenter.messages import Question, TooLong, encode
from epoxy.datacenter.ports import Answered, NeverSent, Serve
from epoxy.model.access import Access
from epoxy.ports import Clock, Dice, Timer
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import NODES_PATH
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.keyring import Keyring, keyring_of
from epoxy.transport.peers.link_context import Identity, LinkContext
from epoxy.transport.peers.reconnect import PeerConnections
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.tls import ContextOf
from epoxy.transport.wan.emulation import Link

log = logging.getLogger("epoxy.nodes")

T = TypeVar("T")

UNKNOWN_SESSION = NeverSent("this session is not among those of the datacenter", unreachable=True)
NO_LINK = "there is no connection to the node"
FULL = "too many questions wait for the node"


class NodeLink:
    """To one other session."""

    def __init__(
        self, session: int, url: str, identity: Identity, context: LinkContext, limits: NodeLinkLimits
    ) -> None:
        self.session = session
        self.url = url
        self._limits = limits
        self._clock = context.clock
        self._queue: deque[tuple[int, bytes, Answered | None, float]] = deque()
        self._queue_bytes = 0
        self._dials: set[NodeDial] = set()
        self._number = 0
        self._flush_is_next = False
        self._is_down = False
        self.trouble = ""
        """Why there is no connection, if that is known."""
        self._ticked_ms = context.clock.now_ms()
        make = partial(self._make_dial, identity, context)
        self._connections = PeerConnections(
            url, context, limits.connections, on_ready=self._ready, on_failed=self._failed, make=make
        )
        self._keys = identity.keys

    def start(self) -> None:
        self._connections.start()

    def close(self) -> None:
        """The session is over, or this node ends."""
        self._connections.close()
        self._fail_queue("the session is over")

    async def stop(self) -> None:
        self.close()
        await self._connections.stop()

    @property
    def is_up(self) -> bool:
        return self._connections.best() is not None

    def ask(self, question: Question, answered: Answered | None) -> None:
        """Without `answered` no answer is wanted."""
        if self._is_down:
            refuse(answered, self.trouble or NO_LINK, unreachable=True)
            return
        number = 0
        if answered is not None:
            self._number = number = self._number + 1
        try:
            piece = encode(number, question)
        except TooLong as error:
            refuse(answered, str(error))
            return
        if self._is_full:
            refuse(answered, FULL)
            return
        self._queue.append((number, piece, answered, self._ticked_ms))
        self._queue_bytes += len(piece)
        if not self._flush_is_next:
            self._flush_is_next = True
            asyncio.get_running_loop().call_soon(self._flush)

    @property
    def _is_full(self) -> bool:
        count, size = len(self._queue), self._queue_bytes
        for dial in self._dials:
            count += dial.waiting
            size += dial.waiting_bytes
        return count >= self._limits.pending_questions or size >= self._limits.pending_bytes

    def tick(self, stood_still: bool) -> None:
        """`stood_still`: this process may not have read what came meanwhile, so nothing is overdue yet."""
        self._ticked_ms = now_ms = self._clock.now_ms()
        self._connections.renew(self._keys.spoken)
        for dial in tuple(self._dials):
            dial.beat()
            if not stood_still:
                dial.expire(now_ms - self._limits.answer_ms, self._limits.silent_ms)
        while not stood_still and self._queue and self._queue[0][3] <= now_ms - self._limits.queue_ms:
            _, piece, answered, _ = self._queue.popleft()
            self._queue_bytes -= len(piece)
            refuse(answered, self.trouble or NO_LINK, unreachable=True)

    def _make_dial(self, identity: Identity, context: LinkContext, drained: Callable[[], None]) -> NodeDial:
        header = identity.header(FIRST_NODE + self.session, context.dice.nonce())
        return NodeDial(drained, identity, header, context.clock, self._dials)

    def _flush(self) -> None:
        self._flush_is_next = False
        queue, most = self._queue, self._limits.batch_bytes
        while queue:
            dial = self._connections.best()
            if dial is None:
                return
            assert isinstance(dial, NodeDial)
            batch = [queue.popleft()]
            size = len(batch[0][1])
            while queue and size + len(queue[0][1]) <= most:
                batch.append(queue.popleft())
                size += len(batch[-1][1])
            self._queue_bytes -= size
            dial.send(batch)

    def _ready(self) -> None:
        if self._is_down:
            log.info("session %d at %s is reachable", self.session, self.url)
        self._is_down = False
        self.trouble = ""
        self._flush()

    def _failed(self, reason: str) -> None:
        if not self._is_down or reason != self.trouble:
            log.warning("session %d at %s is unreachable: %s", self.session, self.url, reason)
        self._is_down = True
        self.trouble = reason
        self._fail_queue(reason)

    def _fail_queue(self, reason: str) -> None:
        queue, self._queue, self._queue_bytes = self._queue, deque(), 0
        for _, _, answered, _ in queue:
            refuse(answered, reason, unreachable=True)


def refuse(answered: Answered | None, reason: str, *, unreachable: bool = False) -> None:
    if answered is not None:
        deliver(answered, NeverSent(reason, unreachable))


class NodeLinks:
    """`ports.Messenger` over the network: one link to each other session of the datacenter, and the end that serves
    theirs."""

    def __init__(
        self,
        session: int,
        replica: int,
        secret: bytes | Keyring,
        *,
        clock: Clock,
        dice: Dice,
        ssl: ContextOf | None = None,
        certificates: bool = False,
        limits: NodeLinkLimits | None = None,
    ) -> None:
        """`session`: of this node. `replica`: of the datacenter. `secret`: what peers sign with. `certificates`: refuse
        connections without a client certificate. Made inside a running event loop."""
        me, keys, gate = FIRST_NODE + session, keyring_of(secret), OpenGate(replica)
        self.session = session
        self._replica = replica
        self._clock = clock
        self._limits = limits or NodeLinkLimits()
        self._identity = Identity(me, keys, lambda: 0, gate)
        self._context = LinkContext(clock, dice, Link(clock), ssl)
        self._verifier = Verifier(me, keys)
        self._authenticator = Authenticator(self._verifier, gate, certificates=certificates)
        self._links: dict[int, NodeLink] = {}
        self._handlers: dict[type[Any], Serve[Any]] = {}
        self._servers: set[NodeServer] = set()
        self._timer: Timer | None = None
        self._ticked_ms = clock.now_ms()
        self._is_stopped = False

    def start(self) -> None:
        self._tick()
        for link in self._links.values():
            link.start()

    async def stop(self) -> None:
        """All that waits fails: unsent, or without an answer. What others asked is not answered any more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for server in tuple(self._servers):
            server.abort()
        links, self._links = self._links, {}
        for link in links.values():
            await link.stop()

    def routes(self) -> list[Route]:
        return [signed_route("GET", NODES_PATH, self.accept, Access.PEER)]

    def set_sessions(self, sessions: Mapping[int, str]) -> None:
        """The sessions of the datacenter with their addresses; this one may be among them. Links to others are
        closed."""
        others = {session: url for session, url in sessions.items() if session != self.session}
        for session in [session for session, link in self._links.items() if others.get(session) != link.url]:
            self._links.pop(session).close()
        for session, url in others.items():
            if session not in self._links and not self._is_stopped:
                self._link_to(session, url)
        self._verifier.forget_all_but({FIRST_NODE + session for session in others})

    def _link_to(self, session: int, url: str) -> None:
        try:
            link = NodeLink(session, url, self._identity, self._context, self._limits)
        except ValueError as error:
            log.error("session %d cannot be reached: %s", session, error)
            return
        self._links[session] = link
        if self._timer is not None:
            link.start()

    @property
    def sessions(self) -> Collection[int]:
        return self._links.keys()

    def is_up(self, session: int) -> bool:
        return session in self._links and self._links[session].is_up

    def trouble(self, session: int) -> str:
        """Why there is no connection, if that is known."""
        return self._links[session].trouble if session in self._links else UNKNOWN_SESSION.reason

    def ask(self, session: int, question: Question, answered: Answered) -> None:
        link = self._links.get(session)
        if link is None:
            answered(UNKNOWN_SESSION)
        else:
            link.ask(question, answered)

    def tell(self, session: int, question: Question) -> None:
        link = self._links.get(session)
        if link is not None:
            link.ask(question, None)

    def serve(self, kind: type[T], handler: Serve[T]) -> None:
        self._handlers[kind] = handler

    # The end that serves others.

    def accept(self, exchange: Exchange) -> None:
        """The handler of `routes`."""
        asked = exchange.request.headers.get(b"upgrade", b"").lower()
        if asked != PROTOCOL:
            # Before the signature: another release may sign in another way.
            spoken = f"this address speaks {PROTOCOL.decode()}, and {asked.decode('ascii', 'replace')!r} was asked for"
            exchange.fail(400, "bad_request", f"{spoken}; both nodes need the same release of Epoxy")
            return
        signed = self._authenticator.authenticate(exchange)
        if signed is None:
            return
        if signed.header.sender < FIRST_NODE or signed.header.store != self._replica:
            exchange.fail(403, "forbidden", f"this address is for the other nodes of replica {self._replica}")
            return
        server = NodeServer(self._authenticator.open_session(signed), self._handlers, self._limits, self._servers)
        if self._is_stopped or not exchange.upgrade(server, server.handshake_headers()):
            exchange.fail(400, "bad_request", "a connection of its own is needed")

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._limits.tick_ms, self._tick)
        now_ms, before_ms = self._clock.now_ms(), self._ticked_ms
        self._ticked_ms = now_ms
        stood_still = now_ms - before_ms >= 2 * self._limits.tick_ms
        for link in tuple(self._links.values()):
            link.tick(stood_still)
        for server in tuple(self._servers):
            server.tick(stood_still)
