"""EVAL, EVALSHA and SCRIPT with real replicas, and the locks of redis-py as they are."""

import asyncio
from typing import Any

import pytest
import redis.asyncio
from redis.exceptions import LockError, NoScriptError, ResponseError

from epoxy.codec.resp import integer
from tests.api.resp.resp_world import Cluster, proposal, run, until, world
from tests.api.resp.test_clients import PROTOCOLS, at_every_door

COUNT = "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end return n"


async def evaluated(client: "redis.asyncio.Redis", source: str, *given: str) -> Any:
    return await client.eval(source, 1, "k", *given)


@PROTOCOLS
def test_a_script_is_one_write_of_its_key(protocol: int) -> None:
    async def story(_: Cluster, clients: list["redis.asyncio.Redis"]) -> None:
        counted = await asyncio.gather(*(evaluated(client, COUNT, "60000") for client in clients * 5))
        assert sorted(counted) == list(range(1, 16))
        here, there, _elsewhere = clients
        assert await evaluated(here, "return redis.call('GET', KEYS[1])") == b"15"
        assert await evaluated(there, "return {1, 'x', false, {ok = 'fine'}, {2}}") == [1, b"x", None, b"fine", [2]]
        assert await evaluated(here, "return redis.call('DEL', KEYS[1])") == 1
        assert await evaluated(there, "return redis.call('GET', KEYS[1])") is None
        assert await here.eval("return {#KEYS, ARGV[1]}", 0, "x") == [0, b"x"]
        assert await here.eval_ro("return redis.call('EXISTS', KEYS[1])", 1, "k") == 0

    at_every_door(story, protocol)


@PROTOCOLS
def test_scripts_are_known_by_their_names_at_the_node_that_loaded_them(protocol: int) -> None:
    async def story(_: Cluster, clients: list["redis.asyncio.Redis"]) -> None:
        here, there, _elsewhere = clients
        name = await here.script_load("return ARGV[1]")
        assert await here.script_exists(name, "f" * 40) == [True, False]
        assert await here.evalsha(name, 1, "k", "x") == b"x"
        with pytest.raises(NoScriptError):
            await there.evalsha(name, 1, "k", "x")
        assert await there.register_script("return ARGV[1]")(keys=["k"], args=["y"]) == b"y"
        assert await here.script_flush() is True
        assert await here.script_exists(name) == [False]

    at_every_door(story, protocol)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("EVAL", "return 1", "2", "a", "b"), "a script works on one key, and this one names 2"),
        (("EVAL", "return 1", "x"), "value is not an integer"),
        (("EVAL", "return 1", "-1"), "Number of keys can't be negative"),
        (("EVAL", "return 1", "3", "a"), "Number of keys can't be greater than number of args"),
        (("EVAL", "x", "1", "k"), "Error compiling script"),
        (("EVAL", "while true do end", "1", "k"), "used up its time"),
        (("EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", "k", "x" * 1_100_000), "exceeds maximum"),
        (("EVAL", "return redis.call('GET', 'other')", "1", "k"), "non declared key"),
        (("EVAL", "return redis.call('LPUSH', KEYS[1], 1)", "1", "k"), "Unknown Redis command"),
        (("EVAL", "return redis.call('SET', KEYS[1], 'x')", "1", "taken"), "IMMUTABLE|reserved for ever"),
        (("SCRIPT", "WHAT"), "unknown subcommand"),
        (("SCRIPT", "LOAD", "x"), "Error compiling script"),
        (("SCRIPT", "KILL"), "No scripts in execution"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], error: str) -> None:
    async def story(_: Cluster, clients: list["redis.asyncio.Redis"]) -> None:
        await clients[0].execute_command("RESERVE", "taken", "v")  # type: ignore[no-untyped-call]
        with pytest.raises(ResponseError, match=error):
            await clients[0].execute_command(*words)  # type: ignore[no-untyped-call]
        assert await clients[0].get("k") is None

    at_every_door(story, 2, n=1)


@PROTOCOLS
def test_a_lock_of_redis_py(protocol: int) -> None:
    async def story(_: Cluster, clients: list["redis.asyncio.Redis"]) -> None:
        here, there, _elsewhere = clients
        mine, other = here.lock("job", timeout=20), there.lock("job", timeout=20)
        assert await mine.acquire()
        assert not await other.acquire(blocking=False)
        assert await mine.extend(10)
        assert await mine.reacquire()
        await mine.release()
        with pytest.raises(LockError):
            await mine.release()
        assert await other.acquire(blocking=False)
        await other.release()

    at_every_door(story, protocol)


def test_a_script_with_a_key_is_a_step_and_one_that_only_reads_asks_for_no_write() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held[b"k"] = proposal(b"7")
            client = await at.connect()
            await client.says("EVAL_RO return(redis.call('get',KEYS[1])+1) 1 k", integer(8))
            await client.says("EVAL return(5) 0", integer(5))
            assert at.node.asked == 0
            sha = at.node.scripts.load(b"return(1)")
            client.send(f"EVALSHA {sha} 1 k a")
            await until(lambda: bool(at.node.writes))
            steps = at.node.writes[0][0].steps
            assert steps is not None
            assert steps.commands == ((b"EVAL", b"return(1)", b"1", b"k", b"a"),)

    run(story)
