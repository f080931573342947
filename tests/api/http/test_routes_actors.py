"""Actors over real sockets, in one process: two datacenters, workers, clients and the command line."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result
from websockets.asyncio.client import connect

from epoxy import AsyncClient, Client, EpoxyError, InvalidRequest
from epoxy.actors.messages import CallActor, Destroy, Ensure, GetActor, Question
from epoxy.api.http.backend import Backend
from epoxy.api.http.router import Api
from epoxy.api.http.routes_actors import what_next
from epoxy.api.metrics import Metrics
from epoxy.cli.main import cli
from epoxy.client.actor_calls import Which
from epoxy.envoy import Actor, Worker, WorkerRefused
from epoxy.model.actors import ActorName
from epoxy.model.cluster import ReplicaInfo
from epoxy.model.errors import Unavailable
from epoxy.model.exchanges import RequestHead
from epoxy.model.writes import ConsensusFailed
from epoxy.node.access.audit import AuditLog
from epoxy.node.access.guesses import Guesses
from epoxy.node.members.lifecycle import STARTING
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.runtime.clock import LoopClock
from epoxy.store.memory import MemoryStore
from epoxy.transport.http.server import serve_http
from tests.actors.bench import Keys, MutableKeys
from tests.api.http.http_bench import actor_system, ask
from tests.api.http.open_access import NoQuotas, OpenAccess

PATIENCE_S = 60.0
SOON_S = 0.01

CONFIG = PlacementConfig(eligible_threshold_ms=3_600_000)
"""Nobody is lost because the machine is slow."""


class Place(Keys):
    """A datacenter's node as far as actors see it, and its API."""

    def __init__(self, label: int, world: "dict[bytes, bytes]", mutable: MutableKeys) -> None:
        super().__init__()
        self.me = label
        self.ready = True
        self.lifecycle = STARTING
        self.access, self.quotas = OpenAccess(), NoQuotas()
        self.audit, self.guesses = AuditLog(), Guesses()
        self.values, self.mutable = world, mutable
        self.driver = self
        self.links = SimpleNamespace(rtt_ms=lambda _: 1.0, reachable=lambda _: True)
        self.settings = SimpleNamespace(node=SimpleNamespace(datacenter=f"dc-{label}"))
        self.datacenter_of = "dc-{}".format
        self.replica = SimpleNamespace(config=SimpleNamespace(replicas=[]))
        self.metrics = Metrics()
        clock = LoopClock(asyncio.get_running_loop())
        self.system = actor_system(self, MemoryStore(), clock, self.metrics, CONFIG)
        self.api = Api(cast(Backend, self), self.metrics, names=lambda: ("x",), more=self.system.routes())
        self.url = ""


@asynccontextmanager
async def places(count: int = 1) -> AsyncIterator[list[Place]]:
    world, mutable = dict[bytes, bytes](), MutableKeys()
    made = [Place(label, world, mutable) for label in range(1, count + 1)]
    servers = []
    for place in made:
        server = await serve_http(place.api, "127.0.0.1", 0)
        place.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        place.system.start()
        servers.append(server)
    for place in made:
        place.replica.config.replicas = [ReplicaInfo(id=other.me, url=other.url) for other in made]
    try:
        yield made
    finally:
        for place, server in zip(made, servers, strict=True):
            place.system.stop()
            server.close()


@asynccontextmanager
async def working(url: str, key: str, **given: Any) -> AsyncIterator[Worker]:
    worker = Worker(url, key=key, **given)

    @worker.actor("room")
    async def room(actor: Actor) -> None:
        async for request in actor:
            match request.body:
                case b"fail":
                    raise RuntimeError("as asked")
                case b"silent":
                    pass
                case b"end":
                    request.respond("bye")
                    return
                case b"input":
                    request.respond(actor.input)
                case _:
                    request.respond(f"{actor.key} on {worker.key} in {worker.datacenter}: {request.text}")

    task = asyncio.create_task(worker.serve())
    try:
        await asyncio.wait_for(worker.connected.wait(), PATIENCE_S)
        yield worker
    finally:
        worker.drain()
        worker.drain()
        await asyncio.wait_for(task, PATIENCE_S)


def run(story: Coroutine[None, None, None]) -> None:
    async def patient() -> None:
        await asyncio.wait_for(story, PATIENCE_S)

    asyncio.run(patient())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(SOON_S)


