"""What clients are told, in the words of a Sentinel."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.agent.connection import ReplyReader
from epoxy.agent.redis import Reply, ServerError
from epoxy.agent.sentinel import MAX_CHANNELS, SentinelSession, SentinelSource
from epoxy.model.elect_status import AgentStatus, NodeStatus
from epoxy.protocol.elect.operator_orders import FAILOVER, WINDOW_MS, Addressee, OperatorOrder, OrderDesk, proof_of
from tests.protocol.elect.bench import config_of

CONFIG = config_of("abc", cluster="mymaster")
SECRET, OLD_SECRET = b"0123456789abcdef", b"fedcba9876543210"


def node(name: str, **settings: object) -> NodeStatus:
    given = NodeStatus(
        id=name,
        server=f"{name}:2",
        control=f"{name}:1",
        priority=100,
        role="replica",
        state="busy",
        epoch=4,
        history=4,
        offset=77,
        seen_ms=10,
    )
    return replace(given, **settings)


STATUS = AgentStatus(
    cluster="mymaster",
    node="b",
    primary="a",
    primary_address="a:2",
    epoch=4,
    leader_epoch=4,
    leader="a",
    role="replica",
    state="busy",
    lease_ms=0,
    quorum=2,
    min_replicas_to_write=1,
    switches=1,
    guard=True,
    nodes=(node("a", role="primary", state="open"), node("b"), node("c", seen_ms=None)),
)
HEADLESS = replace(STATUS, primary=None, primary_address=None)


HERE = Addressee(cluster="mymaster", agent="b", life="1f")
NOW_MS = 1_800_000_000_000


def source_of(status: AgentStatus = STATUS, fail_over: Callable[[str], str | None] = lambda _: None) -> SentinelSource:
    return SentinelSource(
        config=lambda: CONFIG,
        desk=OrderDesk(HERE),
        secrets=lambda: (SECRET, OLD_SECRET),
        now_ms=lambda: NOW_MS,
        status=lambda: status,
        fail_over=fail_over,
    )


def session(status: AgentStatus = STATUS, asked: list[str] | None = None) -> SentinelSession:
    def fail_over(heir: str) -> str | None:
        (asked if asked is not None else []).append(heir)
        return "b is not the primary" if heir == "z" else None

    return SentinelSession(source_of(status, fail_over))


def order(
    heir: str, nonce: str = "1", time_ms: int = NOW_MS, secret: bytes = SECRET, to: Addressee = HERE
) -> list[str]:
    given = OperatorOrder(act=FAILOVER, target=heir, time_ms=time_ms, nonce=nonce)
    return ["ELECT", "FAILOVER", heir, str(time_ms), nonce, proof_of(secret, to, given)]


def say(to: SentinelSession, *words: str) -> Reply:
    (reply,) = ReplyReader().feed(to.answer([word.encode() for word in words]))
    return reply


def table(reply: Any) -> dict[str, str]:
    flat = [word.decode() for word in reply]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_the_address_of_the_primary() -> None:
    assert say(session(), "SENTINEL", "get-master-addr-by-name", "mymaster") == [b"a", b"2"]
    assert session().answer([b"sentinel", b"GET-MASTER-ADDR-BY-NAME", b"other"]) == b"*-1\r\n"
    assert session(HEADLESS).answer([b"SENTINEL", b"get-master-addr-by-name", b"mymaster"]) == b"*-1\r\n"


def test_the_masters_and_the_replicas() -> None:
    (master,) = say(session(), "SENTINEL", "masters")  # type: ignore[misc]
    told = table(master)
    assert (told["name"], told["ip"], told["port"], told["flags"]) == ("mymaster", "a", "2", "master")
    assert (told["num-slaves"], told["num-other-sentinels"], told["quorum"]) == ("2", "1", "2")
    assert told["parallel-syncs"] == "2", "all replicas copy at once"
    assert table(say(session(), "SENTINEL", "MASTER", "mymaster")) == told
    replicas = [table(each) for each in say(session(), "SENTINEL", "replicas", "mymaster")]  # type: ignore[union-attr]
    assert [(each["ip"], each["flags"]) for each in replicas] == [("b", "slave"), ("c", "slave,s_down")]
    assert say(session(), "SENTINEL", "slaves", "mymaster") == say(session(), "SENTINEL", "replicas", "mymaster")
    assert say(session(), "SENTINEL", "sentinels", "mymaster") == []


def test_without_a_primary_the_master_is_down() -> None:
    assert table(say(session(HEADLESS), "SENTINEL", "master", "mymaster"))["flags"] == "master,s_down,o_down"


def test_is_there_a_majority() -> None:
    assert say(session(), "SENTINEL", "CKQUORUM", "mymaster") == (
        b"OK 2 usable Sentinels. Quorum and failover authorization can be reached"
    )
    alone = replace(STATUS, nodes=(node("a", seen_ms=None), node("b"), node("c", seen_ms=None)))
    assert "NOQUORUM 1" in str(say(session(alone), "SENTINEL", "CKQUORUM", "mymaster"))


def test_greetings() -> None:
    client = session()
    assert say(client, "PING") == b"PONG"
    assert say(client, "ROLE") == [b"sentinel", [b"mymaster"]]
    assert say(client, "CLIENT", "SETNAME", "me") == b"OK"
    assert b"status=ok,address=a:2" in client.answer([b"INFO"])
    assert client.answer([b"HELLO", b"3"]).startswith(b"%7\r\n")
    assert client.answer([b"SENTINEL", b"masters"]).startswith(b"*1\r\n%")
    assert "NOPROTO" in str(say(client, "HELLO", "4"))
    assert say(client, "QUIT") == b"OK"
    assert client.closing


def test_subscribers_hear_of_a_switch() -> None:
    client = session()
    assert say(client, "SUBSCRIBE", "+switch-master") == [b"subscribe", b"+switch-master", 1]
    told = client.published("+switch-master", "mymaster a 2 b 2")
    assert ReplyReader().feed(told) == [[b"message", b"+switch-master", b"mymaster a 2 b 2"]]
    assert client.published("+other", "x") == b""
    assert say(client, "UNSUBSCRIBE") == [b"unsubscribe", b"+switch-master", 0]
    assert client.published("+switch-master", "x") == b""


def test_the_status_is_json() -> None:
    told = say(session(), "ELECT", "status")
    assert isinstance(told, bytes)
    assert json.loads(told)["nodes"][2]["seen_ms"] is None


def test_a_failover_is_signed_and_carried_out_once() -> None:
    asked: list[str] = []
    client = session(asked=asked)
    assert say(client, "ELECT", "LIFE") == b"b 1f"
    assert say(client, *order("c")) == b"OK"
    assert "NOAUTH this order was given before" in str(say(client, *order("c")))
    assert asked == ["c"]
    assert say(client, *order("c", nonce="2", secret=OLD_SECRET)) == b"OK", "both secrets are accepted"
    assert "b is not the primary" in str(say(client, *order("z")[:2], *order("z", nonce="3")[2:]))
    assert asked == ["c", "c", "z"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (order("c", secret=b"another secret at all"), "NOAUTH cluster.secret_file"),
        (order("c", to=replace(HERE, life="2f")), "NOAUTH cluster.secret_file"),
        (order("c", to=replace(HERE, agent="a")), "NOAUTH cluster.secret_file"),
        ([*order("b")[:2], "c", *order("b")[3:]], "NOAUTH cluster.secret_file"),
        (order("c", time_ms=NOW_MS - WINDOW_MS - 1_000), "31 s behind the agent's clock"),
        (order("c", time_ms=NOW_MS + WINDOW_MS + 1_000), "31 s ahead of the agent's clock"),
        ([*order("c")[:3], "-5", "1", "x"], "ERR the time of an order"),
        ([*order("c")[:3], "9" * 400, "1", "x"], "ERR the time of an order"),
        (["ELECT", "FAILOVER", "c", "0" * 64], "NOAUTH an order without time and nonce"),
        (["ELECT", "FAILOVER", "c"], "ERR ELECT STATUS"),
        (["ELECT"], "ERR ELECT STATUS"),
    ],
)
def test_any_other_order_is_refused(words: list[str], answer: str) -> None:
    """The last but two is the order of an earlier release, which could be repeated for ever."""
    asked: list[str] = []
    assert answer in str(say(session(asked=asked), *words))
    assert asked == []


def test_a_client_subscribes_to_a_limited_number_of_channels() -> None:
    client = session()
    for number in range(MAX_CHANNELS):
        client.answer([b"SUBSCRIBE", b"%d" % number])
    assert len(client.channels) == MAX_CHANNELS
    assert "may subscribe to" in str(say(client, "SUBSCRIBE", "one more"))
    assert say(client, "SUBSCRIBE", "1") == [b"subscribe", b"1", MAX_CHANNELS], "again is not one more"


@pytest.mark.parametrize("proof", ["\u00fc", "\udcff", "0" * 64])
def test_a_proof_that_is_not_ascii_is_no_proof(proof: str) -> None:
    asked: list[str] = []
    words = [b"ELECT", b"FAILOVER", "z\u00fcrich".encode(), b"%d" % NOW_MS, b"1"]
    command = [*words, proof.encode("utf-8", "surrogateescape")]
    assert session(asked=asked).answer(command).startswith(b"-NOAUTH")
    assert asked == []


@pytest.mark.parametrize("words", ["FLUSHALL", "SENTINEL", "SENTINEL remove mymaster", "ELECT", "SENTINEL master x"])
def test_anything_else_is_an_error(words: str) -> None:
    assert isinstance(say(session(), *words.split()), ServerError)
