"""A worker that says what a test tells it to, in the messages of the protocol."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from websockets.asyncio.client import ClientConnection, connect

from epoxy.codec.envoy_frames import batch, to_envoy
from epoxy.model.envoy_messages import EnvoyHello, FromEnvoy, Ping, Pong, Running, Start, ToEnvoy, Welcome
from epoxy.model.exchanges import Head

T = TypeVar("T", bound=ToEnvoy)


class SpokenWorker:
    """Runs every actor that it is given, and keeps all else that it hears for the test."""

    def __init__(self, wire: ClientConnection) -> None:
        self._wire = wire
        self._heard: asyncio.Queue[ToEnvoy] = asyncio.Queue()
        self.starts: list[Start] = []

    async def say(self, *words: FromEnvoy) -> None:
        await self._wire.send(batch(words))

    async def read(self) -> None:
        async for frame in self._wire:
            assert isinstance(frame, bytes)
            for word in to_envoy.read(frame, text=False):
                if isinstance(word, Start):
                    self.starts.append(word)
                    await self.say(Running(actor_id=word.actor_id, generation=word.generation))
                elif not isinstance(word, Pong | Welcome):
                    self._heard.put_nowait(word)

    async def next(self, kind: type[T]) -> T:
        word = await self._heard.get()
        assert isinstance(word, kind), word
        return word

    @property
    def is_idle(self) -> bool:
        return self._heard.empty()

    async def accept(self, stream: int, protocol: str = "") -> None:
        await self.say(Head(stream=stream, status=101, protocol=protocol))


@asynccontextmanager
async def spoken_worker(url: str, key: str = "spoken", **headers: str) -> AsyncIterator[SpokenWorker]:
    address = url.replace("http", "ws", 1) + "/v2/envoys/connect"
    async with connect(address, max_size=None, additional_headers=headers) as wire:
        worker = SpokenWorker(wire)
        await worker.say(EnvoyHello(namespace="default", pool="default", envoy_key=key), Ping(sent_ms=0))
        task = asyncio.create_task(worker.read())
        try:
            yield worker
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
