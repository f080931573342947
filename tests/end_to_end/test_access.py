"""The whole story of a protected node, at each of its doors: the first token, one for an application, one for a worker,
and their end."""

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from epoxy import Client, Forbidden, Unauthenticated
from epoxy.client.actor_calls import Which
from epoxy.envoy import Actor, Worker, WorkerRefused
from epoxy.testing import Cluster, ClusterNode, cluster
from tests.cli.commands import Captured, command
from tests.end_to_end.pages import ROOT, Shell, blocks, commands
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.world import order, regions, until


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """One node that asks for tokens. Commands find it, and have a home without a token."""
    for name in ("EPOXY_TOKEN", "EPOXY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with cluster(1, auth=True, folder=tmp_path / "nodes") as made:
        monkeypatch.setenv("EPOXY_URL", made[0].url)
        yield made


def test_from_the_first_token_to_its_end(guarded: Cluster, tmp_path: Path, capfdbinary: Captured) -> None:
    (node,) = guarded

    def epoxy(*words: str, status: int = 0) -> str:
        done, out, err = command(list(words), capfdbinary)
        assert done == status, (words, out, err)
        return out

    # Nothing without a token.
    epoxy("get", "user/ada", status=77)
    with pytest.raises(redis.AuthenticationError):
        redis_client(node).get("user/ada")

    # The first one, with the secret; the others, with the first.
    epoxy("auth", "init", "--config", str(node.config), "--name", "root", "--save")
    assert "roles               operator" in epoxy("auth", "whoami")
    app = epoxy("auth", "token", "create", "app", "--role", "writer", "--role", "caller", "--prefix", "user/",
                "--prefix", "default/room/").strip()  # fmt: skip
    file = tmp_path / "worker.token"
    epoxy("auth", "token", "create", "chat", "--role", "worker", "--pool", "chat", "--save", str(file))
    assert [row["name"] for row in json.loads(epoxy("auth", "token", "list", "--json"))["grants"]] == [
        "admin", "app", "chat", "root", "test",
    ]  # fmt: skip

    # What an application may do, and what it may not, at both doors.
    with Client(node.url, token=app) as client, redis_client(node, app) as over_redis:
        assert client.reserve(b"user/ada", b"1").won
        with pytest.raises(Forbidden, match="user/"):
            client.reserve(b"other", b"1")
        assert over_redis.get("user/ada") == b"1"
        with pytest.raises(NoPermissionError):
            over_redis.set("other", "1")
        asyncio.run(ask_a_worker(node, client, file))
        epoxy("auth", "token", "list", "--token-file", written(tmp_path / "app.token", app), status=77)

        # Its end, at every door and on connections that are open.
        epoxy("auth", "token", "revoke", "app")
        with pytest.raises(Unauthenticated):
            client.get(b"user/ada")
        with pytest.raises((redis.AuthenticationError, redis.ConnectionError, NoPermissionError)):
            over_redis.get("user/ada")
    epoxy("get", "user/ada", "--token-file", str(tmp_path / "app.token"), status=77)

    # All tokens are lost, and the secret is not.
    epoxy("auth", "token", "revoke", "root")
    epoxy("auth", "token", "list", status=77)
    epoxy("auth", "init", "--config", str(node.config), "--save")
    assert "0 grants" not in epoxy("status")
    findings = json.loads(epoxy("doctor", "--json"))["findings"]
    assert any("the token of test may do everything" in finding["words"] for finding in findings)


def redis_client(node: ClusterNode, token: str | None = None) -> redis.Redis:
    name = "app" if token is not None else None
    once = Retry(NoBackoff(), 0)
    return redis.Redis(port=node.resp_port, username=name, password=token, socket_timeout=PATIENCE_S, retry=once)


def written(file: Path, text: str) -> str:
    file.write_text(text)
    file.chmod(0o600)
    return str(file)


async def ask_a_worker(node: ClusterNode, client: Client, file: Path) -> None:
    """A worker of its pool, with a token from a file; it is refused in another pool."""
    stranger = Worker(node.url, pool="other", token=file)
    with pytest.raises(WorkerRefused, match="not for pool 'other'"):
        await asyncio.wait_for(stranger.serve(), PATIENCE_S)
    worker = Worker(node.url, pool="chat", token=file)

    @worker.actor("room")
    async def room(actor: Actor) -> None:
        async for request in actor:
            request.respond(request.text)

    serving = asyncio.create_task(worker.serve())
    await asyncio.wait_for(worker.connected.wait(), PATIENCE_S)
    which = Which(name="room", key="lobby")
    assert await asyncio.to_thread(client.actors.request, which, b"hello", pool="chat") == b"hello"
    with pytest.raises(Forbidden):
        await asyncio.to_thread(client.actors.get, Which(name="office", key="lobby"))
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def test_the_tokens_of_the_readme(guarded: Cluster, tmp_path: Path) -> None:
    """As typed in, beside the node's file."""
    (text,) = [block for _, block in blocks(ROOT / "README.md") if block.startswith("epoxy auth init")]
    (tmp_path / "epoxy.toml").symlink_to(guarded[0].config)
    shell = Shell(tmp_path, os.environ, {})
    for line in commands(text):
        shell.run(line)


def test_a_newcomer_of_a_protected_cluster_knows_the_tokens_once_it_is_a_member(guarded: Cluster) -> None:
    reader = guarded.create_token("reader", "reader")
    with guarded.client() as client:
        client.put(b"k", b"v")
    node = guarded.add()

    def known() -> bool:
        with contextlib.suppress(Unauthenticated), node.client(token=reader) as client:
            return client.get(b"k") == b"v"
        return False

    until(known, "the token is known at the newcomer")


def test_a_demo_that_asks_for_tokens_obeys_its_orders(tmp_path: Path) -> None:
    """Its own requests show the administrator's token, or are signed; and every region knows the application's."""
    with regions(tmp_path / "demo", auth=True) as demo:
        token = Path(demo.document()["tokens"]["app"])
        order(demo, "cut", "eu-west-1")
        order(demo, "heal", "eu-west-1")
        order(demo, "kill", "us-east-1")
        order(demo, "revive", "us-east-1")
        order(demo, "add", "us-west-2")
        for node in demo.nodes:
            with Client(node.url, token=token) as client:
                assert client.auth.whoami().name == "app"
                assert client.reserve(node.datacenter, b"1").won
            with pytest.raises(Unauthenticated), Client(node.url, token="") as client:
                client.get(b"k")
