"""One actor with its moves, pools, and the ring, over real sockets."""

import asyncio
import json
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from epoxy import AsyncClient, Client
from epoxy.api.http.routes_actors import MAX_RING_PLACES, places_of
from epoxy.cli.diagnosis_actors import take_over, workers
from epoxy.cli.main import cli
from epoxy.client.actor_calls import Which
from epoxy.envoy import Actor, Worker
from epoxy.model.access import AccessRole
from epoxy.model.api_actors import EnvoyInfo
from epoxy.model.homes import datacenter_key
from epoxy.model.records import Proposal
from tests.actors.bench import proposal
from tests.api.http.access_bench import GuardedNode, bearer
from tests.api.http.http_bench import ask, whole_api
from tests.api.http.test_routes_actors import Place, places, run, until, working

WEB, GPU = {"namespace": "default", "pool": "web"}, {"namespace": "default", "pool": "gpu"}


def get(place: Place, target: str) -> Any:
    """Answered at once: the home is here."""
    answer = ask(place.api, "GET", target, host="x")
    assert answer.status == 200, answer
    return answer.json()


def test_an_actor_s_record_at_its_home() -> None:
    async def story() -> None:
        async with places() as (here,), working(here.url, "w"), AsyncClient(here.url) as client:
            made = await client.actors.get_or_create("room", "lobby")
            await client.actors.request(Which(name="room", key="lobby"), b"hi")
            record = get(here, "/v2/actors/record?name=room&key=lobby")
            assert record["actor"]["id"] == made.id
            assert (record["actor"]["envoy"], record["actor"]["state"]) == ("w", "running")
            assert (record["first_home"], record["here"], record["seen_by"]) == ("dc-1", True, "dc-1")
            assert (record["failures"], record["alarm_ms"], record["saved"], record["local"]) == (0, None, False, False)
            assert (record["state_version"], record["state_bytes"]) == (None, None)
            assert [(move["kind"], move["worker"]) for move in record["moves"]] == [("home", "w"), ("started", "w")]
            assert record["since_ms"] > 0

    run(story())


def test_a_record_is_answered_by_a_datacenter_that_only_knows_the_home() -> None:
    async def story() -> None:
        async with places(2) as (here, there), working(here.url, "w"), AsyncClient(here.url) as client:
            await client.actors.get_or_create("room", "lobby")
            async with AsyncClient(there.url) as far:
                await far.actors.get(Which(name="room", key="lobby"))
            record = await fetched(there, "/v2/actors/record?name=room&key=lobby")
            assert (record["actor"]["datacenter"], record["here"]) == ("dc-1", False)
            assert (record["moves"], record["seen_by"]) == ([], "dc-2")

    run(story())


async def fetched(place: Place, target: str) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(place.url.rpartition(":")[2]))
    writer.write(f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])


def test_the_state_of_an_actor_has_a_version_and_a_size() -> None:
    async def story() -> None:
        async with places() as (here,), AsyncClient(here.url) as client:
            worker = Worker(here.url, key="w")

            @worker.actor("counter")
            async def counter(actor: Actor) -> None:
                async for request in actor:
                    actor.state["n"] = actor.state.get("n", 0) + 1
                    await actor.save()
                    request.respond(str(actor.state["n"]))

            task = asyncio.create_task(worker.serve())
            await worker.connected.wait()
            which = Which(name="counter", key="c")
            assert await client.actors.request(which, b"", pool="default") == b"1"
            first = get(here, "/v2/actors/record?name=counter&key=c")
            await client.actors.request(which, b"")
            second = get(here, "/v2/actors/record?name=counter&key=c")
            assert first["saved"]
            assert second["state_version"] > first["state_version"] > 0
            assert first["state_bytes"] > 0
            worker.drain()
            worker.drain()
            await task

    run(story())


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("name=room&key=none", 404, "not_found"),
        ("name=room", 400, "bad_request"),
        ("name=room&key=%ff", 400, "bad_parameter"),
        ("name=room&key=k&id=1", 400, "bad_parameter"),
        (f"name=room&key={'k' * 256}", 400, "bad_request"),
    ],
)
def test_what_is_no_name_and_what_is_no_actor(query: str, status: int, code: str) -> None:
    async def story() -> None:
        async with places() as (here,):
            answer = ask(here.api, "GET", f"/v2/actors/record?{query}", host="x")
            assert (answer.status, answer.error()["code"]) == (status, code)

    run(story())


def test_pools_of_this_datacenter_and_of_the_others() -> None:
    async def story() -> None:
        async with (
            places(2) as (here, there),
            working(here.url, "w1", pool="web"),
            working(here.url, "w2", pool="web"),
            working(there.url, "w3", pool="gpu"),
        ):

            def other() -> Any:
                return get(here, "/v2/pools")["datacenters"][1]

            await until(lambda: other()["pools"] == [GPU])
            page = get(here, "/v2/pools")
            assert page["datacenter"] == "dc-1"
            assert page["pools"] == [{"namespace": "default", "pool": "web", "workers": 2}]
            first = {"datacenter": "dc-1", "here": True, "hosts": True, "pools": [WEB]}
            assert page["datacenters"] == [
                first,
                {**first, "datacenter": "dc-2", "here": False, "pools": [GPU]},
            ]

    run(story())


