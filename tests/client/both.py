"""The same story told to both clients: the blocking one, and the other one driven call by call."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from types import TracebackType
from typing import Any, Self

import uvloop

from epoxy import AsyncClient, Change, Client


class Driven:
    """An AsyncClient with the blocking client's face. Every call runs on one loop that rests in between."""

    loop_factory: Any = None

    def __init__(self, *urls: str, **settings: Any) -> None:
        self._runner = asyncio.Runner(loop_factory=self.loop_factory)
        self._client = self._runner.run(self._make(*urls, **settings))

    async def _make(self, *urls: str, **settings: Any) -> AsyncClient:
        return AsyncClient(*urls, **settings)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *given, **named: self._runner.run(method(*given, **named))

    def changes(self, *given: Any, **named: Any) -> Generator[Change, None, None]:
        arriving = self._client.changes(*given, **named)
        try:
            while True:
                yield self._runner.run(self._next(arriving))
        except StopAsyncIteration:
            return
        finally:
            self._runner.run(arriving.aclose())

    async def _next(self, arriving: AsyncGenerator[Change, None]) -> Change:
        return await anext(arriving)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()


class DrivenByUvloop(Driven):
    """Its transports are not quite asyncio's."""

    loop_factory = staticmethod(uvloop.new_event_loop)


BOTH = [Client, Driven, DrivenByUvloop]
