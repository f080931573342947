"""`pipeline()` of redis-py with its defaults, which is MULTI and EXEC, on keys that were written by themselves before.

Its types say that each call returns what the command replies; inside of a pipeline it is the pipeline."""

from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError, WatchError


def pipeline(client: "redis.Redis", **options: bool) -> Any:
    return client.pipeline(**options)


def test_keys_that_were_set_before(clients: list["redis.Redis"]) -> None:
    here, *_ = clients
    here.set("pipe/a", "1")
    here.set("pipe/b", "2", ex=1000)
    told = pipeline(here).get("pipe/a").incr("pipe/a").set("pipe/b", "3").get("pipe/b").execute()
    assert told == [b"1", 2, True, b"3"]
    assert here.mget("pipe/a", "pipe/b") == [b"2", b"3"]
    assert here.ttl("pipe/b") == -1


def test_keys_that_were_in_a_pipeline_are_set_afterwards(clients: list["redis.Redis"]) -> None:
    here, there, _ = clients
    assert pipeline(here).set("after/a", "1").set("after/b", "1").execute() == [True, True]
    assert there.set("after/a", "2") is True
    assert there.incr("after/b", 4) == 5
    assert there.set("after/a", "3", px=100_000) is True
    assert 0 < there.pttl("after/a") <= 100_000
    assert there.delete("after/a", "after/b") == 2
    assert pipeline(here).get("after/b").get("after/a").execute() == [None, None]


def test_nx_of_a_key_that_was_in_a_pipeline(clients: list["redis.Redis"]) -> None:
    here, there, _ = clients
    assert pipeline(here).set("nx/a", "1").set("nx/b", "1").execute() == [True, True]
    assert there.set("nx/a", "3", nx=True) is None
    assert there.delete("nx/a") == 1
    assert pipeline(here).get("nx/b").setnx("nx/a", "4").execute() == [b"1", True]


def test_a_rate_limit_as_people_write_it(clients: list["redis.Redis"]) -> None:
    here, there, elsewhere = clients
    counted = [pipeline(each).incr("rate/ada").expire("rate/ada", 100).execute() for each in (here, there, elsewhere)]
    assert counted == [[1, True], [2, True], [3, True]]
    assert 0 < there.ttl("rate/ada") <= 100


def test_options_inside(clients: list["redis.Redis"]) -> None:
    here, *_ = clients
    pipe = pipeline(here).set("opt/a", "1", nx=True, ex=100).set("opt/a", "2", nx=True).set("opt/b", "1", xx=True)
    assert pipe.ttl("opt/a").getdel("opt/a").execute() == [True, None, None, 100, b"1"]


def test_an_error_has_its_place_and_the_others_are_done(clients: list["redis.Redis"]) -> None:
    here, *_ = clients
    here.set("bad/word", "x")
    told = pipeline(here).set("bad/a", "1").incr("bad/word").set("bad/b", "2").execute(raise_on_error=False)
    assert (told[0], told[2]) == (True, True)
    assert isinstance(told[1], ResponseError)
    assert "not an integer" in str(told[1])
    assert here.mget("bad/a", "bad/b") == [b"1", b"2"]


def test_watch(clients: list["redis.Redis"]) -> None:
    here, there, _ = clients
    here.set("watch/a", "1")
    with pipeline(here) as pipe:
        pipe.watch("watch/a")
        seen = int(pipe.get("watch/a"))
        there.set("watch/a", "7")
        pipe.multi()
        pipe.set("watch/a", seen + 1)
        with pytest.raises(WatchError):
            pipe.execute()

    def add(pipe: Any) -> None:
        seen = int(pipe.get("watch/a"))
        pipe.multi()
        pipe.set("watch/a", seen + 1)

    here.transaction(add, "watch/a")
    assert here.get("watch/a") == b"8"


def test_without_a_transaction(clients: list["redis.Redis"]) -> None:
    here, *_ = clients
    pipe = pipeline(here, transaction=False)
    for i in range(50):
        pipe.set(f"plain/{i}", i, ex=1000)
    pipe.get("plain/49").ttl("plain/7")
    assert pipe.execute() == [True] * 50 + [b"49", 1000]
