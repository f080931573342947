"""Commands of the connection: what clients and tools send on their own."""

import asyncio

import pytest

from epoxy import __version__
from epoxy.api.resp.admin import flat
from epoxy.codec import resp
from epoxy.model.access import AccessRole
from epoxy.node.access.guesses import Guesses
from tests.api.resp.resp_world import Rope, granted, run, token_for, until, world

PONG = b"+PONG\r\n"
NOAUTH = b"-NOAUTH Authentication required.\r\n"
WRONG = b"-WRONGPASS invalid username-password pair\r\n"


async def text(client: Rope, command: str) -> str:
    client.send(command)
    size = int((await client.line())[1:])
    return (await client.take(size + 2)).decode().removesuffix("\r\n")


def socket_name(client: Rope) -> str:
    host, port = client.writer.get_extra_info("sockname")
    return f"{host}:{port}"


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("PING", PONG),
        ("PING hey", b"$3\r\nhey\r\n"),
        ("PING a b", b"-ERR wrong number of arguments for 'ping' command\r\n"),
        ("ECHO hey", b"$3\r\nhey\r\n"),
        ("SELECT 0", b"+OK\r\n"),
        ("SELECT 1", b"-ERR DB index is out of range: 0 is the only database\r\n"),
        ("SELECT x", b"-ERR value is not an integer or out of range\r\n"),
        ("READCONSISTENT", b"+OK\r\n"),
        ("READOPTIMISTIC", b"+OK\r\n"),
        ("AUTH secret", b"+OK\r\n"),
        ("AUTH default secret", b"+OK\r\n"),
        ("AUTH ci secret", b"+OK\r\n"),
        ("ACL WHOAMI", b"$7\r\ndefault\r\n"),
        (
            "ACL SETUSER x",
            b"-ERR unknown subcommand or wrong number of arguments for ACL 'SETUSER': "
            b"only WHOAMI is offered; change grants with epoxy auth\r\n",
        ),
        ("HELLO 4", b"-NOPROTO this server speaks RESP2 and RESP3\r\n"),
        ("HELLO x", b"-ERR value is not an integer or out of range\r\n"),
        ("HELLO 3 AUTH default", b"-ERR syntax error in HELLO\r\n"),
        ("HELLO 3 NONSENSE x", b"-ERR syntax error in HELLO\r\n"),
        ("CLIENT ID", b":1\r\n"),
        ("CLIENT GETNAME", b"$-1\r\n"),
        ("CLIENT SETINFO LIB-NAME redis-py", b"+OK\r\n"),
        ("CLIENT NO-EVICT on", b"+OK\r\n"),
        ("CLIENT KILL 1", b"-ERR unknown subcommand or wrong number of arguments for CLIENT 'KILL'\r\n"),
        ("CONFIG GET databases", b"*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n"),
        ("CONFIG GET nothing", b"*0\r\n"),
        ("COMMAND NONSENSE", b"-ERR unknown subcommand or wrong number of arguments for COMMAND 'NONSENSE'\r\n"),
    ],
)
def test_replies(command: str, reply: bytes) -> None:
    async def story() -> None:
        async with world() as at:
            await (await at.connect()).says(command, reply)

    run(story)


def test_config_is_read_and_not_set() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("CONFIG SET maxmemory 1", "CONFIG GET max* save", "CONFIG GET")
            assert (await client.line()).endswith("'SET': only GET is offered; change settings in epoxy.toml")
            assert await client.line() == "*6"
            for name in ("save", "maxmemory", "maxclients"):
                await client.line()
                assert await client.line() == name
                await client.line()
                await client.line()
            assert (await client.line()).startswith("-ERR unknown subcommand")

    run(story)


def test_config_takes_a_few_patterns_at_a_time() -> None:
    """Each is compiled: a thousand of the longest took seconds, in which nobody else was served."""

    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("CONFIG GET " + "databases " * 16, b"*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n")
            await client.says(
                "CONFIG GET " + "databases " * 17, b"-ERR CONFIG GET takes at most 16 patterns at a time\r\n"
            )

    run(story)


def test_a_client_has_a_name() -> None:
    async def story() -> None:
        async with world() as at:
            client, other = await at.connect(), await at.connect()
            await client.says("CLIENT SETNAME ada", b"+OK\r\n")
            await client.says("CLIENT GETNAME", b"$3\r\nada\r\n")
            await other.says("READCONSISTENT", b"+OK\r\n")
            here = f"addr={socket_name(client)} laddr=127.0.0.1:{at.port}"
            there = f"addr={socket_name(other)} laddr=127.0.0.1:{at.port}"
            rest = "db=0 user=default resp=2 reads"
            assert await text(client, "CLIENT INFO") == f"id=1 {here} name=ada {rest}=optimistic\n"
            assert (await text(client, "CLIENT LIST")).splitlines()[1] == f"id=2 {there} name= {rest}=consistent"
            client.raw(resp.array([resp.bulk(word) for word in (b"CLIENT", b"SETNAME", b"with blank")]))
            assert "no spaces" in await client.line()

    run(story)


