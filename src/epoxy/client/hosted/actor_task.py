"""The code of one actor, as a task of the event loop: it is given one turn after the other."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import assert_never

from msgspec import Struct

from epoxy.client.hosted.activation import Activation
from epoxy.client.hosted.actor import Actor
from epoxy.client.hosted.answer_streams import AnswerStream
from epoxy.client.hosted.link import ActorLink, Ending, ToActor
from epoxy.client.hosted.mailbox import Mail, MailKind
from epoxy.client.hosted.requests import Request
from epoxy.client.hosted.sockets import Socket
from epoxy.model.envoy_messages import Start
from epoxy.model.errors import InvalidRequest

LOG = logging.getLogger("epoxy.envoy")

COMPLAIN_S = 30.0
"""Code that still runs so long after it was cancelled probably never ends, so the worker's log says so."""

INTERNAL_ERROR = 1011
"""Code of a close frame."""

Code = type[Actor] | Callable[[Actor], Awaitable[None]]


class ActorCode(Struct, frozen=True):
    """What a worker has registered for a name. `sleep_after`: seconds of idleness; None: never. `local`: the state
    stays in its datacenter."""

    code: Code
    sleep_after: float | None = None
    local: bool = False


async def no_wait() -> None: ...


def wall_ms() -> int:
    return int(1000 * time.time())


