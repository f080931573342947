"""What a Redis client may do: roles, prefixes, quotas, and what a change of grants does to open connections.

Rules are also broken on purpose, to show that their tests notice."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epoxy.api.resp import command, session_access, transactions
from epoxy.api.resp import server as server_module
from epoxy.api.resp.connection import RespConnection
from epoxy.api.resp.server import RespServer
from epoxy.codec.resp import array, bulk
from epoxy.model.access import AccessRole, Grant
from epoxy.model.transactions import Done, Executed
from epoxy.transport.http.response_cache import ResponseCache
from epoxy.transport.tls import client_context, server_context
from tests.api.resp.resp_world import (
    FakeNode,
    Rope,
    World,
    committed,
    granted,
    proposal,
    run,
    token_for,
    turns,
    until,
    world,
)
from tests.transport.test_tls import Office

OK, QUEUED = b"+OK\r\n", b"+QUEUED\r\n"
NIL = b"$-1\r\n"
NOAUTH = b"-NOAUTH Authentication required.\r\n"

USERS = granted("users", AccessRole.WRITER, prefixes=(b"user/", b"room/"))
READER = granted("reader", AccessRole.READER)
OPERATOR = granted("root", AccessRole.OPERATOR)
ALL = [USERS, READER, OPERATOR]


async def client_of(at: World, grant: Grant) -> Rope:
    client = await at.connect()
    await client.says(f"AUTH {grant.name} {token_for(grant.name)}", OK)
    return client


def outside(key: str) -> bytes:
    return b"-NOPERM '%b' is outside of the prefixes of users: user/, room/\r\n" % key.encode()


def test_roles_and_prefixes_limit_commands_and_their_keys() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            users, reader, root = [await client_of(at, grant) for grant in ALL]
            at.node.held = {b"user/a": proposal(b"1"), b"tenant/b": proposal(b"2")}
            await users.says("GET user/a", bulk(b"1"))
            await users.says("GET tenant/b", outside("tenant/b"))
            await users.says("GET use", outside("use"))
            await users.says("MGET user/a tenant/b", outside("tenant/b"))
            await users.says("DEL user/a tenant/b", outside("tenant/b"))
            await users.says("WATCH user/a tenant/b", outside("tenant/b"))
            await users.says("SET tenant/b x", outside("tenant/b"))
            await reader.says("GET tenant/b", bulk(b"2"))
            await reader.says("SET tenant/b x", b"-NOPERM SET needs writer; reader is reader\r\n")
            await root.says("GET tenant/b", b"-NOPERM GET needs reader or writer; root is operator\r\n")
            await root.says("PING", b"+PONG\r\n")
            assert at.node.asked == 0
            users.send("SET user/a 2")
            await until(lambda: len(at.node.writes) == 1)
            at.node.writes[0][1](committed(b"2"))
            await users.expect(OK)

    run(story)


async def revocation(at: World) -> None:
    """A session whose grant is revoked, changed, or given anew."""
    client = await client_of(at, READER)
    at.node.held = {b"k": proposal(b"1", mutable=False)}
    for _ in range(3):
        await client.says("GET k", bulk(b"1"))
    at.node.access.grant(OPERATOR)
    await client.says("GET k", NOAUTH)
    client.raw(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" * 3)
    await client.expect(NOAUTH * 3)
    at.node.access.grant(granted("reader", AccessRole.READER, prefixes=(b"a",)))
    await client.says("GET k", b"-NOPERM 'k' is outside of the prefixes of reader: a\r\n")
    at.node.access.grant(READER)
    await client.says("GET k", bulk(b"1"))
    at.node.access.grant(granted("reader", AccessRole.READER, digests=granted("x").digests))
    await client.says("GET k", NOAUTH)


def test_a_session_follows_its_grant() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            await revocation(at)

    run(story)


def test_planted_a_session_that_keeps_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RespConnection, "_identify_again", lambda _: None)

    async def story() -> None:
        async with world(grants=ALL) as at:
            with pytest.raises(AssertionError):
                await revocation(at)

    run(story)


async def commands_that_wait(at: World) -> None:
    """Of one chunk, the first command is under way when the grant is revoked."""
    client = await client_of(at, USERS)
    client.send("SET user/a 1", "SET user/a 2", "GET user/a")
    await until(lambda: len(at.node.writes) == 1)
    at.node.access.grant()
    at.node.writes.popleft()[1](committed(b"1"))
    await client.expect(OK + NOAUTH + NOAUTH)
    assert not at.node.writes


def test_commands_that_wait_are_checked_when_they_begin() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            await commands_that_wait(at)

    run(story)


def test_a_command_that_has_begun_ends_also_if_its_grant_ends_before() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            client = await client_of(at, USERS)
            at.node.room = 1
            client.send("DEL user/a user/b")
            await until(lambda: len(at.node.writes) == 1)
            at.node.access.grant()
            client.send("PING")
            for _ in range(2):
                await until(lambda: bool(at.node.writes))
                at.node.writes.popleft()[1](committed(b"1"))
            await client.expect(b":2\r\n" + NOAUTH)

    run(story)


async def cached(at: World) -> None:
    at.node.held = {b"user/a": proposal(b"1", mutable=False), b"tenant/b": proposal(b"2", mutable=False)}
    reader, users, root = await client_of(at, READER), await client_of(at, USERS), await client_of(at, OPERATOR)
    for key, value in ((b"user/a", b"1"), (b"tenant/b", b"2")):
        await reader.says(b"GET " + key, bulk(value))
    peeked = at.node.peeked
    await users.says("GET user/a", bulk(b"1"))
    await users.says("GET tenant/b", outside("tenant/b"))
    users.send("GET user/a", "GET tenant/b", "GET user/a")
    await users.expect(bulk(b"1") + outside("tenant/b") + bulk(b"1"))
    await root.says("GET user/a", b"-NOPERM GET needs reader or writer; root is operator\r\n")
    stranger = await at.connect()
    await stranger.says("GET user/a", NOAUTH)
    assert at.node.peeked == peeked, "all of it from the cache"
    assert at.door.newest_values.served >= 1, "some of it without parsing"


def test_a_cached_value_is_given_to_those_alone_who_may_read_its_key() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            await cached(at)

    run(story)


@pytest.mark.parametrize(
    ("where", "name", "wrong"),
    [
        (RespConnection, "_may_read_all", lambda *_: True),
        (session_access, "refusal", lambda *_: None),
        (ResponseCache, "keep", lambda *_: None),
    ],
)
def test_planted_cached_values_for_strangers(
    where: Any, name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one plants no fault of access: it shows that the test sees whether the cache was used."""
    monkeypatch.setattr(where, name, wrong)

    async def story() -> None:
        async with world(grants=ALL) as at:
            with pytest.raises(AssertionError):
                await cached(at)

    run(story)


