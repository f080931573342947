"""An actor, as its code sees it."""

import asyncio
from collections.abc import AsyncIterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from epoxy.client.hosted.headers import GivenHeaders, checked_headers
from epoxy.client.hosted.requests import Body, JsonBody, Request, Response
from epoxy.client.hosted.sockets import Socket
from epoxy.client.hosted.state import State
from epoxy.model.actors import ActorName
from epoxy.model.errors import EpoxyError, InvalidRequest
from epoxy.model.exchanges import MAX_IDEMPOTENCY_KEY_BYTES, RequestHead

if TYPE_CHECKING:
    from epoxy.client.hosted.actor_task import ActorTask

Answerable = Response | Body | JsonBody | AsyncIterable[bytes] | None
"""What `on_request` may return. None: an empty answer, unless the request was answered already."""

LAST_ALARM_MS = 1 << 53


class Actor:
    """Derive from it (the class form), or take one as the argument of an async function (the function form).

        @worker.actor("counter")
        class Counter(Actor):
            async def on_request(self, request: Request) -> dict[str, int]:
                self.state["count"] = self.state.get("count", 0) + 1
                return {"count": self.state["count"]}

        @worker.actor("echo")
        async def echo(actor: Actor) -> None:
            async for request in actor:
                request.respond(request.body)

    The methods `on_...` are its *turns*: one after the other, never two at a time. What a turn changes in `state` is
    saved when it ends, and its answers and messages leave when that is saved. If it raises, its changes are undone,
    what it sent is dropped, its request is answered with an error, and the actor lives on. An error in `on_start` or
    `on_alarm` ends the actor; it is started again after a pause. In the function form a turn is what happens from one
    request to the next, and an error that leaves the function ends the actor.

    `__init__` takes no arguments, and `state` is not loaded in it: use `on_start`.
    """

    _task: "ActorTask"

    # Turns

    async def on_start(self) -> None:
        """Before all others. The state is loaded; `sockets` has those that were held while it was asleep."""

    async def on_request(self, request: Request) -> Answerable:  # noqa: ARG002
        """What it returns is the answer: bytes, str, a dict or list (JSON), or a `Response`."""
        return Response(f"actors named {self.name} answer no requests", status=404)

    async def on_connect(self, socket: Socket) -> None:
        """A client wants to open a WebSocket, and has it when this returns. It may `socket.close(4003, "why")`."""

    async def on_message(self, socket: Socket, message: str | bytes) -> None:
        """From a client: str for a text message, bytes for a binary one."""

    async def on_disconnect(self, socket: Socket) -> None:
        """Once for each socket whose `on_connect` returned, when either end closed it; not when the actor ends."""

    async def on_alarm(self) -> None:
        """The time that `alarm` set has come. At least once: again, if this raises or the worker dies."""

    async def on_stop(self) -> None:
        """Before it moves, sleeps or is destroyed; not after a crash, and not when its worker dies."""

    # What it is

    @property
    def id(self) -> str:
        return self._task.start.actor_id

    @property
    def namespace(self) -> str:
        return self._task.start.namespace

    @property
    def name(self) -> str:
        return self._task.start.name

    @property
    def key(self) -> str:
        return self._task.start.key

    @property
    def datacenter(self) -> str:
        """Where it lives now. It does not change while it runs."""
        return self._task.datacenter

    @property
    def input(self) -> bytes:
        """What it was created with."""
        return self._task.start.input

    @property
    def generation(self) -> int:
        """Rises with each start of this actor, for ever."""
        return self._task.start.generation

    @property
    def fence(self) -> int:
        """For systems outside of Epoxy that this actor writes to: they should refuse a number below the highest they
        have seen. A worker that was stopped for longer than its lease may take one more step when it wakes."""
        return self._task.start.generation

    @property
    def stopping(self) -> asyncio.Event:
        """Set when it was told to stop: long work may look at it."""
        return self._task.stopping

    @property
    def state(self) -> State:
        """Its document: a dict of str to JSON or bytes, at most 1 MiB, saved by itself."""
        return self._task.activation.work.state

    @property
    def sockets(self) -> Mapping[str, Socket]:
        """By id: the WebSockets that are open."""
        sockets = self._task.activation.sockets.values()
        return MappingProxyType({each.id: each for each in sockets if each.accepted and each.is_open})

    # Time

    @property
    def alarm_at(self) -> float | None:
        """Unix time in seconds."""
        alarm_ms = self._task.activation.work.alarm_ms
        return alarm_ms / 1000 if alarm_ms else None

    def alarm(self, at: float | datetime | None) -> None:
        """Have `on_alarm` called at this time (unix time in seconds, or a datetime with its time zone); None: not at
        all. An actor has one alarm; it is saved with the state, and wakes the actor if it is asleep."""
        if not self._task.is_class:
            raise InvalidRequest("alarms need the class form of actors: a class with on_alarm")
        if isinstance(at, datetime):
            if at.tzinfo is None:
                raise InvalidRequest("an alarm at a datetime needs its time zone: datetime.now(timezone.utc)")
            at = at.timestamp()
        if at is not None and not 1000 * at < LAST_ALARM_MS:  # Not a number is not less than anything.
            raise InvalidRequest(f"an alarm is at a unix time in seconds, not {at}")
        self._task.activation.work.alarm_ms = 0 if at is None else int(max(1, 1000 * at))

    def sleep(self) -> None:
        """Leave memory and slot as soon as nothing waits; a request, a message, a call or the alarm wakes it."""
        self._task.activation.sleep()

    def destroy(self) -> None:
        """End for ever when this turn has ended, and delete the state. The name may then be given to a new actor."""
        self._task.activation.destroy()

    async def save(self) -> None:
        """Returns when all changes so far are saved. What this turn did so far is not undone any more."""
        await self._task.save()

    # Others

    async def call(
        self,
        name: str,
        key: str,
        body: Body | JsonBody = b"",
        *,
        method: str = "POST",
        path: str = "/",
        headers: GivenHeaders | None = None,
        namespace: str | None = None,
        pool: str | None = None,
        timeout: float = 30.0,
        idempotency_key: str = "",
    ) -> Response:
        """Ask another actor and wait for its answer; with a `pool` it is made if there is none.

        The changes of this turn so far are saved first, and are not undone any more. Raises an EpoxyError without an
        answer: `error.definite` tells whether nothing was done (Unavailable, Forbidden) or that is not known
        (Timeout, ConnectionLost, OutcomeUnknown). An actor that would wait for itself is refused at once. With an
        `idempotency_key` the other carries it out once, however often it is asked.
        """
        heard: asyncio.Future[Response | EpoxyError] = asyncio.get_running_loop().create_future()

        def answered(outcome: Response | EpoxyError) -> None:
            if not heard.done():
                heard.set_result(outcome)

        which, head, raw = self._asked(name, key, body, method, path, headers, namespace, idempotency_key)
        call = self._task.activation.ask(which, head, raw, pool or "", (answered, timeout))
        try:
            outcome = await heard
        finally:
            self._task.activation.forget_call(call)
        if isinstance(outcome, EpoxyError):
            raise outcome
        return outcome

    def tell(
        self,
        name: str,
        key: str,
        body: Body | JsonBody = b"",
        *,
        method: str = "POST",
        path: str = "/",
        headers: GivenHeaders | None = None,
        namespace: str | None = None,
        pool: str | None = None,
        idempotency_key: str = "",
    ) -> None:
        """Send another actor a request without waiting for an answer: at most once, when the changes of this turn are
        saved. If it gets lost, this actor does not learn of it."""
        which, head, raw = self._asked(name, key, body, method, path, headers, namespace, idempotency_key)
        self._task.activation.ask(which, head, raw, pool or "", None)

    def _asked(
        self,
        name: str,
        key: str,
        body: Any,
        method: str,
        path: str,
        headers: GivenHeaders | None,
        namespace: str | None,
        idempotency_key: str,
    ) -> tuple[ActorName, RequestHead, bytes]:
        if len(idempotency_key.encode(errors="replace")) > MAX_IDEMPOTENCY_KEY_BYTES:
            raise InvalidRequest(f"an idempotency key has at most {MAX_IDEMPOTENCY_KEY_BYTES} bytes")
        which = ActorName(self.namespace if namespace is None else namespace, name, key)
        made = Response(body, headers=headers)
        if made.content is not None:
            raise TypeError("the body of a call is bytes, str, dict or list")
        path, _, query = path.partition("?")
        if not path.startswith("/"):
            raise InvalidRequest(f"a path begins with '/': {path!r}")
        kind = () if headers is None and isinstance(body, bytes | str) else made.pairs
        head = RequestHead(
            method=method,
            path=path,
            query=query,
            headers=checked_headers(kind),
            idempotency_key=idempotency_key,
        )
        return which, head, made.body

    # The function form

    def __aiter__(self) -> "Actor":
        """Its requests, one after the other; that ends when the actor is told to stop, or sleeps."""
        return self

    async def __anext__(self) -> Request:
        return await self._task.next_request()