def test_the_ring_tells_where_workers_are() -> None:
    async def story() -> None:
        async with places() as (here,), working(here.url, "w1"), working(here.url, "w2", weight=2):
            plain = get(here, "/v2/envoys")["envoys"]
            assert all("ring" not in each for each in plain)
            one, two = sorted(get(here, "/v2/envoys?ring=true")["envoys"], key=lambda each: each["key"])
            assert two["places"] == 2 * one["places"] > 0
            assert len(one["ring"]) == min(one["places"], MAX_RING_PLACES)
            assert len(two["ring"]) <= MAX_RING_PLACES
            assert all(0 <= place < 1 for place in (*one["ring"], *two["ring"]))
            assert set(one["ring"]).isdisjoint(two["ring"])

    run(story())


def test_an_envoy_that_drains_has_no_place() -> None:
    drained = EnvoyInfo(
        namespace="n", pool="p", key="w", version=1, slots=3, capacity=0, weight=1, last_ping_ts=1, last_rtt_ms=1,
        connected=True, draining=True,
    )  # fmt: skip
    assert places_of(drained) == []


def everything(place: Place, _view: object, prefix: bytes, after: bytes | None) -> list[tuple[bytes, Proposal]]:
    held = {key: proposal(value) for key, value in place.values.items()} | place.mutable.held
    return [(key, held[key]) for key in sorted(held) if key.startswith(prefix) and (after is None or key > after)]


def test_actors_whose_home_is_gone_are_named_and_the_command_of_the_doctor_brings_them_back() -> None:
    async def story() -> None:
        async with places(2) as (here, there), working(here.url, "w", pool="p"), AsyncClient(there.url) as far:
            here.replica.keyspace = SimpleNamespace(everything=partial(everything, here))
            async with working(there.url, "v", pool="p"):
                await far.actors.get_or_create("room", "lobby", pool="p")
            here.end(datacenter_key(2))
            with Client(here.url) as client:
                told = await asyncio.to_thread(client.actors.homeless)
                assert (told.count, [actor.datacenter for actor in told.actors]) == (1, ["dc-2"])
                page = await asyncio.to_thread(client.actors.pools)
                assert [finding.code for finding in workers(page, [])] == ["no-workers"], "the lease of dc-2 is over"
                command = take_over(told.actors[0])
                assert command == "epoxy actor get room lobby"
                typed = [*command.split()[1:], "--url", here.url, "--json"]
                done = await asyncio.to_thread(CliRunner().invoke, cli, typed)
                assert json.loads(done.output)["datacenter"] == "dc-1"
                assert (await asyncio.to_thread(client.actors.homeless)).count == 0

    run(story())


def test_actors_are_listed_by_the_beginning_of_their_keys() -> None:
    async def story() -> None:
        async with places() as (here,), AsyncClient(here.url) as client:
            for key in ("eu-1", "eu-2", "eu", "us-1"):
                await client.actors.get_or_create("room", key)
            await client.actors.get_or_create("rooms", "eu-3")

            def keys(query: str) -> list[str]:
                return [each["key"] for each in get(here, f"/v2/actors?{query}")["actors"]]

            assert keys("name=room&key_prefix=eu") == ["eu", "eu-1", "eu-2"]
            assert keys("name=room&key_prefix=eu-") == ["eu-1", "eu-2"]
            assert keys("name=room&key_prefix=x") == []
            first = get(here, "/v2/actors?name=room&key_prefix=eu&limit=2")
            assert keys(f"name=room&key_prefix=eu&after={first['next']}") == ["eu-2"]
            alone = ask(here.api, "GET", "/v2/actors?key_prefix=eu", host="x")
            assert (alone.status, alone.error()["code"]) == (400, "bad_parameter")

    run(story())


def test_a_caller_sees_what_its_prefixes_allow() -> None:
    node = GuardedNode()
    node.give(1, AccessRole.CALLER, prefixes=(b"default/room/eu-",))
    node.give(2, AccessRole.READER)
    api = whole_api(node)

    def status(target: str, by: int) -> int:
        return ask(api, "GET", target, authorization=bearer(by)).status

    assert status("/v2/actors?name=room&key_prefix=eu-", 1) == 200
    assert status("/v2/actors?name=room&key_prefix=eu", 1) == 403
    assert status("/v2/actors?name=room", 1) == 403
    assert status("/v2/actors/record?name=room&key=us-1", 1) == 403
    assert status("/v2/actors/record?name=room&key=eu-1", 2) == 403
    assert status("/v2/pools", 1) == 403
    assert status("/v2/actors/homeless", 1) == 403
