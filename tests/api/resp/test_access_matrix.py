"""Every command, with every role, without a token, with a wrong one, a right one, one that was revoked, and one that is
over: allowed or refused as the table in docs/security.md says.

The table is compared with the declarations of the commands, too, and commands are declared wrongly on purpose, to show
that the matrix notices."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from epoxy.api.resp import connection as connection_module
from epoxy.api.resp.command import CommandSpec
from epoxy.api.resp.server import RespServer
from epoxy.codec.resp import array, bulk
from epoxy.model.access import SATISFYING, Access, AccessRole, AccessTable, Grant
from epoxy.node.access.guesses import Guesses
from epoxy.node.service import Node
from tests.api.resp.resp_world import Cluster, FakeNode, granted, token_for

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
ROW = re.compile(r"\| (.+?) \| ((?:`[A-Z._]+`(?:, )?)+) \|")
DEMANDS: dict[str, frozenset[AccessRole] | None] = {
    "nothing": None,
    "a grant, of any role": SATISFYING[Access.ANY],
    "`reader` or `writer`": SATISFYING[Access.READ],
    "`writer`": SATISFYING[Access.WRITE],
}
"""The roles that do, by the words of the page; None: no grant is needed."""

State = Literal["none", "wrong", "right", "revoked", "expired"]
STATES: tuple[State, ...] = ("none", "wrong", "right", "revoked", "expired")
END_S = 4_000_000_000
"""When every grant of the matrix is over."""

INSIDE, OUTSIDE = b"user/k", b"tenant/k"


def page_table() -> dict[str, str]:
    """What each command demands, by the page."""
    rows = [row for row in map(ROW.fullmatch, PAGE.read_text("utf-8").splitlines()) if row and row[1] in DEMANDS]
    return {name: row[1] for row in rows for name in re.findall(r"`([A-Z._]+)`", row[2])}


def specs() -> dict[str, CommandSpec]:
    return {spec.name.upper(): spec for spec in RespServer(FakeNode()).table.values()}


def test_the_page_says_what_the_commands_declare() -> None:
    words = dict(zip((Access.PUBLIC, Access.ANY, Access.READ, Access.WRITE), DEMANDS, strict=True))
    assert page_table() == {name: words[spec.access] for name, spec in specs().items()}


def grants() -> list[Grant]:
    """One for each role, one with all others than it, and one that stays in force."""
    some = [granted(role.value, role, expires_s=END_S) for role in AccessRole]
    limited = [
        granted(f"{role.value}-of-users", role, prefixes=(b"user/",), expires_s=END_S)
        for role in (AccessRole.READER, AccessRole.WRITER)
    ]
    return [*some, *limited]


LASTING = granted("lasting", AccessRole.OPERATOR)


class QuickGuesses(Guesses):
    """Wrong tokens do not wait: there are hundreds."""

    def wrong(self, address: str, name: str) -> float:
        super().wrong(address, name)
        return 0.0


@asynccontextmanager
async def guarded(change: Callable[[RespServer], None]) -> AsyncIterator[tuple[Node, int]]:
    cluster = Cluster(1, "tokens")
    node = cluster.nodes[1]
    node.guesses = QuickGuesses()
    server = RespServer(node)
    change(server)
    listener = await server.serve("127.0.0.1", 0)
    try:
        yield node, listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        server.abort()
        await asyncio.sleep(0)
        cluster.stop()


async def put_in_force(node: Node, *some: Grant) -> None:
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    table = AccessTable(grants=tuple(sorted(some, key=lambda grant: grant.name)))
    node.access.change(lambda _: table, done.set_result)
    assert isinstance(await done, AccessTable)


def words_of(spec: CommandSpec, key: bytes) -> list[bytes]:
    """As many arguments as it needs, all of them this key. What needs no grant comes with a token that is right."""
    match spec.name:
        case "auth":
            return [b"AUTH", token_for("lasting").encode()]
        case "hello":
            return [b"HELLO", b"3", b"AUTH", b"lasting", token_for("lasting").encode()]
        case "eval" | "eval_ro" | "evalsha" | "evalsha_ro":
            return [spec.name.encode(), b"return 1", b"1", key]
        case _:
            return [spec.name.encode(), *[key] * (abs(spec.arity) - 1)]


class Caller:
    """A connection in one of the states."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def call(self, *words: bytes) -> str:
        """The first line of the reply."""
        self.writer.write(array([bulk(word) for word in words]))
        return (await self._reader.readline()).decode()


