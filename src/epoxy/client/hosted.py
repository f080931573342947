"""An actor inside its worker: what its code sees of it."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from epoxy.model.actors import MAX_REQUEST_BYTES, Response, Start

LOG = logging.getLogger("epoxy.envoy")

MAX_QUEUED = 1000
"""Requests that one actor has not looked at yet. More are answered with an error at once."""

STOP_S = 5.0
"""For an actor to finish what it is doing when it is told to stop; then it is cancelled."""

Respond = Callable[[Response], None]
Ended = Callable[["Actor", bool], None]
"""Told once, with whether it failed."""


class Request:
    """One request to an actor, answered once. Whatever is left unanswered is answered with an error."""

    def __init__(self, number: int, body: bytes, respond: Respond) -> None:
        self.body = body
        self._number = number
        self._respond: Respond | None = respond

    @property
    def text(self) -> str:
        return self.body.decode()

    def respond(self, body: bytes | str = b"") -> None:
        raw = body.encode() if isinstance(body, str) else body
        if len(raw) > MAX_REQUEST_BYTES:
            self.fail(f"the answer has {len(raw)} bytes; the limit is {MAX_REQUEST_BYTES}")
        else:
            self._answer(Response(request_id=self._number, body=raw))

    def fail(self, reason: str) -> None:
        self._answer(Response(request_id=self._number, body=reason.encode(), error=True))

    def _answer(self, response: Response) -> None:
        respond, self._respond = self._respond, None
        if respond is not None:
            respond(response)


class Actor:
    """Iterate over it to get its requests, one after the other; that ends when the actor is told to stop.

    async for request in actor:
        request.respond(b"pong")
    """

    def __init__(self, start: Start) -> None:
        self.id = start.actor_id
        self.generation = start.generation
        self.namespace = start.namespace
        self.name = start.name
        self.key = start.key
        self.input = start.input
        self.stopping = asyncio.Event()
        self.abandoned = False
        self._requests: asyncio.Queue[Request | None] = asyncio.Queue()
        self._last: Request | None = None
        self._task: asyncio.Task[None] | None = None

    def __aiter__(self) -> "Actor":
        return self

    async def __anext__(self) -> Request:
        self._finish_last()
        request = await self._requests.get()
        if request is None:
            raise StopAsyncIteration
        self._last = request
        return request

    # The worker calls these.

    def begin(self, code: Callable[["Actor"], Awaitable[None]], ended: Ended) -> None:
        self._task = asyncio.create_task(self._run(code, ended), name=f"actor {self.name}/{self.key}")

    def ask(self, request: Request) -> None:
        if self.stopping.is_set():
            request.fail("the actor is stopping")
        elif self._requests.qsize() >= MAX_QUEUED:
            request.fail(f"{MAX_QUEUED} requests wait for this actor already")
        else:
            self._requests.put_nowait(request)

    def stop(self) -> None:
        """It may finish what it has begun and what waits for it."""
        if not self.stopping.is_set():
            self.stopping.set()
            self._requests.put_nowait(None)
            asyncio.get_running_loop().call_later(STOP_S, self.cancel)

    def cancel(self) -> None:
        """At once, and not because it wanted to: another worker will go on with it."""
        self.stopping.set()
        if self._task is not None and not self._task.done():
            self.abandoned = True
            self._task.cancel()

    async def wait(self) -> None:
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._task)

    async def _run(self, code: Callable[["Actor"], Awaitable[None]], ended: Ended) -> None:
        failed = True
        try:
            await code(self)
            failed = False
        except Exception:
            LOG.exception("actor %s/%s failed; it will be started again", self.name, self.key)
        finally:
            self._finish_last()
            while not self._requests.empty():
                if (request := self._requests.get_nowait()) is not None:
                    request.fail("the actor has ended")
            ended(self, failed or self.abandoned)

    def _finish_last(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.fail("the actor did not answer")
