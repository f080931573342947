"""A worker against a node that says what it is told to."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from epoxy.client import worker as module
from epoxy.envoy import Actor, Worker
from epoxy.testing import free_ports

PATIENCE_S = 60.0
WELCOME = {"type": "welcome", "datacenter": "dc", "ping_every_ms": 3_600_000, "lost_after_ms": 3_600_000}
START = {"type": "start", "actor_id": "01aa", "generation": 1, "namespace": "n", "name": "room", "key": "x"}

Script = Callable[[ServerConnection, Worker], Awaitable[None]]


async def heard(socket: ServerConnection) -> dict[str, Any]:
    """The next word that is not a ping."""
    while True:
        word: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))
        if word["type"] != "ping":
            return word


def play(*scripts: Script) -> None:
    """One script for each connection the worker makes; then it ends."""

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
                async for request in actor:
                    request.respond(request.body)

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
    assert len(worker.actors) == 1


def test_what_it_runs_is_said_again_and_what_ends_before_the_welcome_is_told() -> None:
    async def again(socket: ServerConnection, worker: Worker) -> None:
        hello = await heard(socket)
        assert [(each["actor_id"], each["generation"]) for each in hello["running"]] == [("01aa", 1)]
        worker.actors[0].cancel()
        told = await heard(socket)
        assert told == {"type": "stopped", "actor_id": "01aa", "generation": 1, "failed": True}
        assert not worker.connected.is_set()

    play(begin, again)


def test_a_stop_of_an_older_start_does_not_stop_what_runs() -> None:
    async def story(socket: ServerConnection, worker: Worker) -> None:
        await begin(socket, worker)
        await socket.send(json.dumps(START | {"generation": 2}))
        assert (await heard(socket)) == {"type": "running", "actor_id": "01aa", "generation": 2}
        await socket.send(json.dumps({"type": "stop", "actor_id": "01aa", "generation": 1}))
        await socket.send(json.dumps(START))
        seen = [await heard(socket) for _ in range(2)]
        assert {"type": "running", "actor_id": "01aa", "generation": 2} in seen, "the older start changes nothing"
        assert [actor.generation for actor in worker.actors] == [2]
        await socket.send(json.dumps({"type": "stop", "actor_id": "01aa", "generation": 2}))
        while (word := await heard(socket)) != {
            "type": "stopped",
            "actor_id": "01aa",
            "generation": 2,
            "failed": False,
        }:
            assert word["type"] in ("running", "stopped")

    play(story)


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