def test_hello_greets_and_switches() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            fields = (
                b"$6\r\nserver\r\n$5\r\nepoxy\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
            )
            fields += b"$4\r\nrole\r\n$6\r\nmaster\r\n$5\r\nproto\r\n:%d\r\n$2\r\nid\r\n:1\r\n$7\r\nmodules\r\n*0\r\n"
            await client.says("HELLO", b"*14\r\n" + fields % 2)
            await client.says("HELLO 3 SETNAME ada", b"%7\r\n" + fields % 3)
            await client.says("CLIENT GETNAME", b"$3\r\nada\r\n")
            await client.says("HELLO", b"%7\r\n" + fields % 3)
            await client.says("CONFIG GET databases", b"%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n")
            client.send("CLIENT INFO")
            assert (await client.line())[0] == "="
            await client.line()
            await client.expect(b"\r\n")
            await client.says("RESET", b"+RESET\r\n")
            await client.says("CLIENT GETNAME", b"$-1\r\n")

    run(story)


CI = granted("ci", AccessRole.WRITER)
TOKEN = token_for("ci")


class DelayedGuesses(Guesses):
    """With delays that a test chooses."""

    def __init__(self, *delays: float) -> None:
        super().__init__()
        self._delays = list(delays)

    def wrong(self, address: str, name: str) -> float:
        super().wrong(address, name)
        return self._delays.pop(0)


def test_a_token_keeps_strangers_out() -> None:
    async def story() -> None:
        async with world(grants=[CI, granted("other", AccessRole.READER)]) as at:
            client = await at.connect()
            for command in ("PING", "GET k", "SET k v", "INFO", "CLIENT LIST", "COMMAND", "ACL WHOAMI"):
                await client.says(command, NOAUTH)
            await client.says("NONSENSE", b"-ERR unknown command 'NONSENSE'\r\n")
            await client.says("AUTH wrong", WRONG)
            await client.says("PING", NOAUTH)
            client.send("HELLO 3", "HELLO 3 AUTH default wrong")
            assert (await client.line()).startswith("-NOAUTH HELLO must be called with AUTH")
            await client.expect(WRONG)
            for words in (f"AUTH {TOKEN}", f"AUTH default {TOKEN}", f"AUTH ci {TOKEN}"):
                friend = await at.connect()
                await friend.says(words, b"+OK\r\n")
                await friend.says("PING", PONG)
                await friend.says("ACL WHOAMI", b"$2\r\nci\r\n")
                await friend.says("RESET", b"+RESET\r\n")
                await friend.says("PING", NOAUTH)
            stranger = await at.connect()
            await stranger.says(f"AUTH other {TOKEN}", WRONG)
            await stranger.says("PING", NOAUTH)
            await stranger.says("AUTH a b c", b"-ERR wrong number of arguments for 'auth' command\r\n")

    run(story)


def test_a_wrong_token_leaves_the_session_what_it_was() -> None:
    async def story() -> None:
        async with world(grants=[CI]) as at:
            client = await at.connect()
            await client.says(f"AUTH {TOKEN}", b"+OK\r\n")
            await client.says("AUTH wrong", WRONG)
            await client.says("ACL WHOAMI", b"$2\r\nci\r\n")

    run(story)


def test_wrong_tokens_are_counted_and_audited_and_their_refusals_wait() -> None:
    """Only the connection that waits is held up, and a right token does not wait."""

    async def story() -> None:
        async with world(grants=[CI]) as at:
            client, friend = await at.connect(), await at.connect()
            guesses = at.node.guesses = DelayedGuesses(0.0, 3600.0)
            await client.says("AUTH wrong", WRONG)
            client.send("AUTH ci wrong", "PING")
            await until(lambda: guesses.wrong_total == 2)
            await friend.says(f"AUTH {TOKEN}", b"+OK\r\n")
            await friend.says("PING", PONG)
            (waiting,) = [each for each in at.door.connections.values() if each.principal is None]
            assert waiting._delay is not None
            when = waiting._delay.when() - asyncio.get_running_loop().time()
            assert 3500 < when < 3601
            assert at.node.audit.counts == {"refused": 2}

    run(story)