class ActorTask:
    """`ended` is called once, when the code has ended, clean-up and all. `room`: awaited between two turns, for a
    connection that is slower than its actors."""

    def __init__(
        self,
        registered: ActorCode,
        start: Start,
        link: ActorLink,
        ended: Callable[[Ending], None],
        *,
        room: Callable[[], Awaitable[None]] = no_wait,
        unix_ms: Callable[[], int] = wall_ms,
        datacenter: str = "",
    ) -> None:
        """Raises InvalidValue for a state that this SDK cannot read."""
        code = registered.code
        self.start = start
        self.datacenter = datacenter
        self.stopping = asyncio.Event()
        self.is_class = isinstance(code, type)
        self.actor = object.__new__(code) if isinstance(code, type) else Actor()
        self.actor._task = self
        self._code = code
        self._ended = ended
        self._room = room
        self._link = link
        self._woken = asyncio.Event()
        self._cancelled = False
        self._task: asyncio.Task[bool] | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self.activation = Activation(
            start,
            link,
            unix_ms,
            changed=self._change,
            refused=self._refused,
            fenced=self._fenced,
            pump=self._pump,
            takes_sockets=isinstance(code, type) and takes_sockets(code),
            sleep_after_ms=None if registered.sleep_after is None else 1000 * registered.sleep_after,
        )

    def __str__(self) -> str:
        return f"actor {self.start.name}/{self.start.key}"

    # The worker calls these.

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name=str(self))
        # Not at the end of the coroutine: one that is cancelled before its first step never gets there.
        self._task.add_done_callback(lambda task: self._over(failed=task.cancelled() or task.result()))

    def heard(self, message: ToActor) -> None:
        self.activation.heard(message)

    def connected(self) -> None:
        self.activation.connected()

    def lost(self) -> None:
        self.activation.lost()

    def finish(self) -> None:
        """No more requests; it may finish those it has and those in its mailbox."""
        self.activation.finish()

    def cancel(self) -> None:
        """Interrupt the code at once; another worker will start the actor again."""
        self.stopping.set()
        self._cancelled = True
        self._woken.set()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            asyncio.get_running_loop().call_later(COMPLAIN_S, self._complain)

    async def wait(self) -> None:
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._task)

    # Its actor calls these.

    async def save(self) -> None:
        self.activation.point()
        await self._settled()

    async def next_request(self) -> Request:
        """Of the function form: the turn before ends, and the next begins. The event loop has a turn before every
        request, for pings and other actors. Code that goes on after it was cancelled sees no more requests."""
        self._end_function_turn()
        while (mail := await self._next()) is not None:
            if mail.request is not None:
                return mail.request
            # The alarm or a socket of an earlier version of the code, which had the class form.
            self.activation.finish_turn()
        self.activation.begin_turn()
        raise StopAsyncIteration

    # Turns

    async def _run(self) -> bool:
        """Whether it failed."""
        try:
            self.activation.begin_turn()
            if isinstance(self._code, type):
                await self._serve(self.actor)
            else:
                await self._code(self.actor)
                self._end_function_turn()
            await self._settled()
        except SystemExit:
            LOG.exception("%s ends the whole worker: its code called sys.exit", self)
            raise
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError:
            self.activation.fail_turn("the actor was interrupted")
            if self._is_interrupted:
                raise
            LOG.exception("%s failed; it will be started again", self)
        except BaseException as error:
            self.activation.fail_turn(told(error))
            LOG.exception("%s failed; it will be started again", self)
        else:
            return False
        await self._settled()
        return True

    @property
    def _is_interrupted(self) -> bool:
        """By the worker, or by the end of the event loop. Otherwise a CancelledError is an error of its code."""
        return self._cancelled or (self._task is not None and self._task.cancelling() > 0)

    async def _serve(self, actor: Actor) -> None:
        actor.__init__()  # type: ignore[misc]
        await actor.on_start()
        self.activation.finish_turn()
        while (mail := await self._next()) is not None:
            await self._handle(actor, mail)
        self.activation.begin_turn()
        await actor.on_stop()
        self.activation.finish_turn()
        while (mail := self.activation.take_last()) is not None:
            await self._handle(actor, mail)

    async def _next(self) -> Mail | None:
        await asyncio.sleep(0)
        await self._room()
        while not self._cancelled:
            mail = self.activation.take()
            if mail is not None or self.activation.ending is not None:
                return mail
            self._woken.clear()
            await self._woken.wait()
        return None

    async def _handle(self, actor: Actor, mail: Mail) -> None:
        """A turn that fails is undone, answered and logged; only one of an alarm ends the actor."""
        try:
            await self._call(actor, mail)
            self.activation.finish_turn()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:
            if self._is_interrupted or mail.kind is MailKind.ALARM:
                raise
            self.activation.fail_turn(told(error))
            if mail.kind is MailKind.CONNECT and mail.socket is not None:
                mail.socket.seen = False
                mail.socket.abort("on_connect failed", INTERNAL_ERROR)
            self._log_failure(mail, error)

    async def _call(self, actor: Actor, mail: Mail) -> None:
        match mail.kind:
            case MailKind.REQUEST:
                request = mail.request
                assert request is not None
                result = await actor.on_request(request)
                if result is not None or request.answer is None:
                    request.respond(b"" if result is None else result)
            case MailKind.CONNECT:
                socket = socket_of(mail)
                if socket.is_open:
                    await actor.on_connect(socket)
                    self.activation.met(socket)
            case MailKind.MESSAGE:
                socket = socket_of(mail)
                if not socket.closed_here:
                    await actor.on_message(socket, mail.message)
            case MailKind.DISCONNECT:
                await actor.on_disconnect(socket_of(mail))
            case MailKind.ALARM:
                await actor.on_alarm()
            case _:
                assert_never(mail.kind)

    def _log_failure(self, mail: Mail, error: BaseException) -> None:
        """A mistake of a client is no error of the actor's, and has no traceback."""
        if isinstance(error, InvalidRequest) and mail.kind is MailKind.REQUEST:
            LOG.info("%s: a request failed: %s", self, error)
        else:
            LOG.error("%s: %s failed; its changes are undone", self, mail.kind.value, exc_info=error)

    def _end_function_turn(self) -> None:
        activation = self.activation
        if activation.request is not None:
            activation.request.fail("the actor did not answer")
        try:
            activation.finish_turn()
        except InvalidRequest as error:
            LOG.error("%s: the changes of a request are undone: %s", self, error)
            activation.fail_turn(told(error))

    async def _settled(self) -> None:
        """All is saved."""
        saved = asyncio.Event()
        self.activation.settle(saved.set)
        await saved.wait()

    # Answers in pieces

    def _pump(self, stream: AnswerStream, content: AsyncIterable[bytes]) -> None:
        task = asyncio.create_task(self._run_pump(stream, content), name=f"an answer of {self}")
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)

    async def _run_pump(self, stream: AnswerStream, content: AsyncIterable[bytes]) -> None:
        try:
            await stream.run(content)
        except Exception:
            LOG.exception("%s: an answer broke off", self)

    # The end

    def _change(self) -> None:
        if self.activation.ending is not None:
            self.stopping.set()
        self._woken.set()

    def _refused(self, reason: str) -> None:
        LOG.warning("%s: a save was refused, and is tried again until it is not: %s", self, reason)

    def _fenced(self, reason: str) -> None:
        LOG.error("%s: a save was refused, because a later generation has begun: %s", self, reason)
        self._link.interrupt()

    def _over(self, *, failed: bool) -> None:
        for pump in list(self._pumps):
            pump.cancel()
        ending = self.activation.ended(failed=failed)
        self.activation.over("the actor has ended")
        self._ended(ending)

    def _complain(self) -> None:
        if self._task is not None and not self._task.done():
            told = "%s was cancelled %.0f s ago and has not ended; its next start here waits for it"
            LOG.error(told, self, COMPLAIN_S)


def takes_sockets(code: type[Actor]) -> bool:
    return code.on_message is not Actor.on_message or code.on_connect is not Actor.on_connect


def socket_of(mail: Mail) -> Socket:
    assert mail.socket is not None, "mail of this kind has a socket"
    return mail.socket


def told(error: BaseException) -> str:
    """What a client is told: an error's text may hold what is not meant for it, unless it is about the request."""
    return str(error) if isinstance(error, InvalidRequest) else f"the actor failed: {type(error).__name__}"
