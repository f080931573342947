"""Real clients that show tokens: redis-py, and the process redis-cli."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from epoxy.model.access import AccessRole, AccessTable
from epoxy.node.service import Node
from tests.api.resp.resp_world import Cluster, cluster, granted, run, token_for, until
from tools.programs import redis_cli

PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])
GRANTS = AccessTable(
    grants=(
        granted("ci", AccessRole.WRITER, prefixes=(b"ci/",)),
        granted("reader", AccessRole.READER),
    )
)
CI = token_for("ci")
REFUSED = r"invalid username-password|Authentication required|must be called with AUTH"


def put_in_force(node: Node, table: AccessTable) -> None:
    node.access.change(lambda _: table, lambda _: None)


def with_tokens(story: Callable[[Cluster, int], Awaitable[None]]) -> None:
    async def told() -> None:
        async with cluster(1, "tokens") as (built, (port,)):
            put_in_force(built.nodes[1], GRANTS)
            await until(lambda: built.nodes[1].access.of_token(CI.encode()) is not None)
            await story(built, port)

    run(told)


@PROTOCOLS
@pytest.mark.parametrize("shown", [{"username": "ci", "password": CI}, {"password": CI}])
def test_redis_py_with_a_token(protocol: int, shown: dict[str, Any]) -> None:
    async def story(built: Cluster, port: int) -> None:
        once = Retry(NoBackoff(), 0)  # By default it tries again, for seconds, when it is refused.
        async with redis.asyncio.Redis(port=port, protocol=protocol, retry=once, **shown) as client:
            assert await client.set("ci/a", "1") is True
            assert await client.get("ci/a") == b"1"
            assert await client.acl_whoami() in (b"ci", "ci")
            assert [each["user"] for each in await client.client_list()] == ["ci"]
            with pytest.raises(NoPermissionError, match="'other' is outside of the prefixes of ci"):
                await client.get("other")
            pipeline = client.pipeline(transaction=False)
            for key in ("ci/a", "x", "ci/a"):
                pipeline.get(key)
            replies = await pipeline.execute(raise_on_error=False)
            assert (replies[0], replies[2]) == (b"1", b"1")
            assert isinstance(replies[1], NoPermissionError)
            transaction = client.pipeline(transaction=True)
            transaction.set("ci/t", "1")
            transaction.incr("ci/t")
            assert await transaction.execute() == [True, 2]
            transaction = client.pipeline(transaction=True)
            transaction.set("ci/t", "1")
            transaction.set("t", "1")
            with pytest.raises(ResponseError, match="outside of the prefixes"):
                await transaction.execute()
            assert [key async for key in client.scan_iter()] == [b"ci/a", b"ci/t"]
            put_in_force(built.nodes[1], AccessTable())
            await until(lambda: not built.nodes[1].access.table.grants)
            with pytest.raises(AuthenticationError, match="Authentication required"):
                await client.get("ci/a")

    with_tokens(story)


@PROTOCOLS
@pytest.mark.parametrize("shown", [{"username": "reader", "password": CI}, {"password": "wrong"}, {}])
def test_redis_py_with_a_wrong_one(protocol: int, shown: dict[str, Any]) -> None:
    async def story(_: Cluster, port: int) -> None:
        once = Retry(NoBackoff(), 0)
        async with redis.asyncio.Redis(port=port, protocol=protocol, retry=once, **shown) as client:
            with pytest.raises(
                (AuthenticationError, ResponseError),
                match=REFUSED,
            ):
                await client.get("ci/a")

    with_tokens(story)


async def cli(port: int, *arguments: str, **variables: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(redis_cli()),
        *("-p", str(port)),
        *arguments,
        env=os.environ | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    return told.decode().strip()


def test_redis_cli_with_a_token() -> None:
    async def told() -> None:
        async with cluster(1, "tokens") as (built, (port,)):
            put_in_force(built.nodes[1], GRANTS)
            assert await cli(port, "--user", "ci", "--pass", CI, "--no-auth-warning", "SET", "ci/k", "v") == "OK"
            assert await cli(port, "GET", "ci/k", REDISCLI_AUTH=CI) == "v"
            assert await cli(port, "GET", "ci/k") == "NOAUTH Authentication required."
            refused = await cli(port, "GET", "ci/k", REDISCLI_AUTH="wrong")
            assert refused.startswith("AUTH failed: WRONGPASS invalid username-password pair")
            assert "NOPERM 'k' is outside" in await cli(port, "SET", "k", "v", REDISCLI_AUTH=CI)

    asyncio.run(asyncio.wait_for(told(), 60))