def test_what_is_remembered_of_checked_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CHECKED", 20)

    async def story() -> None:
        async with world(grants=ALL) as at:
            users = await client_of(at, USERS)
            for number in range(100):
                at.node.held[b"user/%d" % number] = proposal(b"1", mutable=False)
                for _ in range(3):
                    await users.says(f"GET user/{number}", bulk(b"1"))
                assert sum(map(len, at.door._checked.values())) <= 20
            for _ in range(5):
                at.node.access.grant(*ALL)
                await users.says("GET user/1", bulk(b"1"))
            assert len(at.door._checked) == 1

    run(story)


async def keys_of_scripts(at: World) -> None:
    """Every key that a script counts is checked, and no argument is taken for one."""
    client = await client_of(at, USERS)
    await client.says("EVAL return 2 user/a tenant/b", outside("tenant/b"))
    await client.says("EVAL return 0 tenant/b", NIL)
    for name in ("EVAL", "EVAL_RO"):
        await client.says("MULTI", OK)
        await client.says(f"{name} return 2 user/a tenant/b", outside("tenant/b"))
        await client.says("EXEC", b"-EXECABORT Transaction discarded because of previous errors.\r\n")


def test_all_keys_of_a_script_are_checked() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            await keys_of_scripts(at)

    run(story)


def test_planted_scripts_of_which_one_key_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "key_count", lambda _: 1)

    async def story() -> None:
        async with world(grants=ALL) as at:
            told = keys_of_scripts(at)
            with pytest.raises(AssertionError):
                await impatient(at, told)

    run(story)


async def transaction(at: World) -> None:
    """Rights are checked when a command is queued, and for all of it at EXEC."""
    client = await client_of(at, USERS)
    await client.says("MULTI", OK)
    await client.says("SET user/a 1", QUEUED)
    await client.says("GET tenant/b", outside("tenant/b"))
    await client.says("SET user/a 2", QUEUED)
    await client.says("EXEC", b"-EXECABORT Transaction discarded because of previous errors.\r\n")
    narrower = granted("users", AccessRole.WRITER, prefixes=(b"room/",))
    for changed, refusal in (
        (narrower, "'user/a' is outside of the prefixes of users: room/"),
        (granted("users", AccessRole.READER), "this transaction needs writer; users is reader"),
        (granted("users", AccessRole.OPERATOR), "this transaction needs reader or writer; users is operator"),
    ):
        at.node.access.grant(*ALL)
        await client.says("MULTI", OK)
        await client.says("GET user/a", QUEUED)
        await client.says("SET user/b 1", QUEUED)
        at.node.access.grant(changed)
        await client.says("EXEC", f"-NOPERM nothing was done: {refusal}\r\n".encode())
        await client.says("EXEC", b"-ERR EXEC without MULTI\r\n")
    assert not at.node.txns


