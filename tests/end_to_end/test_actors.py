"""Actors on a real cluster: one for a name, from any region and whatever process ends."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from epoxy import AsyncClient, Client, EpoxyError
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.client.actor_calls import Which
from epoxy.envoy import Actor, Worker
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.world import regions

T = TypeVar("T")

CALLERS = 40
"""In each of five regions."""

LOOK_S = 0.05


def code(worker: Worker) -> None:
    @worker.actor("room")
    async def room(actor: Actor) -> None:
        asked = 0
        async for request in actor:
            asked += 1
            if request.body == b"fail":
                raise RuntimeError("as asked")
            if request.body == b"end":
                request.respond(b"bye")
                return
            request.respond(f"{actor.key} on {worker.key}, {asked}: {request.text}")


@asynccontextmanager
async def working(url: str, pool: str, key: str) -> AsyncIterator[Worker]:
    worker = Worker(url, pool=pool, key=key)
    code(worker)
    task = asyncio.create_task(worker.serve())
    try:
        await asyncio.wait_for(worker.connected.wait(), PATIENCE_S)
        yield worker
    finally:
        worker.drain()
        worker.drain()
        await asyncio.wait_for(task, PATIENCE_S)


async def persistent(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeats a request whose outcome is unknown, or that cannot be served now."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await ask()
            except EpoxyError:
                await asyncio.sleep(LOOK_S)


def run(story: Coroutine[None, None, None]) -> None:
    asyncio.run(story)


def test_two_hundred_callers_in_five_regions_get_one_actor(tmp_path: Path) -> None:
    async def story(cluster: DemoCluster) -> None:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(AsyncClient(node.url, timeout=PATIENCE_S, max_connections=CALLERS))
                for node in cluster.nodes
            ]
            actors = [client.actors for client in clients]
            ask = [partial(each.get_or_create, "room", "lobby", pool="five") for each in actors]
            found = await asyncio.gather(*(persistent(each) for each in ask for _ in range(CALLERS)))
            assert len(found) == 200
            assert len({(each.id, each.datacenter) for each in found}) == 1
            assert [each.created for each in found].count(True) <= 1, (
                "the client that created it may have had to ask again"
            )
            owner = next(node for node in cluster.nodes if node.datacenter == found[0].datacenter)
            async with working(owner.url, "five", "w1"):
                which = Which(name="room", key="lobby")
                for each in actors:
                    told = await persistent(partial(each.request, which, b"hi"))
                    assert told.startswith(b"lobby on w1, ")
                owner.kill()
                owner.start()
                again = await persistent(lambda: actors[0].request(which, b"again"))
                assert again.endswith(b": again")
                same = await persistent(ask[-1])
                assert (same.id, same.created) == (found[0].id, False)

    with regions(tmp_path, 5) as cluster:
        run(story(cluster))


def test_actors_move_when_their_worker_leaves(trio: DemoCluster) -> None:
    async def story() -> None:
        url = trio.nodes[0].url
        which = Which(name="room", key="moving")
        async with AsyncClient(url, timeout=PATIENCE_S) as client, working(url, "moving", "stays"):
            actors = client.actors
            async with working(url, "moving", "leaves") as leaving:
                await actors.get_or_create("room", "moving", pool="moving")
                await persistent(lambda: actors.request(which, b"hi"))
                leaving.drain()
            after = await persistent(lambda: actors.request(which, b"still there?"))
            assert b"on stays" in after
            first = await actors.get(which)
            assert await persistent(lambda: actors.request(which, b"end")) == b"bye"
            async with asyncio.timeout(PATIENCE_S):
                while await actors.get(which) is not None:
                    await asyncio.sleep(LOOK_S)
            made = await actors.get_or_create("room", "moving", pool="moving")
            assert first is not None
            assert made.created
            assert made.id != first.id, "another actor under the same name"

    run(story())


def test_an_actor_that_fails_is_started_again(trio: DemoCluster) -> None:
    async def story() -> None:
        url = trio.nodes[1].url
        which = Which(name="room", key="failing")
        async with AsyncClient(url, timeout=PATIENCE_S) as client, working(url, "failing", "w"):
            actors = client.actors
            await actors.get_or_create("room", "failing", pool="failing")
            await persistent(lambda: actors.request(which, b"hi"))
            made = await actors.get(which)
            assert made is not None
            with pytest.raises(EpoxyError) as caught:
                await actors.request(which, b"fail")
            assert not caught.value.definite
            told = await persistent(lambda: actors.request(which, b"hi"))
            assert told.startswith(b"failing on w, ")
            again = await actors.get(which)
            assert again is not None
            assert again.id == made.id
            assert again.generation > made.generation
            gone = await actors.destroy(which)
            assert gone is not None
            assert gone.state == "destroyed"
            assert await actors.get(which) is None

    run(story())


WORKER = """
import sys
from epoxy.envoy import Worker
worker = Worker(sys.argv[1], pool="killed", key=sys.argv[2])
@worker.actor("room")
async def room(actor):
    async for request in actor:
        request.respond(worker.key)
worker.run()
"""


def test_an_actor_whose_worker_is_killed_goes_on_elsewhere(trio: DemoCluster) -> None:
    """The node waits until it may be sure: ten seconds, by default."""
    url = trio.nodes[2].url
    which = Which(name="room", key="killed")
    first, second = (subprocess.Popen([sys.executable, "-c", WORKER, url, key]) for key in ("first", "second"))

    async def story() -> None:
        async with AsyncClient(url, timeout=PATIENCE_S) as client:
            ask = partial(client.actors.request, which, b"who?")
            at_first = (await persistent(partial(client.actors.request, which, b"who?", pool="killed"))).decode()
            victim, heir = (first, "second") if at_first == "first" else (second, "first")
            async with asyncio.timeout(PATIENCE_S):
                while len(await asyncio.to_thread(envoys, url)) < 2:
                    await asyncio.sleep(LOOK_S)
            victim.kill()
            assert await persistent(ask) == heir.encode()

    try:
        run(story())
        for process in (first, second):
            process.terminate()
        assert sorted(process.wait(PATIENCE_S) for process in (first, second)) == [-9, 0]
    finally:
        for process in (first, second):
            process.kill()
            process.wait(PATIENCE_S)


def envoys(url: str) -> list[str]:
    with Client(url, timeout=PATIENCE_S) as client:
        return [each.key for each in client.actors.envoys(pool="killed")]