async def refused(
    url: str, method: str, path: str, body: bytes = b"", media_type: str = "application/json"
) -> tuple[int, str]:
    """Status and code of an answer that is an error."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    typed = f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\n{typed}".encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    size = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
    told = json.loads(await reader.readexactly(size))
    writer.close()
    return int(head.split()[1]), told["error"]["code"]


def test_an_actor_is_made_asked_found_and_destroyed_from_anywhere() -> None:
    async def story() -> None:
        async with (
            places(2) as (here, there),
            working(here.url, "w", slots=5),
            AsyncClient(here.url) as near,
            AsyncClient(there.url) as far,
        ):
            made = await near.actors.get_or_create("room", "lobby", given="first words")
            assert (made.created, made.datacenter, made.envoy) == (True, "dc-1", "w")
            which = Which(name="room", key="lobby")
            for client in (near, far):
                actors = client.actors
                assert await actors.request(which, b"hi") == b"lobby on w in dc-1: hi"
                assert await actors.request(Which(id=made.id), b"input") == b"first words"
                found = await actors.get(which)
                assert found is not None
                assert (found.id, found.state) == (made.id, "running")
                again = await actors.get_or_create("room", "lobby")
                assert (again.id, again.created) == (made.id, False)
                assert await actors.create("room", "lobby") is None
            gone = await far.actors.destroy(which)
            assert gone is not None
            assert gone.state == "destroyed"
            assert await near.actors.get(which) is None
            assert await far.actors.destroy(which) is None
            assert [write.mutable for write in here.writes] == [False, True], "reserved, and destroyed"
            assert there.writes == []

    run(story())


def test_the_longest_request_goes_all_the_way_and_back() -> None:
    async def story() -> None:
        async with places(2) as (here, there), working(here.url, "w"), AsyncClient(there.url) as far:
            async with AsyncClient(here.url) as near:
                await near.actors.get_or_create("room", "x")
            told = await far.actors.request(Which(name="room", key="x"), b"y" * ((1 << 20) - 64))
            assert len(told) > 1 << 19
            assert told.endswith(b"yyy")

    run(story())


def test_a_request_may_make_its_actor() -> None:
    async def story() -> None:
        async with places() as (here,), working(here.url, "w", pool="p"), AsyncClient(here.url) as client:
            told = await client.actors.request(Which(name="room", key="new"), b"hi", pool="p")
            assert told == b"new on w in dc-1: hi"

    run(story())


def test_what_an_actor_does_not_answer_is_an_error_that_is_not_definite() -> None:
    async def story() -> None:
        async with places() as (here,), working(here.url, "w") as worker, AsyncClient(here.url) as client:
            actors, which = client.actors, Which(name="room", key="x")
            await actors.get_or_create("room", "x")
            asked = asyncio.create_task(actors.request(which, b"silent"))
            await until(lambda: bool(worker.actors))
            for answer in (asked, asyncio.create_task(actors.request(which, b"fail"))):
                if answer is asked:
                    await actors.request(which, b"hi")
                with pytest.raises(EpoxyError) as caught:
                    await answer
                assert not caught.value.definite
            assert await actors.request(which, b"hi") == b"x on w in dc-1: hi", "it was started again"

    run(story())


def test_an_actor_that_returns_has_ended() -> None:
    async def story() -> None:
        async with places() as (here,), working(here.url, "w"), AsyncClient(here.url) as client:
            actors, which = client.actors, Which(name="room", key="x")
            await actors.get_or_create("room", "x")
            assert await actors.request(which, b"end") == b"bye"
            while await actors.get(which) is not None:
                await asyncio.sleep(SOON_S)

    run(story())


def test_actors_move_to_another_worker_before_theirs_leaves() -> None:
    async def story() -> None:
        async with places() as (here,), AsyncClient(here.url) as client:
            actors, which = client.actors, Which(name="room", key="x")
            async with working(here.url, "first") as first:
                await actors.get_or_create("room", "x")
                await actors.request(which, b"hi")
                async with working(here.url, "second") as second:
                    first.drain()
                    await until(lambda: bool(second.actors))
                    assert await actors.request(which, b"hi") == b"x on second in dc-1: hi"

    run(story())


def test_a_worker_whose_connection_breaks_connects_again_and_keeps_its_actors() -> None:
    async def story() -> None:
        async with places() as (here,), working(here.url, "w") as worker, AsyncClient(here.url) as client:
            actors, which = client.actors, Which(name="room", key="x")
            await actors.get_or_create("room", "x")
            await actors.request(which, b"hi")
            (actor,) = worker.actors
            for session in list(here.system._hosting.sessions.values()):
                session.close()
            await until(lambda: not worker.connected.is_set())
            await until(worker.connected.is_set)
            assert await actors.request(which, b"hi") == b"x on w in dc-1: hi"
            assert worker.actors == [actor]

    run(story())


def test_a_worker_that_is_not_answered_stops_its_actors() -> None:
    async def story() -> None:
        async with places() as (here,), working(here.url, "w") as worker, AsyncClient(here.url) as client:
            await client.actors.get_or_create("room", "x")
            await until(lambda: bool(worker.actors))
            (actor,) = worker.actors
            worker._protocol.acknowledged_ms = -1e9
            await client.actors.get_or_create("room", "y")
            await until(actor.stopping.is_set)

    run(story())


def test_a_worker_without_code_for_an_actor_says_so_and_another_gets_it() -> None:
    async def story() -> None:
        async with places() as (here,), AsyncClient(here.url) as client:
            bare = Worker(here.url, key="bare")
            task = asyncio.create_task(bare.serve())
            await asyncio.wait_for(bare.connected.wait(), PATIENCE_S)
            await client.actors.get_or_create("room", "x")
            bare.drain()
            await task
            async with working(here.url, "w"):
                assert await client.actors.request(Which(name="room", key="x"), b"hi") == b"x on w in dc-1: hi"

    run(story())


def test_a_worker_the_node_does_not_want_is_told_why() -> None:
    async def story() -> None:
        async with places() as (here,):
            with pytest.raises(WorkerRefused, match="weight is a number from 1 to 16"):
                await Worker(here.url, weight=99).serve()

    run(story())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (['{"type":"ping","sent_ms":1}'], "the first message is hello"),
        (["nonsense"], "JSON is malformed"),
        ([b'{"type":"hello","envoy_key":"\xff"}'], "not UTF-8"),
        ([b'{"a":' * 100_000], "nested too deep"),
        (['{"type":"hello","namespace":"","pool":"p","envoy_key":"k"}'], "namespace has 1 to 255 bytes"),
        (['{"type":"hello","namespace":"n","pool":"p","envoy_key":"k"}'] * 2, "hello comes once"),
    ],
)
def test_a_connection_that_breaks_the_protocol_is_told_why_and_closed(words: list[str | bytes], reason: str) -> None:
    async def story() -> None:
        async with (
            places() as (here,),
            connect(f"ws{here.url[4:]}/v2/envoys/connect", proxy=None, open_timeout=PATIENCE_S) as socket,
        ):
            for word in words:
                await socket.send(word, text=True)
            heard = [json.loads(message) async for message in socket]
            assert heard[-1]["type"] == "rejected"
            assert reason in heard[-1]["message"]

    run(story())


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        b'{"name":"\xff","key":"k"}',
        b'{"name":"a","key":"k","\xff":1}',
        b'{"name":"a","key":"\\ud800"}',
        b'{"a":' * 100_000,
        b"[" * 100_000,
        b'{"type":"Get","target":"\xff"}',
        b'{"type":"Get","target":' + b"[" * 100_000,
    ],
)
def test_bytes_that_are_no_json_are_a_mistake_of_the_client(body: bytes) -> None:
    async def story() -> None:
        async with places() as (here,):
            reported: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
            assert await refused(here.url, "POST", "/v2/actors", body) == (400, "bad_request")
            assert reported == []

    run(story())


def test_requests_outside_the_contract() -> None:
    async def story() -> None:
        async with places() as (here,):
            for method, path, body, expected in (
                ("POST", "/v2/actors", b"{", (400, "bad_request")),
                ("POST", "/v2/actors", b'{"name":"a","key":"","pool":"p"}', (400, "bad_request")),
                ("POST", "/v2/actors", b'{"name":"a","key":"b","poll":"p"}', (400, "bad_request")),
                ("PATCH", "/v2/actors", b"", (405, "method_not_allowed")),
                ("GET", "/v2/actors?id=xyz", b"", (400, "bad_request")),
                ("GET", "/v2/actors?name=%ff&key=x", b"", (400, "bad_parameter")),
                ("GET", "/v2/actors?limit=0", b"", (400, "bad_parameter")),
                ("GET", "/v2/actors?after=zz", b"", (400, "bad_request")),
                ("GET", "/v2/actors?after=", b"", (400, "bad_request")),
                ("GET", "/v2/actors?name=a&key=b&limit=3", b"", (400, "bad_parameter")),
                ("GET", "/v2/envoys?pool=" + "x" * 256, b"", (400, "bad_request")),
                ("DELETE", "/v2/actors?id=" + "01" * 19 + "&name=a", b"", (400, "bad_parameter")),
                ("GET", "/v2/actors?colour=red", b"", (400, "bad_parameter")),
                ("DELETE", "/v2/actors", b"", (400, "bad_request")),
                ("POST", "/v2/actors/request?name=a&key=b", b"x", (404, "not_found")),
                ("POST", "/v2/actors/request?id=" + "01" * 19 + "&create=true", b"", (400, "bad_parameter")),
                ("POST", "/v2/actors/request?name=a&key=b&create=maybe", b"", (400, "bad_parameter")),
                ("GET", "/v2/actors/relay", b"{}", (401, "unauthenticated")),
                ("POST", "/v2/envoys/drain?envoy=", b"", (400, "bad_request")),
                ("POST", "/v2/envoys/drain?envoy=nobody", b"", (404, "not_found")),
                ("GET", "/v2/envoys/connect", b"", (426, "upgrade_required")),
            ):
                assert await refused(here.url, method, path, body) == expected, (method, path)
            here.ready = False
            assert await refused(here.url, "GET", "/v2/actors") == (503, "not_ready")
            assert await refused(here.url, "GET", "/v2/envoys/connect") == (503, "not_ready")

    run(story())


def test_a_node_whose_id_is_no_label_serves_no_actors() -> None:
    async def story() -> None:
        api = Place(70_000, {}, MutableKeys()).api
        for path in ("/v2/actors", "/v2/envoys", "/v2/envoys/connect"):
            told = ask(api, "GET", path, host="x")
            assert (told.status, told.error()["code"]) == (503, "not_ready")

    run(story())


def test_an_owner_that_is_no_member_or_does_not_answer() -> None:
    async def story() -> None:
        async with places(2) as (here, there), AsyncClient(here.url) as near, AsyncClient(there.url) as far:
            await far.actors.get_or_create("room", "x")
            members = here.replica.config.replicas
            here.replica.config.replicas = []
            with pytest.raises(EpoxyError, match="is no member of this cluster"):
                await near.actors.get_or_create("room", "x")
            here.replica.config.replicas = [ReplicaInfo(id=2, url="http://127.0.0.1:1")]
            with pytest.raises(EpoxyError, match="cannot be reached"):
                await near.actors.get(Which(name="room", key="x"))
            here.replica.config.replicas = members
            assert await near.actors.get(Which(name="room", key="x")) is not None

    run(story())


def test_metrics_have_the_names_of_the_design() -> None:
    async def story() -> None:
        async with places() as (here,), AsyncClient(here.url) as client:
            await client.actors.get_or_create("room", "x")
            async with working(here.url, "w"):
                await client.actors.request(Which(name="room", key="x"), b"hi")
                text = here.metrics.text().decode()
        labels = '{namespace="default",pool="default",strategy="hash"}'
        assert f"envoy_lb_allocation_total{labels} 1.0" in text
        for name in ("no_envoy_available_total", "wrap_total", "sample_dedupe_total", "tied_min_total"):
            assert f"envoy_lb_{name}{labels}" in text
        for name in ("scan_depth", "samples_effective", "alloc_duration_seconds"):
            assert f"envoy_lb_{name}_count{labels}" in text
        assert 'epoxy_requests_total{request_type="http_post_actor",result="ok"} 1.0' in text

    run(story())


def test_the_blocking_client_and_the_command_line() -> None:
    def ask(url: str) -> None:
        with Client(url) as client:
            actors = client.actors
            made = actors.create("room", "lobby", pool="chat")
            assert made is not None
            assert actors.get_or_create("room", "lobby").id == made.id
            assert actors.request(Which(name="room", key="lobby"), b"hi") == b"lobby on w in dc-1: hi"
            assert actors.get(Which(id=made.id)) is not None
            assert [each.key for each in actors.page(name="room").actors] == ["lobby"]
            assert [(each.key, each.slots, each.capacity) for each in actors.envoys(pool="chat")] == [("w", 1, 7)]
            with pytest.raises(InvalidRequest):
                actors.get(Which(id="zz"))

    def type_in(url: str, *words: str) -> Result:
        return CliRunner().invoke(cli, [*words, "--url", url])

    def tell(url: str) -> None:
        made = type_in(url, "actor", "create", "room", "second", "--pool", "chat")
        assert "created: room/second is starting" in made.output
        assert type_in(url, "actor", "create", "room", "second", "--new").exit_code == 3
        assert type_in(url, "actor", "request", "room", "second", "hey").output == "second on w in dc-1: hey"
        told = json.loads(type_in(url, "actor", "request", "room", "second", "hey", "--json").output)
        assert (told["name"], told["key"], told["value"]) == ("room", "second", "second on w in dc-1: hey")
        assert b64decode(told["value_base64"]) == told["value"].encode()
        assert "running" in type_in(url, "actor", "get", "room", "second").output
        assert json.loads(type_in(url, "actor", "get", "room", "second", "--json").output)["state"] == "running"
        listed = type_in(url, "actor", "list").output
        assert "lobby" in listed
        assert "second" in listed
        assert "--after" in type_in(url, "actor", "list", "--limit", "1").output
        assert "\nw " in type_in(url, "envoy", "list", "--pool", "chat").output
        assert type_in(url, "envoy", "drain", "w").output == "w is draining\n"
        assert type_in(url, "envoy", "drain", "w", "--undo").output == "w takes actors again\n"
        assert type_in(url, "envoy", "drain", "nobody").exit_code == 4
        assert "destroyed" in type_in(url, "actor", "destroy", "room", "second").output
        assert type_in(url, "actor", "get", "room", "second").exit_code == 4

    async def story() -> None:
        async with places() as (here,), working(here.url, "w", pool="chat", slots=7):
            await asyncio.to_thread(ask, here.url)
            await asyncio.to_thread(tell, here.url)

    run(story())


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Ensure(name=ActorName("n", "room", "x"), pool="p"), "asking again is safe"),
        (Ensure(name=ActorName("n", "room", "x"), pool="p", exclusive=True), "may find the one that this made"),
        (GetActor(target=ActorName("n", "room", "x")), "asking again is safe"),
        (Destroy(target="01" * 19), "asking again is safe: an id is never given to another actor"),
        (Destroy(target=ActorName("n", "room", "x")), "may end the next actor of the name; ask by id"),
        (CallActor(target=ActorName("n", "room", "x"), body=b""), "asking again may do it twice"),
        (
            CallActor(target=ActorName("n", "room", "x"), body=b"", head=RequestHead(idempotency_key="order-7")),
            "asking again with the same idempotency key is safe",
        ),
        (
            CallActor(target=ActorName("n", "room", "x"), body=b"", head=RequestHead(method="GET")),
            "asking again may do it twice",
        ),
    ],
)
def test_an_unknown_outcome_says_what_asking_again_does(question: Question, words: str) -> None:
    assert what_next(question).endswith(words)


def test_errors_name_datacenters_as_people_do() -> None:
    async def story() -> None:
        async with places(2) as (here, there), working(here.url, "w", pool="chat"), AsyncClient(here.url) as client:
            await client.actors.get_or_create("room", "lobby", pool="chat")
            with pytest.raises(Unavailable, match="dc-2 hosts no actors now"):
                await client.actors.move(Which(name="room", key="lobby"), there.settings.node.datacenter)

    run(story())


def test_a_request_for_which_no_actor_could_be_made_did_not_run() -> None:
    async def story() -> None:
        async with places() as (here,), AsyncClient(here.url) as client:
            here.outcome = ConsensusFailed(reason="nobody answers")
            with pytest.raises(Unavailable, match="no actor for the request yet: nobody answers") as caught:
                await client.actors.request(Which(name="room", key="x"), b"hi", pool="p")
            assert caught.value.definite
            told = await refused(here.url, "POST", "/v2/actors", b'{"name":"room","key":"x"}')
            assert told == (503, "outcome_unknown")

    run(story())


def test_a_second_worker_with_the_same_key_is_refused_and_the_first_goes_on() -> None:
    async def story() -> None:
        async with places() as (here,), working(here.url, "w") as first, AsyncClient(here.url) as client:
            with pytest.raises(
                WorkerRefused, match=r"key 'w' in namespace 'default' is in use by \S+/\d+/\w+, which is"
            ):
                await Worker(here.url, key="w").serve()
            assert first.connected.is_set()
            assert await client.actors.request(Which(name="room", key="x"), b"hi", pool="default")

    run(story())