def test_a_transaction_is_checked_when_it_is_queued_and_when_it_is_executed() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            await transaction(at)

    run(story)


def test_planted_exec_without_another_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "transaction_refusal", lambda *_: None)

    async def story() -> None:
        async with world(grants=ALL) as at:
            told = transaction(at)
            with pytest.raises(AssertionError):
                await impatient(at, told)

    run(story)


async def transaction_of_one_key(at: World) -> None:
    """The same for commands of one key, which are one write."""
    client = await client_of(at, USERS)
    for changed, refusal in (
        (
            granted("users", AccessRole.WRITER, prefixes=(b"room/",)),
            "'user/a' is outside of the prefixes of users: room/",
        ),
        (granted("users", AccessRole.READER), "SET needs writer; users is reader"),
        (granted("users", AccessRole.OPERATOR), "GET needs reader or writer; users is operator"),
    ):
        at.node.access.grant(*ALL)
        await client.says("MULTI", OK)
        await client.says("GET user/a", QUEUED)
        await client.says("SET user/a 1", QUEUED)
        at.node.access.grant(changed)
        await client.says("EXEC", f"-NOPERM nothing was done: {refusal}\r\n".encode())
    assert not at.node.writes


def test_commands_of_one_key_are_checked_when_they_are_executed() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            await transaction_of_one_key(at)

    run(story)


def test_planted_exec_of_one_key_without_another_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "steps_refusal", lambda *_: None)

    async def story() -> None:
        async with world(grants=ALL) as at:
            told = transaction_of_one_key(at)
            with pytest.raises(AssertionError):
                await impatient(at, told)

    run(story)


async def impatient(at: World, story: Any) -> None:
    """A story that would wait for a transaction for ever."""

    async def reached() -> None:
        await until(lambda: bool(at.node.txns or at.node.writes))
        raise AssertionError("a transaction that is not allowed reached the node")

    tasks = [asyncio.ensure_future(story), asyncio.ensure_future(reached())]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    for task in done:
        task.result()


def test_values_that_were_watched_by_another_grant_are_not_told() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            client = await client_of(at, READER)
            at.node.held = {b"tenant/b": proposal(b"2")}
            await client.says("WATCH tenant/b", OK)
            await client.says(f"AUTH users {token_for('users')}", OK)
            await client.says("GET tenant/b", outside("tenant/b"))
            await client.says("MULTI", OK)
            await client.says("GET user/a", QUEUED)
            await client.says("EXEC", b"-NOPERM nothing was done: " + outside("tenant/b")[8:])
            assert not at.node.txns

    run(story)


def test_a_revoked_client_s_multi_is_over() -> None:
    """A library gives the connection to its next caller, who must not find it inside of a MULTI."""

    async def story() -> None:
        async with world(grants=ALL) as at:
            client = await client_of(at, USERS)
            await client.says("MULTI", OK)
            await client.says("SET user/a 1", QUEUED)
            at.node.access.grant(OPERATOR)
            await client.says("SET user/b 1", NOAUTH)
            at.node.access.grant(*ALL)
            await client.says("EXEC", b"-EXECABORT Transaction discarded because of previous errors.\r\n")
            await client.says("MULTI", OK)
            at.node.access.grant(OPERATOR)
            await client.says("EXEC", NOAUTH)
            at.node.access.grant(*ALL)
            await client.says("EXEC", b"-ERR EXEC without MULTI\r\n")

    run(story)


async def keys_found(client: Rope, command: str = "SCAN") -> tuple[list[bytes], int]:
    """All pages of a scan, and their number."""
    found: list[bytes] = []
    cursor, pages = b"0", 0
    while pages == 0 or cursor != b"0":
        word, *options = command.split()
        client.send(b" ".join([word.encode(), cursor, *map(str.encode, options)]))
        assert await client.line() == "*2"
        await client.line()
        cursor = (await client.line()).encode()
        for _ in range(int((await client.line())[1:])):
            await client.line()
            found.append((await client.line()).encode())
        pages += 1
    return found, pages


def test_scan_and_dbsize_show_what_is_under_the_prefixes() -> None:
    async def story() -> None:
        async with world(grants=ALL) as at:
            users, reader = await client_of(at, USERS), await client_of(at, READER)
            names = [b"room/1", b"room/2", b"user/a", b"user/b", b"user/c"]
            others = [b"aa", b"roof", b"tenant/1", b"user", b"user0", b"zz"]
            at.node.held = {key: proposal(b"v") for key in [*names, *others]}
            at.node.held[b"user/d"] = proposal(None)
            assert await keys_found(users) == (names, 2)
            assert await keys_found(users, "SCAN COUNT 1") == (names, 6)
            assert await keys_found(users, "SCAN MATCH u*") == ([b"user/a", b"user/b", b"user/c"], 1)
            assert await keys_found(users, "SCAN MATCH user/b*") == ([b"user/b"], 1)
            assert await keys_found(users, "SCAN MATCH tenant/*") == ([], 1)
            assert (await keys_found(reader, "SCAN COUNT 100"))[0] == sorted([*names, *others])
            await users.says("DBSIZE", b":5\r\n")
            await reader.says("DBSIZE", b":11\r\n")
            users.send("DBSIZE")
            reader.send("DBSIZE")
            await users.expect(b":5\r\n")
            await reader.expect(b":11\r\n")

    run(story)


