"""Keys in and outside of transactions, in any order, through redis-py with its defaults: a pipeline is MULTI."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

import epoxy
import epoxy.testing
from epoxy.testing import Cluster


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with epoxy.testing.cluster(3) as made:
        yield made


def connected(three: Cluster, node: int = 0) -> Any:
    return redis.Redis(port=three[node].resp_port)


def test_a_pipeline_of_keys_that_were_set_before(three: Cluster) -> None:
    client, other = connected(three), connected(three, 1)
    client.set("a/n", 1)
    client.set("a/text", "x")
    client.set("a/gone", "y")
    client.delete("a/gone")
    client.execute_command("RESERVE", "a/name", "ada")
    pipe = other.pipeline()
    pipe.incr("a/n").get("a/text").set("a/new", "z").get("a/name").get("a/gone")
    assert pipe.execute() == [2, b"x", True, b"ada", None]
    pipe = client.pipeline()
    pipe.set("a/text", "w").set("a/name", "bob").incr("a/n")
    replies = pipe.execute(raise_on_error=False)
    assert (replies[0], replies[2]) == (True, 3)
    assert "reserved for ever" in str(replies[1])
    assert client.get("a/name") == b"ada"


def test_single_commands_on_keys_that_were_in_a_pipeline(three: Cluster) -> None:
    client, other = connected(three), connected(three, 2)
    pipe = client.pipeline()
    pipe.set("b/n", 5).set("b/text", "x")
    pipe.execute()
    assert other.incrby("b/n", 3) == 8
    assert other.set("b/text", "y", nx=True) is None
    assert other.getset("b/text", "y") == b"x"
    assert other.delete("b/text") == 1
    assert other.delete("b/text") == 0
    assert other.set("b/text", "z", nx=True) is True
    with pytest.raises(redis.ResponseError, match="not an integer"):
        other.incr("b/text")
    with pytest.raises(redis.ResponseError, match="cannot be reserved"):
        other.execute_command("RESERVE", "b/text", "mine")
    with epoxy.Client(three[1].url) as http:
        held = http.read(b"b/n", read="linearizable")
        assert (held.value, held.version) == (b"8", 2)
        assert http.put(b"b/n", b"1", if_version=2).version == 3
        with pytest.raises(epoxy.VersionMismatch):
            http.put(b"b/n", b"2", if_version=2)
    pipe = client.pipeline()
    pipe.get("b/n").get("b/text")
    assert pipe.execute() == [b"1", b"z"]


def test_the_least_number_of_64_bits_is_added_in_and_outside_of_transactions(three: Cluster) -> None:
    client, least = connected(three), -(1 << 63)
    pipe = client.pipeline()
    pipe.incrby("least/a", least).incrby("least/b", 1)
    assert pipe.execute() == [least, 1]
    assert client.incrby("least/b", least) == least + 1
    with pytest.raises(redis.ResponseError, match="overflow"):
        client.incrby("least/a", least)


def test_an_asynchronous_pipeline(three: Cluster) -> None:
    async def story() -> list[object]:
        client: Any = redis.asyncio.Redis(port=three[0].resp_port)
        await client.set("c/a", 1)
        pipe = client.pipeline()
        pipe.incr("c/a").set("c/b", 1)
        replies: list[object] = await pipe.execute()
        replies.append(await client.incr("c/a"))
        await client.aclose()
        return replies

    assert asyncio.run(story()) == [2, True, 3]


def test_a_watched_key_that_was_set_by_itself(three: Cluster) -> None:
    client, other = connected(three), connected(three)
    client.set("d/a", 1)
    with client.pipeline() as pipe:
        pipe.watch("d/a")
        other.incr("d/a")
        pipe.multi()
        pipe.set("d/a", 7)
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.get("d/a") == b"2"


def test_a_value_of_a_transaction_ends(three: Cluster) -> None:
    client = connected(three)
    pipe = client.pipeline()
    pipe.set("e/a", 1).set("e/b", 1)
    pipe.execute()
    client.set("e/a", "short", px=1)
    with epoxy.Client(three[0].url) as http:
        version = http.read(b"e/a").version
        while http.read(b"e/a", read="linearizable").value is not None:
            pass
        assert http.read(b"e/a", read="linearizable").version == version + 1, "its end was decided"
    assert client.set("e/a", "next", nx=True) is True
