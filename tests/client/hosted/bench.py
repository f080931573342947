"""An actor and the node's end of its connection, as a test plays it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from epoxy.client.hosted import ActorCode, ActorTask, Ending
from epoxy.client.hosted.actor_task import Code
from epoxy.client.hosted.link import FromActor, ToActor
from epoxy.model.envoy_messages import (
    ActorAsk,
    ActorRequest,
    Opened,
    Response,
    Saved,
    SaveRefused,
    SaveState,
    Start,
)
from epoxy.model.exchanges import RequestHead
from tests.protocol.placement.bench import Clock

PATIENCE_S = 20.0
START = Start(actor_id="01aa", generation=7, namespace="n", name="room", key="x", version=3)
UNIX_MS = 1_700_000_000_000

T = TypeVar("T")


class Link:
    """`sent`: what left the actor, saves among it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.sent: list[FromActor] = []
        self.streams: set[int] = set()
        self.calls: set[int] = set()
        self.interrupted = 0
        self.interrupt_code: Callable[[], None] = lambda: None
        self._calls = 0

    def send(self, message: FromActor) -> None:
        self.sent.append(message)

    def open(self, stream: int) -> None:
        self.streams.add(stream)

    def close(self, stream: int) -> None:
        self.streams.discard(stream)

    def new_call(self) -> int:
        self._calls += 1
        self.calls.add(self._calls)
        return self._calls

    def end_call(self, call: int) -> None:
        self.calls.discard(call)

    def interrupt(self) -> None:
        self.interrupted += 1
        self.interrupt_code()

    def of(self, kind: type[T]) -> list[T]:
        return [each for each in self.sent if isinstance(each, kind)]


class Stage:
    """One actor on an event loop. Its saves are answered when the test says so, or at once (`saving`)."""

    def __init__(
        self, code: Code, start: Start = START, *, sleep_after: float | None = None, saving: bool = False
    ) -> None:
        self.link = Link()
        self.ends: list[Ending] = []
        self.unix_ms = UNIX_MS
        self.saving = saving
        self.answered_saves = 0
        registered = ActorCode(code, sleep_after)
        self.task = ActorTask(registered, start, self.link, self.ends.append, unix_ms=lambda: self.unix_ms)
        self.link.interrupt_code = self.task.cancel
        self.task.begin()

    @property
    def state(self) -> dict[str, Any]:
        return dict(self.task.actor.state)

    @property
    def responses(self) -> list[Response]:
        return self.link.of(Response)

    def bodies(self) -> list[bytes]:
        return [each.body for each in self.responses]

    def ask(self, number: int, body: bytes = b"", **head: Any) -> None:
        made = RequestHead(**head) if head else None
        self.hear(ActorRequest(request_id=number, actor_id="01aa", generation=7, body=body, head=made))

    def open(self, stream: int, body: bytes = b"", *, fin: bool = False, **head: Any) -> None:
        made = RequestHead(**head)
        self.hear(Opened(stream=stream, actor_id="01aa", generation=7, head=made, body=body, fin=fin))

    def hear(self, message: ToActor) -> None:
        self.task.heard(message)

    @property
    def saves(self) -> list[SaveState]:
        return self.link.of(SaveState)

    def saved(self) -> None:
        """The last save is."""
        save = self.saves[-1]
        self.answered_saves = save.number
        self.hear(Saved(actor_id="01aa", generation=7, number=save.number, version=save.version + 1))

    def refuse_save(self, *, fenced: bool) -> None:
        save = self.saves[-1]
        self.answered_saves = save.number
        reason = "version 9 stands"
        self.hear(SaveRefused(actor_id="01aa", generation=7, number=save.number, reason=reason, fenced=fenced))

    @property
    def asks(self) -> list[ActorAsk]:
        return self.link.of(ActorAsk)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await self.turn()

    async def turn(self) -> None:
        await asyncio.sleep(0)
        if self.saving and self.saves and self.saves[-1].number > self.answered_saves:
            self.saved()

    async def quiet(self, turns: int = 12) -> None:
        """So many turns of the loop that all which can happen has happened."""
        for _ in range(turns):
            await self.turn()

    async def end(self) -> Ending:
        self.task.finish()
        await self.until(lambda: self.ends)
        return self.ends[0]


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await story()

    asyncio.run(main())


def restarted(stage: Stage, start: Start = START) -> Start:
    """With what it saved last."""
    save = stage.saves[-1]
    return replace(
        start,
        generation=start.generation + 1,
        state=save.document,
        version=save.version + 1,
        alarm_ms=save.alarm_ms,
    )
