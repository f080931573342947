"""A worker against a node that says what it is told to."""

import asyncio
import base64
import contextlib
import json
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as Upgrade
from websockets.http11 import Response as Refusal

from epoxy import Forbidden, Unauthenticated
from epoxy.client import outbox
from epoxy.client import worker as module
from epoxy.client.hosted import ActorCode
from epoxy.codec.envoy_frames import batch, from_envoy, text_frame
from epoxy.envoy import Actor, Worker
from epoxy.model.envoy_messages import ActorRequest, FromEnvoy, Stop
from epoxy.testing import free_ports

PATIENCE_S = 60.0
WELCOME = {"type": "welcome", "datacenter": "dc", "ping_every_ms": 20, "lost_after_ms": 3_600_000}
"""It pings all the time, and is not lost because the machine is slow."""

START = {"type": "start", "actor_id": "01aa", "generation": 1, "namespace": "n", "name": "room", "key": "x"}

STOPPED = {"type": "stopped", "actor_id": "01aa", "generation": 1, "failed": False, "cancelled": False} | {
    "asleep": False,
    "sockets": [],
    "destroyed": False,
}

Script = Callable[[ServerConnection, Worker], Awaitable[None]]


UNREAD: "WeakKeyDictionary[ServerConnection, list[FromEnvoy]]" = WeakKeyDictionary()
"""Of batches that were received."""


async def any_word(socket: ServerConnection) -> dict[str, Any]:
    unread = UNREAD.setdefault(socket, [])
    while not unread:
        frame = await asyncio.wait_for(socket.recv(), PATIENCE_S)
        assert isinstance(frame, bytes)
        unread += from_envoy.read(frame, text=False)
    word: dict[str, Any] = json.loads(text_frame(unread.pop(0)))
    return word


async def heard(socket: ServerConnection) -> dict[str, Any]:
    """The next word that is not a ping."""
    while True:
        word = await any_word(socket)
        if word["type"] != "ping":
            return word


async def at_once(_: Actor) -> None:
    """Nothing to clean up."""


