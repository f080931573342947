"""Real clients, real replicas: redis-py at the doors of a cluster in one process."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import ResponseError

from epoxy.protocol.effects import Timing
from tests.api.resp.resp_world import Cluster, cluster, run

PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])
Story = Callable[[Cluster, list["redis.asyncio.Redis"]], Coroutine[Any, Any, None]]


def at_every_door(story: Story, protocol: int, n: int = 3) -> None:
    """A client for each replica."""

    async def told() -> None:
        async with cluster(n) as (built, ports):
            clients = [redis.asyncio.Redis(port=port, protocol=protocol) for port in ports]
            try:
                await story(built, clients)
            finally:
                for client in clients:
                    await client.aclose()

    run(told)


async def asked(client: redis.asyncio.Redis, *command: str) -> object:
    return await client.execute_command(*command)  # type: ignore[no-untyped-call]


@PROTOCOLS
def test_a_name_is_taken_once(protocol: int) -> None:
    async def story(built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, elsewhere = clients
        assert await asked(here, "RESERVE", "name", "ada") == b"OK"
        assert await asked(there, "RESERVE", "name", "ada") == b"OK", "as often as it is asked for"
        assert await asked(elsewhere, "RESERVE", "name", "bob") == b"ada"
        assert await elsewhere.setnx("name", "bob") == 0
        assert await there.set("name", "bob", nx=True, get=True) == b"ada"
        for client in clients:
            assert await client.get("name") == b"ada"
            with pytest.raises(ResponseError, match=r"IMMUTABLE .* reserved for ever"):
                await client.set("name", "bob")
            with pytest.raises(ResponseError, match="reserved for ever"):
                await client.delete("name")
        messages = built.messages
        assert await here.setnx("name", "ada") == 0
        assert await here.mget("name", "name") == [b"ada", b"ada"]
        assert built.messages == messages

    at_every_door(story, protocol)


@PROTOCOLS
def test_a_key_is_created_once_until_it_is_deleted(protocol: int) -> None:
    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there = clients[:2]
        for _round in range(3):
            assert await here.set("lock", "ada", nx=True, px=60_000) is True
            assert await there.set("lock", "ada", nx=True) is None
            assert await there.set("lock", "bob", nx=True, get=True) == b"ada"
            assert await there.delete("lock") == 1
        assert await there.set("lock", "bob", nx=True, get=True) is None
        assert await here.getset("lock", "cy") == b"bob"

    at_every_door(story, protocol)


@PROTOCOLS
def test_a_race_has_one_winner_and_everybody_learns_who(protocol: int) -> None:
    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        for round_ in range(10):
            key = f"race {round_}"
            won = await asyncio.gather(*(client.setnx(key, f"{i}") for i, client in enumerate(clients)))
            assert sum(map(int, won)) == 1
            winners = await asyncio.gather(*(client.set(key, "late", nx=True, get=True) for client in clients))
            assert set(winners) == {str([int(each) for each in won].index(1)).encode()}

    at_every_door(story, protocol)


@PROTOCOLS
def test_mutable_keys(protocol: int) -> None:
    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        here, there, elsewhere = clients
        assert await here.set("k", "1") is True
        assert await there.getset("k", "2") == b"1"
        assert await elsewhere.set("k", "3", get=True) == b"2"
        assert await here.delete("k", "never") == 1
        assert await there.set("k", "4", get=True) is None
        assert await here.delete("k") == 1
        assert await there.setnx("k", "for ever") == 1
        for client in clients:
            await asked(client, "READCONSISTENT")
            assert await client.get("k") == b"for ever"
            assert await client.exists("k", "never") == 1
            assert await client.ttl("k") == -1

    at_every_door(story, protocol)


@PROTOCOLS
def test_nobody_counts_the_same_number_twice(protocol: int) -> None:
    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        async def count(client: redis.asyncio.Redis) -> list[int]:
            return [await client.incr("n") for _ in range(10)]

        counted = await asyncio.gather(*map(count, clients))
        assert sorted(number for each in counted for number in each) == list(range(1, 31))
        assert await clients[0].decrby("n", 30) == 0

    at_every_door(story, protocol)


def test_forty_eight_clients_of_one_node_count_without_a_refusal() -> None:
    """Other writers of the key at the same node take their turns between them."""
    connections, each = 48, 5

    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        async def count(by: int) -> list[int]:
            async with redis.asyncio.Redis(port=clients[0].connection_pool.connection_kwargs["port"]) as client:
                return [await client.incrby("n", by) for _ in range(each)]

        counted = await asyncio.gather(*(count(1) for _ in range(connections)))
        assert sorted(number for numbers in counted for number in numbers) == list(range(1, connections * each + 1))
        await asyncio.gather(*(count(-1) for _ in range(connections)))
        assert await clients[0].get("n") == b"0"
        at_once = [*(count(1) for _ in range(connections)), *(clients[0].getset("n", "1000") for _ in range(each))]
        await asyncio.gather(*at_once)
        await asked(clients[1], "READCONSISTENT")
        assert 1000 <= int(await clients[1].get("n") or 0) <= 1000 + connections * each

    at_every_door(story, 2)


@PROTOCOLS
def test_a_pipeline_reads_as_if_it_ran_in_order(protocol: int) -> None:
    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        pipeline = clients[0].pipeline(transaction=False)
        for i in range(30):
            pipeline.set(f"k{i % 3}", f"{i}")
            pipeline.get(f"k{i % 3}")
            pipeline.incr("n")
        replies = await pipeline.execute()
        assert replies == [reply for i in range(30) for reply in (True, b"%d" % i, i + 1)]

    at_every_door(story, protocol)


@PROTOCOLS
def test_transactions_as_redis_py_sends_them(protocol: int) -> None:
    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        pipeline = clients[0].pipeline(transaction=True)
        pipeline.set("a", "10")
        pipeline.decrby("a", 3)
        pipeline.incrby("b", 3)
        pipeline.mget("a", "b")
        assert await pipeline.execute() == [True, 7, 3, [b"7", b"3"]]
        assert await clients[0].get("a") == b"7"
        async with clients[1].pipeline(transaction=True) as watching:
            await watching.watch("b")
            changed = clients[0].pipeline(transaction=True)
            changed.incrby("b", 1)
            assert await changed.execute() == [4]
            watching.multi()  # type: ignore[no-untyped-call]
            watching.set("b", "9")
            with pytest.raises(redis.WatchError):
                await watching.execute()

    at_every_door(story, protocol)


@PROTOCOLS
def test_without_a_quorum_nothing_is_claimed(protocol: int) -> None:
    async def story(built: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        await clients[0].setnx("name", "ada")
        built.down = {2, 3}
        built.nodes[1].driver.timing = Timing(retries=1)
        assert await clients[0].get("name") == b"ada"
        with pytest.raises(redis.RedisError, match="outcome unknown"):
            await clients[0].setnx("another", "ada")
        with pytest.raises(redis.RedisError, match="cannot be read now"):
            await clients[0].get("another")

    at_every_door(story, protocol)


@PROTOCOLS
def test_what_tools_ask_for(protocol: int) -> None:
    async def story(_: Cluster, clients: list[redis.asyncio.Redis]) -> None:
        client = clients[0]
        for i in range(25):
            await client.set(f"key:{i:02}", "v")
        assert sorted([key async for key in client.scan_iter(match="key:0*", count=3)]) == [
            b"key:%02d" % i for i in range(10)
        ]
        assert await client.dbsize() == 25
        assert (await client.info())["datacenter"] == "dc-1"
        assert (await client.config_get("databases")) == {"databases": "1"}
        assert await client.client_id() >= 1
        assert await client.client_setname("ada")
        (listed,) = await client.client_list()
        assert listed["name"] == "ada"
        assert listed["addr"].startswith("127.0.0.1:")
        assert "get" in await client.command()
        assert await client.command_count() == len(await client.command())

    at_every_door(story, protocol)


@PROTOCOLS
def test_the_client_that_blocks(protocol: int) -> None:
    def from_a_thread(port: int) -> None:
        with redis.Redis(port=port, protocol=protocol, client_name="blocking") as client:
            assert client.ping()
            assert client.set("k", "v", nx=True) is True
            assert client.set("k", "v", nx=True) is None
            assert client.get("k") == b"v"
            assert client.client_getname() in ("blocking", b"blocking")  # Its own affair, by protocol.
            with pytest.raises(ResponseError, match="invalid expire time in 'set' command"):
                client.set("k", "v", ex=0)

    async def told() -> None:
        async with cluster() as (_, ports):
            await asyncio.to_thread(from_a_thread, ports[0])

    run(told)