def test_a_refusal_that_waits_is_answered_before_what_follows() -> None:
    async def story() -> None:
        async with world(grants=[CI]) as at:
            client = await at.connect()
            at.node.guesses = DelayedGuesses(0.001, 0.001)
            client.send("AUTH wrong", "HELLO 3 AUTH ci wrong", f"AUTH {TOKEN}", "PING")
            await client.expect(WRONG + WRONG + b"+OK\r\n" + PONG)

    run(story)


def test_hello_can_bring_the_token() -> None:
    async def story() -> None:
        async with world(grants=[CI]) as at:
            client = await at.connect()
            client.send(f"HELLO 3 AUTH default {TOKEN} SETNAME ada")
            assert await client.line() == "%7"
            again = await at.connect()
            again.send(f"HELLO 2 AUTH ci {TOKEN}")
            assert await again.line() == "*14"

    run(story)


def test_strangers_get_little_room_and_friends_the_usual() -> None:
    async def story() -> None:
        async with world(grants=[CI]) as at:
            stranger, friend = await at.connect(), await at.connect()
            stranger.raw(b"*2\r\n$4\r\nAUTH\r\n$100000\r\n")
            assert b"an argument of 100000 bytes, the limit is 16384" in await stranger.rest()
            await friend.says(f"AUTH {TOKEN}", b"+OK\r\n")
            friend.raw(resp.array([resp.bulk(b"ECHO"), resp.bulk(bytes(100_000))]))
            await friend.expect(resp.bulk(bytes(100_000)))
            at.node.access.grant()
            friend.raw(b"*2\r\n$4\r\nECHO\r\n$100000\r\n")
            assert b"an argument of 100000 bytes, the limit is 16384" in await friend.rest()

    run(story)


def test_only_operators_see_the_connections_of_others() -> None:
    async def story() -> None:
        async with world(grants=[CI, granted("root", AccessRole.OPERATOR)]) as at:
            client, twin, root, _ = [await at.connect() for _ in range(4)]
            for each, name in ((client, "ci"), (twin, "ci"), (root, "root")):
                await each.says(f"AUTH {token_for(name)}", b"+OK\r\n")
            await until(lambda: len(at.door.connections) == 4)
            assert "user=ci " in await text(client, "CLIENT INFO")
            shown = (await text(client, "CLIENT LIST")).splitlines()
            assert [line.split(" ")[0] for line in shown] == ["id=1", "id=2"]
            users = [line.split(" user=")[1].split(" ")[0] for line in (await text(root, "CLIENT LIST")).splitlines()]
            assert users == ["ci", "ci", "root", ""]

    run(story)


def test_info_tells_the_status_of_the_node() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            everything = (await text(client, "INFO")).splitlines()
            assert {"# Server", "# Clients", "# Epoxy", "redis_version:7.0.0", "connected_clients:1"} <= set(everything)
            assert {"datacenter:eu-west-1", "ready:1", "fast_path_share:"} <= set(everything)
            assert "peers0:id=2,rtt_ms=68.5,reachable=1" in everything
            assert (await text(client, "INFO clients")).splitlines() == ["# Clients", "connected_clients:1"]
            assert await text(client, "INFO nonsense") == ""

    run(story)


def test_commands_describe_themselves() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("COMMAND COUNT")
            count = int((await client.line())[1:])
            client.send("COMMAND LIST")
            assert await client.line() == f"*{count}"
            names = [(await client.line(), await client.line())[1] for _ in range(count)]
            assert len(set(names)) == count
            assert "get" in names
            assert "multi" in names
            assert "expire" in names
            get = b"*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*1\r\n+@string\r\n"
            get += b"*0\r\n" * 3
            await client.says("COMMAND INFO get nonsense", b"*2\r\n" + get + b"$-1\r\n")
            docs = b"*2\r\n$3\r\nget\r\n*6\r\n$7\r\nsummary\r\n$27\r\nThe value of a key, or nil.\r\n"
            docs += b"$5\r\nsince\r\n%b$5\r\ngroup\r\n$6\r\nstring\r\n" % resp.bulk_text(__version__)
            await client.says("COMMAND DOCS get nonsense", docs)
            client.send("COMMAND")
            assert await client.line() == f"*{count}"

    run(story)


def test_a_status_as_lines_of_info() -> None:
    """Lists of records and of plain texts, as `secrets` is one at a node that has files of them."""
    status: dict[str, object] = {"ready": True, "peers": [{"id": 2, "lag": None}], "secrets": ["cluster", "tls"]}
    assert dict(flat(status)) == {"ready": "1", "peers0": "id=2,lag=", "secrets0": "cluster", "secrets1": "tls"}
