"""Code of users, which `make lint` checks with mypy --strict: both forms of actors, and what must not pass."""

import asyncio
from collections.abc import AsyncIterator
from typing import assert_type

import pytest

from epoxy.envoy import Actor, InvalidRequest, Request, Response, Socket, Worker
from tests.client.hosted.bench import Stage, play

worker = Worker("http://127.0.0.1:9", pool="chat", slots=100, version=3)


@worker.actor("room", sleep_after=60.0, storage="local")
class Room(Actor):
    def __init__(self) -> None:
        self.typing: set[str] = set()

    async def on_start(self) -> None:
        self.state.setdefault("history", [])

    async def on_request(self, request: Request) -> Response | dict[str, int]:
        if request.method == "GET":
            return Response(self.lines(), headers={"content-type": "text/plain"})
        assert_type(request.headers.get("x"), str | None)
        return {"count": len(self.state["history"])}

    async def lines(self) -> AsyncIterator[bytes]:
        for line in self.state["history"]:
            yield line.encode()

    async def on_message(self, socket: Socket, message: str | bytes) -> None:  # noqa: ARG002
        self.state["history"].append(str(message))
        for each in self.sockets.values():
            assert_type(each, Socket)
            each.send(message)

    async def on_alarm(self) -> None:
        answer = await self.call("other", "key", {"a": 1}, timeout=1.0)
        assert_type(answer, Response)
        assert_type(answer.body, bytes)
        self.alarm(None)


class Text(Actor):
    async def on_request(self, request: Request) -> str:
        return request.text


@worker.actor("echo")
async def echo(actor: Actor) -> None:
    async for request in actor:
        assert_type(request, Request)
        request.respond(request.body)


def test_both_forms_are_registered_as_they_are() -> None:
    assert isinstance(Room, type)
    assert asyncio.iscoroutinefunction(echo)
    room, registered = worker._codes["room"], worker._codes["echo"]
    assert (room.code, room.sleep_after, room.local) == (Room, 60.0, True)
    assert (registered.code, registered.sleep_after, registered.local) == (echo, None, False)


def test_what_is_no_actor_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="not derived from"):
        worker.actor("x")(int)  # type: ignore[type-var]
    with pytest.raises(InvalidRequest, match="'replicated' or 'local'"):
        worker.actor("x", storage="disk")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="above 0"):
        worker.actor("x", sleep_after=0)
    with pytest.raises(InvalidRequest, match="1 to 255 bytes"):
        worker.actor("")


def test_what_users_write_runs() -> None:
    async def story() -> None:
        stage = Stage(Room, saving=True)
        stage.ask(1, b"hi")
        await stage.until(lambda: stage.responses)
        assert stage.bodies() == [b'{"count":0}']

    play(story)