def test_quotas_of_requests() -> None:
    async def story() -> None:
        limited = granted("slow", AccessRole.WRITER, requests_per_s=10)
        async with world(grants=[*ALL, limited]) as at:
            client, other = await client_of(at, limited), await client_of(at, READER)
            at.node.held = {b"k": proposal(b"1", mutable=False)}
            for _ in range(3):
                await client.says("GET k", bulk(b"1"))
            at.node.quotas.wait = 0.25
            refused = b"-QUOTA nothing was done: slow may send 10 a second to this node; try again in 0.25 s\r\n"
            await client.says("GET k", refused)
            await client.says("PING", refused)
            await other.says("GET k", bulk(b"1"))
            at.node.quotas.wait = 0.0
            await client.says("MULTI", OK)
            await client.says("SET k 1", QUEUED)
            at.node.quotas.wait = 0.25
            await client.says("SET k 2", refused)
            at.node.quotas.wait = 0.0
            await client.says("EXEC", b"-EXECABORT Transaction discarded because of previous errors.\r\n")

    run(story)


def test_quotas_of_bytes() -> None:
    async def story() -> None:
        limited = granted("small", AccessRole.WRITER, stored_bytes=1000)
        async with world(grants=[*ALL, limited]) as at:
            client, other = await client_of(at, limited), await client_of(at, USERS)
            at.node.quotas.room = 5
            refused = b"-QUOTA nothing was written: there is no room\r\n"
            for command in ("SET k 12345", "SETNX k 12345", "GETSET k 12345", "INCR k"):
                await client.says(command, refused)
            await client.says("MULTI", OK)
            await client.says("SET k 12345", QUEUED)
            await client.says("EXEC", refused)
            assert at.node.asked == 0
            at.node.held = {b"long": proposal(b"123456"), b"copy": proposal(None)}
            await client.says("COPY long copy", refused)
            assert not at.node.txns
            client.send("SET k 1234", "DEL k")
            other.send("SET user/a 1234567")
            for _ in range(3):
                await until(lambda: bool(at.node.writes))
                at.node.writes.popleft()[1](committed(b"1234"))
                await turns()
            await client.expect(OK + b":1\r\n")
            await other.expect(OK)
            assert at.node.quotas.charged == [b"k", b"k"]
            await client.says("MULTI", OK)
            await client.says("SET j 1", QUEUED)
            await client.says("SET i 1", QUEUED)
            client.send("EXEC")
            await until(lambda: bool(at.node.txns))
            done = Done(value=None)
            at.node.txns.popleft()[1](Executed(succeeded=True, done=(done, done)))
            await client.expect(array([OK, OK]))
            assert at.node.quotas.charged == [b"k", b"k", b"j", b"i"]

    run(story)


def test_a_certificate_stands_for_a_grant_and_a_token_for_another(tmp_path: Path) -> None:
    """The grant is looked up by the certificate's names again when grants change, and after RESET."""
    office = Office(tmp_path, "ca")
    serving = server_context(*office.issue("127.0.0.1"), office.ca)
    ours = client_context(*office.issue("ci.example.com"), office.ca)
    by_name = Grant(name="certified", roles=(AccessRole.READER,), san="ci.example.com")

    async def story() -> None:
        node = FakeNode([READER])
        server = RespServer(node)
        async with await server.serve("127.0.0.1", 0, ssl=lambda: serving) as listener:
            port = listener.sockets[0].getsockname()[1]
            client = Rope(*await asyncio.open_connection("127.0.0.1", port, ssl=ours, server_hostname="127.0.0.1"))
            await client.says("PING", NOAUTH)
            node.access.grant(READER, by_name)
            await client.says("ACL WHOAMI", bulk(b"certified"))
            await client.says(f"AUTH {token_for('reader')}", OK)
            await client.says("ACL WHOAMI", bulk(b"reader"))
            await client.says("RESET", b"+RESET\r\n")
            await client.says("ACL WHOAMI", bulk(b"certified"))
            node.access.grant(READER)
            await client.says("PING", NOAUTH)
            client.writer.transport.abort()
            await until(lambda: not server.connections)

    run(story)
