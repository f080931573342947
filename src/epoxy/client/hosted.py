"""An actor inside its worker: what its code sees of it."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from epoxy.model.actors import MAX_REQUEST_BYTES, Response, Start

LOG = logging.getLogger("epoxy.envoy")

MAX_QUEUED = 1000
"""Requests in one actor's queue. More are refused at once."""

COMPLAIN_S = 30.0
"""Code that still runs so long after it was cancelled probably never ends, so the worker's log says so."""

Respond = Callable[[Response], None]


class Request:
    """One request to an actor, answered once. One that the code leaves unanswered is answered with an error."""

    def __init__(self, number: int, body: bytes, respond: Respond) -> None:
        self.body = body
        self._number = number
        self._respond: Respond | None = respond

    @property
    def text(self) -> str:
        """The body as UTF-8. If it is not, the request is answered with an error, and the code sees replacement
        characters: an exception here would end the actor for the mistake of one client."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            self.fail(f"the request is not UTF-8, at byte {error.start}")
            return self.body.decode(errors="replace")

    def respond(self, body: bytes | bytearray | memoryview | str = b"") -> None:
        """Raises TypeError for anything else. Text that cannot be encoded (half of a surrogate pair, which JSON of a
        client may hold) is answered with an error, and does not end the actor."""
        if isinstance(body, str):
            try:
                raw = body.encode()
            except UnicodeEncodeError as error:
                self.fail(f"the answer is not Unicode text, at character {error.start}")
                return
        elif isinstance(body, bytes | bytearray | memoryview):
            raw = bytes(body)
        else:
            raise TypeError(f"an actor answers with bytes or str, not {type(body).__name__}")
        if len(raw) > MAX_REQUEST_BYTES:
            self.fail(f"the answer has {len(raw)} bytes; the limit is {MAX_REQUEST_BYTES}")
        else:
            self._answer(Response(request_id=self._number, body=raw))

    def fail(self, reason: str) -> None:
        """The code saw the request: what it did about it is not known."""
        body = reason.encode(errors="replace")
        self._answer(Response(request_id=self._number, body=body, error=True))

    def refuse(self, reason: str) -> None:
        """The code never saw it."""
        self._answer(Response(request_id=self._number, body=reason.encode(), error=True, refused=True))

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
        self._requests: asyncio.Queue[Request | None] = asyncio.Queue()
        self._last: Request | None = None
        self._cancelled = False
        self._task: asyncio.Task[bool] | None = None

    def __aiter__(self) -> "Actor":
        return self

    async def __anext__(self) -> Request:
        """The event loop has a turn before every request, for pings and other actors: getting one from a queue that is
        not empty would give it none. Code that goes on after it was cancelled sees no more requests."""
        self._finish_last()
        await asyncio.sleep(0)
        request = await self._requests.get() if not self._cancelled else None
        if request is None:
            raise StopAsyncIteration
        self._last = request
        return request

    # The worker calls these.

    def begin(self, code: Callable[["Actor"], Awaitable[None]], ended: Callable[[bool], None]) -> None:
        """`ended` is called when the code has ended, clean-up and all; with whether it failed."""
        self._task = asyncio.create_task(self._run(code), name=f"actor {self.name}/{self.key}")
        # Not at the end of the coroutine: one that is cancelled before its first step never gets there.
        self._task.add_done_callback(lambda task: self._over(ended, failed=task.cancelled() or task.result()))

    def ask(self, request: Request) -> None:
        if self._requests.qsize() >= MAX_QUEUED:
            request.refuse(f"{MAX_QUEUED} requests wait for this actor already")
        else:
            self._requests.put_nowait(request)

    def finish(self) -> None:
        """No more requests; it may finish those it has and those in its queue."""
        self.stopping.set()
        self._requests.put_nowait(None)

    def cancel(self) -> None:
        """Interrupt the code at once; another worker will start the actor again."""
        self.stopping.set()
        self._cancelled = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            asyncio.get_running_loop().call_later(COMPLAIN_S, self._complain)

    async def wait(self) -> None:
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._task)

    async def _run(self, code: Callable[["Actor"], Awaitable[None]]) -> bool:
        """Whether it failed."""
        try:
            await code(self)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            LOG.exception("actor %s/%s failed; it will be started again", self.name, self.key)
            return True
        return False

    def _over(self, ended: Callable[[bool], None], *, failed: bool) -> None:
        self._finish_last()
        while not self._requests.empty():
            if (request := self._requests.get_nowait()) is not None:
                request.refuse("the actor has ended")
        ended(failed)

    def _complain(self) -> None:
        if self._task is not None and not self._task.done():
            told = "actor %s/%s was cancelled %.0f s ago and has not ended; its next start here waits for it"
            LOG.error(told, self.name, self.key, COMPLAIN_S)

    def _finish_last(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.fail("the actor did not answer")
