"""Questions about actors, passed on to the datacenter that owns them: one HTTP request each, on pooled connections.

The client was authorised where it asked. The datacenter that passes its question on signs it as every request between
replicas is signed, and the owner answers no other: `RelayEndpoint`."""

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import assert_never

import msgspec

from epoxy.actors.messages import CallActor as ActorCall
from epoxy.actors.messages import Destroy, Ensure, GetActor, OwnerUnavailable, Question, Verdict
from epoxy.actors.service import ActorService
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.inputs import json_record
from epoxy.api.http.routes import Route
from epoxy.client.async_pool import AsyncPool
from epoxy.client.calls import Call
from epoxy.client.http1 import HttpResponse, parse_url
from epoxy.client.responses import JSON
from epoxy.client.routing import NotSent
from epoxy.codec import json_text
from epoxy.model.access import Access
from epoxy.model.errors import CodecError
from epoxy.ports import Dice
from epoxy.transport.http.request import HttpReply
from epoxy.transport.limits import RELAY_PATH
from epoxy.transport.peers import auth
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.link_context import Identity
from epoxy.transport.peers.peer import PeerRefused, check_answer
from epoxy.transport.peers.signed_header import Signed
from epoxy.transport.tls import ContextOf
from epoxy.transport.wan.emulation import Link

TIMEOUT_S = 40.0
"""Longer than an actor may take for an answer (30 s), so that the owner reports its timeout first."""

CONNECTIONS = 64
"""To one datacenter. Each carries one question at a time, so that a slow actor does not hold up others."""

MAX_ASKING = 4096
"""Questions under way, as many as requests may wait at the owner."""

CONNECT_S = 5.0

encoder = msgspec.json.Encoder()
questions: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)
verdicts: msgspec.json.Decoder[Verdict] = msgspec.json.Decoder(Verdict)

Answered = Callable[[Verdict | None], None]


class HttpRelay:
    """`url` is the address of a datacenter by its label; None: no member has it. `identity` signs."""

    def __init__(
        self, url: Callable[[int], str | None], link: Link, tls: ContextOf | None, identity: Identity, dice: Dice
    ) -> None:
        self._identity = identity
        self._dice = dice
        self.connections = CONNECTIONS
        """To one datacenter. The limit of file descriptors may allow fewer."""
        self._url = url
        self._link = link
        self._tls = tls
        self._pools: dict[str, AsyncPool] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def ask(self, label: int, question: Question, answered: Answered) -> None:
        url = self._url(label)
        if url is None:
            answered(OwnerUnavailable(reason=f"datacenter {label}, which owns the actor, is no member of this cluster"))
        elif len(self._asking) >= MAX_ASKING:
            answered(OwnerUnavailable(reason=f"{MAX_ASKING} questions are asked of other datacenters already"))
        else:
            task = asyncio.get_running_loop().create_task(self._ask(label, url, question, answered))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    def close(self) -> None:
        for task in list(self._asking):
            task.cancel()
        for pool in self._pools.values():
            pool.close()

    async def _ask(self, label: int, url: str, question: Question, answered: Answered) -> None:
        verdict: Verdict | None = None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                verdict = await self._exchange(label, url, question)
        except TimeoutError:
            pass
        finally:
            answered(verdict)

    async def _exchange(self, label: int, url: str, question: Question) -> Verdict | None:
        began_s = perf_counter()
        await crossing(lambda arrive: self._link.there(label, arrive))
        there_ms = (perf_counter() - began_s) * 1000
        body = encoder.encode(question)
        header = self._identity.header(label, self._dice.nonce())
        secret = self._identity.keys.spoken.secret
        signature, mac = auth.sign(secret, header, RELAY_PATH, body)
        call = Call(
            method="POST",
            target=RELAY_PATH.decode(),
            body=body,
            content_type=JSON,
            authorization=signature.decode("ascii"),
            writes=not may_repeat(question),
            read=lambda answer: answer,
        )
        outcome = await self._pool(url).ask(call, TIMEOUT_S)
        await crossing(lambda arrive: self._link.back(label, there_ms, arrive))
        if isinstance(outcome, NotSent):
            return OwnerUnavailable(
                reason=f"datacenter {label}, which owns the actor, cannot be reached: {outcome.reason}"
            )
        if not isinstance(outcome, HttpResponse):
            return None
        try:
            check_answer(self._identity, secret, header, mac, as_reply(outcome))
        except PeerRefused:
            return None
        return read(outcome)

    def _pool(self, url: str) -> AsyncPool:
        context = self._tls() if self._tls is not None else None
        if url not in self._pools:
            self._pools[url] = AsyncPool(parse_url(url), CONNECT_S, self.connections, context)
        elif context is not None:
            self._pools[url].trust(context)
        return self._pools[url]


def may_repeat(question: Question) -> bool:
    """Whether it does no harm if it arrives twice. A destroy does: the name may have a new actor by the second time."""
    match question:
        case GetActor():
            return True
        case Ensure(exclusive=exclusive):
            return not exclusive
        case Destroy() | ActorCall():
            return False
        case _:
            assert_never(question)


async def crossing(cross: Callable[[Callable[[], None]], None]) -> None:
    """Wait as long as the emulated link delays; for ever, if it is cut."""
    arrived = asyncio.get_running_loop().create_future()
    cross(lambda: arrived.set_result(None) if not arrived.done() else None)
    await arrived


def as_reply(answer: HttpResponse) -> HttpReply:
    headers = {name.encode("latin-1"): value.encode("latin-1") for name, value in answer.headers.items()}
    return HttpReply(status=answer.status, headers=headers, body=answer.body)


def read(answer: HttpResponse) -> Verdict | None:
    if answer.status != 200:
        return None
    try:
        return json_text.decode(verdicts, answer.body)
    except CodecError:
        return None


class RelayEndpoint:
    """Answers what another datacenter passes on."""

    def __init__(self, actors: ActorService, authenticator: Authenticator) -> None:
        self._actors = actors
        self._authenticator = authenticator

    def route(self) -> Route:
        return Route(
            method="POST",
            path=RELAY_PATH.decode(),
            handler=self.post,
            kind="http_post_actor_relay",
            access=Access.PEER,
            signed=True,
        )

    def post(self, call: ApiCall) -> None:
        signed = self._authenticator.authenticate(call.exchange)
        if signed is None:
            return
        question = json_record(call.request, questions, "question about an actor")
        if signed.known:
            self._actors.ask(question, partial(self._respond, call, signed), relayed=True)
        else:
            self._respond(call, signed, OwnerUnavailable(reason="the datacenter that asked is no member any more"))

    def _respond(self, call: ApiCall, signed: Signed, verdict: Verdict) -> None:
        self._authenticator.respond(call.exchange, signed, encoder.encode(verdict))