def play(*scripts: Script, cleaned_up: Callable[[Actor], Awaitable[None]] = at_once) -> None:
    """One script for each connection the worker makes; then it ends. Its actors answer with what they are asked."""

    async def main() -> None:
        left = list(scripts)
        over = asyncio.Event()
        failed: list[BaseException] = []

        async def connected(socket: ServerConnection) -> None:
            try:
                if left:
                    await left.pop(0)(socket, worker)
            except BaseException as error:
                failed.append(error)
            finally:
                if not left or failed:
                    over.set()

        async with serve(connected, "127.0.0.1", 0) as server:
            worker = Worker(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", key="w")

            @worker.actor("room")
            async def room(actor: Actor) -> None:
                try:
                    async for request in actor:
                        request.respond(request.text)
                finally:
                    await cleaned_up(actor)

            task = asyncio.create_task(worker.serve())
            await asyncio.wait_for(over.wait(), PATIENCE_S)
            worker.drain()
            worker.drain()
            await asyncio.wait_for(task, PATIENCE_S)
        assert failed == []

    asyncio.run(main())


async def begin(socket: ServerConnection, worker: Worker) -> None:
    assert (await heard(socket))["running"] == []
    await socket.send(json.dumps(WELCOME))
    await socket.send(json.dumps(START))
    assert (await heard(socket))["type"] == "running"
    assert [each.datacenter for each in worker.actors] == ["dc"]


def test_what_it_runs_is_said_again_and_what_ends_before_the_welcome_is_told() -> None:
    async def again(socket: ServerConnection, worker: Worker) -> None:
        hello = await heard(socket)
        assert [(each["actor_id"], each["generation"]) for each in hello["running"]] == [("01aa", 1)]
        worker.actors[0]._task.cancel()
        told = await heard(socket)
        assert told == STOPPED | {"failed": True}
        assert not worker.connected.is_set()

    play(begin, again)


def test_a_stop_of_an_older_start_does_not_stop_what_runs() -> None:
    async def story(socket: ServerConnection, worker: Worker) -> None:
        await begin(socket, worker)
        await socket.send(json.dumps(START | {"generation": 2}))
        assert (await heard(socket)) == STOPPED | {"failed": True, "cancelled": True}
        assert (await heard(socket)) == {"type": "running", "actor_id": "01aa", "generation": 2}
        await socket.send(json.dumps({"type": "stop", "actor_id": "01aa", "generation": 1}))
        await socket.send(json.dumps(START))
        running = {"type": "running", "actor_id": "01aa", "generation": 2}
        assert (await heard(socket)) == running, "neither the older stop nor the older start changes anything"
        assert [actor.generation for actor in worker.actors] == [2]
        await socket.send(json.dumps({"type": "stop", "actor_id": "01aa", "generation": 2}))
        assert (await heard(socket)) == STOPPED | {"generation": 2}

    play(story)


def test_a_busy_worker_pings() -> None:
    async def story(socket: ServerConnection, worker: Worker) -> None:
        await begin(socket, worker)
        pings = 0
        while pings < 3:
            await socket.send(json.dumps(asked(1, b"hi")))
            answered = False
            while not answered:
                word = await any_word(socket)
                answered, pings = word["type"] == "response", pings + (word["type"] == "ping")

    play(story)


def asked(number: int, body: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(body).decode()
    return {"type": "request", "request_id": number, "actor_id": "01aa", "generation": 1, "body": encoded}


def test_a_batch_of_its_node_is_taken_in_order() -> None:
    async def story(socket: ServerConnection, worker: Worker) -> None:
        await begin(socket, worker)
        stops = [Stop(actor_id=f"{number:02x}", generation=1) for number in range(2, 20)]
        await socket.send(batch(stops))
        assert [(await heard(socket))["actor_id"] for _ in stops] == [stop.actor_id for stop in stops]

    play(story)


def test_a_worker_that_cannot_send_gives_up_the_connection_and_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left out silently."""

    async def story(socket: ServerConnection, worker: Worker) -> None:
        await begin(socket, worker)
        monkeypatch.setattr(outbox, "MAX_BYTES", 100)
        await socket.send(json.dumps(asked(1, b"x" * 200)))
        await socket.wait_closed()
        monkeypatch.undo()

    async def again(socket: ServerConnection, _: Worker) -> None:
        assert len((await heard(socket))["running"]) == 1, "its actor went on"

    play(story, again)
    assert "the connection is given up: " in caplog.text


def test_another_worker_like_one_has_its_code_and_other_settings() -> None:
    one = Worker("http://127.0.0.1:9", pool="chat", slots=3, key="one")
    code = one.actor("room")(at_once)
    other = one.like("http://127.0.0.1:10", key="other", version=2)
    hello = other._protocol.hello
    assert (hello.pool, hello.slots, hello.envoy_key, hello.version) == ("chat", 3, "other", 2)
    assert (other._codes, other._address) == ({"room": ActorCode(code)}, "ws://127.0.0.1:10/v2/envoys/connect")
    assert one._protocol.hello.version == 1


def test_a_new_generation_waits_until_the_old_one_has_cleaned_up() -> None:
    cleaning, may_go_on = asyncio.Event(), asyncio.Event()

    async def clean_up(actor: Actor) -> None:
        if actor.generation == 1:
            cleaning.set()
            await may_go_on.wait()

    async def story(socket: ServerConnection, worker: Worker) -> None:
        await begin(socket, worker)
        await socket.send(json.dumps(START | {"generation": 2}))
        await socket.send(json.dumps(asked(7, b"hi") | {"generation": 2}))
        assert (await heard(socket))["refused"], "the second generation does not run yet"
        await asyncio.wait_for(cleaning.wait(), PATIENCE_S)
        assert [actor.generation for actor in worker.actors] == [1]
        may_go_on.set()
        assert (await heard(socket)) == STOPPED | {"failed": True, "cancelled": True}
        assert (await heard(socket)) == {"type": "running", "actor_id": "01aa", "generation": 2}

    play(story, cleaned_up=clean_up)


def test_a_request_that_is_not_text_fails_alone() -> None:
    async def story(socket: ServerConnection, worker: Worker) -> None:
        await begin(socket, worker)
        await socket.send(json.dumps(asked(1, b"caf\xe9")))
        await socket.send(json.dumps(asked(2, b"tea")))
        first, second = await heard(socket), await heard(socket)
        assert (first["request_id"], first["error"], first["refused"]) == (1, True, False)
        assert base64.b64decode(first["body"]) == b"the request is not UTF-8, at byte 3"
        assert (second["request_id"], second["error"]) == (2, False)
        assert len(worker.actors) == 1

    play(story)


def test_what_waits_when_an_actor_ends_was_not_seen() -> None:
    async def clean_up(_: Actor) -> None:
        await asyncio.sleep(0)

    async def story(socket: ServerConnection, worker: Worker) -> None:
        await begin(socket, worker)
        (actor,) = worker.actors
        actor._task.heard(ActorRequest(request_id=5, actor_id="01aa", generation=1, body=b""))
        actor._task.cancel()
        told = await heard(socket)
        assert (told["request_id"], told["error"], told["refused"]) == (5, True, True)
        assert (await heard(socket))["type"] == "stopped"

    play(story, cleaned_up=clean_up)


def test_a_node_that_does_not_answer_is_left_and_tried_again() -> None:
    """A connection may be dead and look open; and what runs here is about to be started elsewhere."""

    async def silent(socket: ServerConnection, _: Worker) -> None:
        assert (await heard(socket))["running"] == []
        await socket.send(json.dumps(WELCOME | {"lost_after_ms": 200}))
        await socket.send(json.dumps(START))
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.recv()

    async def again(socket: ServerConnection, worker: Worker) -> None:
        assert (await heard(socket))["type"] == "hello"
        await socket.send(json.dumps(WELCOME))
        async with asyncio.timeout(PATIENCE_S):
            while worker.actors:
                await asyncio.sleep(0)

    play(silent, again)


def test_a_node_that_is_not_there_is_told_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any settings of logs people see warnings and no more."""
    monkeypatch.setattr(module, "SHORTEST_PAUSE_S", 0.0)
    (port,) = free_ports(1)

    async def main() -> None:
        worker = Worker(f"http://127.0.0.1:{port}")
        task = asyncio.create_task(worker.serve())
        async with asyncio.timeout(PATIENCE_S):
            while len(caplog.records) < 3:
                await asyncio.sleep(0)
        worker.drain()
        await asyncio.wait_for(task, PATIENCE_S)

    with caplog.at_level(logging.INFO, "epoxy.envoy"):
        asyncio.run(main())
    assert [record.levelno for record in caplog.records][:3] == [logging.WARNING, logging.INFO, logging.INFO]
    assert f"not connected to ws://127.0.0.1:{port}/v2/envoys/connect, trying again" in caplog.text


def test_a_process_is_named_when_it_serves() -> None:
    """One that makes a worker and forks has children with identities of their own."""
    named = []

    async def story(socket: ServerConnection, _: Worker) -> None:
        named.append((await heard(socket))["incarnation"])

    play(story)
    play(story)
    assert Worker("http://127.0.0.1:9")._protocol.hello.incarnation == "", "not when it is made"
    assert [each.split("/")[1] for each in named] == [str(os.getpid())] * 2
    assert len(set(named)) == 2


def port_of(server: Server) -> int:
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port


def refuse_unless(tokens: list[str], code: str = "unauthenticated") -> Callable[[ServerConnection, Upgrade], Any]:
    """Answers of a node that knows these tokens alone."""
    body = json.dumps({"error": {"code": code, "message": "no", "definite": True}}).encode()

    def check(_: ServerConnection, request: Upgrade) -> Refusal | None:
        if request.headers.get("Authorization") in [f"Bearer {token}" for token in tokens]:
            return None
        status = 401 if code == "unauthenticated" else 403
        headers = {"Content-Type": "application/json", "Epoxy-Error": code, "Content-Length": str(len(body))}
        return Refusal(status, "No", Headers(headers), body)

    return check


@pytest.mark.parametrize(("code", "expected"), [("unauthenticated", Unauthenticated), ("forbidden", Forbidden)])
def test_a_worker_that_is_refused_at_first_ends(
    code: str, expected: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    async def never(_: ServerConnection) -> None:
        raise AssertionError

    async def main() -> None:
        async with serve(never, "127.0.0.1", 0, process_request=refuse_unless([], code)) as server:
            worker = Worker(f"http://127.0.0.1:{port_of(server)}", token="epx_hidden")
            with pytest.raises(expected, match=rf"no \({code}\)") as caught:
                await asyncio.wait_for(worker.serve(), PATIENCE_S)
            assert "epx_hidden" not in str(caught.value)

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    ours = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
    assert "epx_hidden" not in "".join(ours), "the fake's own log has it"


def test_a_worker_that_was_welcome_tries_on_with_the_token_its_file_has_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its token is replaced while it is connected."""
    monkeypatch.setattr(module, "SHORTEST_PAUSE_S", 0.0)
    file = tmp_path / "token"
    file.write_text("epx_old\n")
    known, seen = ["epx_old"], []

    async def main() -> None:
        async def connected(socket: ServerConnection) -> None:
            assert socket.request is not None
            seen.append(socket.request.headers["Authorization"])
            await heard(socket)
            await socket.send(json.dumps(WELCOME))
            await asyncio.wait_for(worker.connected.wait(), PATIENCE_S)
            if len(seen) == 1:
                known[:] = ["epx_new"]
                file.write_text("epx_new\n")
            else:
                worker.drain()
                await socket.wait_closed()

        async with serve(connected, "127.0.0.1", 0, process_request=refuse_unless(known)) as server:
            worker = Worker(f"http://127.0.0.1:{port_of(server)}", token=file)
            await asyncio.wait_for(worker.serve(), PATIENCE_S)

    asyncio.run(main())
    assert seen == ["Bearer epx_old", "Bearer epx_new"]


def test_a_planted_fault_a_token_in_the_log_is_found(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's own logger."""
    monkeypatch.setattr(module, "QUIET", logging.getLogger("websockets.client"))
    with pytest.raises(AssertionError, match="the fake's own log has it"):
        test_a_worker_that_is_refused_at_first_ends("forbidden", Forbidden, caplog)