async def callers(port: int, count: int, state: State, grant: Grant) -> list[Caller]:
    made = [Caller(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]
    for each in made:
        if state == "wrong":
            assert await each.call(b"AUTH", token_for(f"not {grant.name}").encode()) == WRONG
        elif state != "none":
            assert await each.call(b"AUTH", grant.name.encode(), token_for(grant.name).encode()) == "+OK\r\n"
    return made


WRONG = "-WRONGPASS invalid username-password pair\r\n"


def expected(demand: str, spec: CommandSpec, state: State, grant: Grant, key: bytes) -> str:
    """The code of the refusal, or nothing."""
    enough = DEMANDS[demand]
    if enough is None:
        return ""
    if state != "right":
        return "NOAUTH"
    is_outside = spec.first_key > 0 and grant.prefixes and not key.startswith(grant.prefixes)
    return "NOPERM" if enough.isdisjoint(grant.roles) or (is_outside and demand != "a grant, of any role") else ""


def code_of(reply: str) -> str:
    code = reply[1:].split(" ")[0] if reply.startswith("-") else ""
    return code if code in ("NOAUTH", "NOPERM", "WRONGPASS") else ""


async def wrong_answers(
    state: State, change: Callable[[RespServer], None] = lambda _: None, *, only: str = ""
) -> list[str]:
    """What is not as the page says; of all commands, or one."""
    found: list[str] = []
    demands, commands = page_table(), specs()
    commands = {only: commands[only]} if only else commands
    async with guarded(change) as (node, port):
        for grant in grants():
            for key in (INSIDE, OUTSIDE) if grant.prefixes else (INSIDE,):
                await put_in_force(node, *grants(), LASTING)
                made = await callers(port, len(commands), state, grant)
                if state == "revoked":
                    await put_in_force(node, LASTING)
                elif state == "expired":
                    node.access._unix_s = lambda: END_S
                    node.access._end_what_is_over()
                for (name, spec), caller in zip(commands.items(), made, strict=True):
                    reply = await caller.call(*words_of(spec, key))
                    if code_of(reply) != expected(demands[name], spec, state, grant, key):
                        found.append(f"{name} {key.decode()}, {state}, {grant.name}: {reply}")
                    caller.writer.transport.abort()
                node.access._unix_s = lambda: 0
                node.access._renew()
    return found


@pytest.mark.parametrize("state", STATES)
def test_every_command_with_every_role(state: State) -> None:
    async def story() -> None:
        assert await wrong_answers(state) == []

    asyncio.run(asyncio.wait_for(story(), 60))


def declared(name: str, access: Access) -> Callable[[RespServer], None]:
    def change(server: RespServer) -> None:
        for each in (name.upper().encode(), name.encode()):
            server.table[each] = msgspec.structs.replace(server.table[each], access=access)

    return change


@pytest.mark.parametrize(
    ("name", "access", "state", "seen"),
    [
        ("set", Access.READ, "right", "SET user/k, right, reader:"),
        ("get", Access.ANY, "right", "GET user/k, right, operator:"),
        ("scan", Access.ANY, "right", "SCAN user/k, right, caller:"),
        ("info", Access.PUBLIC, "none", "INFO user/k, none, reader:"),
        ("get", Access.PUBLIC, "revoked", "GET user/k, revoked, reader:"),
        ("ping", Access.READ, "right", "PING user/k, right, operator:"),
    ],
)
def test_planted_a_command_that_demands_something_else(name: str, access: Access, state: State, seen: str) -> None:
    async def story() -> None:
        found = await wrong_answers(state, declared(name, access), only=name.upper())
        assert any(line.startswith(seen) for line in found), found

    asyncio.run(asyncio.wait_for(story(), 60))


def test_planted_a_token_that_is_over_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module.RespConnection, "_identify_again", lambda _: None)

    async def story() -> None:
        assert await wrong_answers("expired", only="GET")
        assert await wrong_answers("revoked", only="GET")

    asyncio.run(asyncio.wait_for(story(), 60))
