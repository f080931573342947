"""A node asks agents: real sockets, and servers that answer as agents do, or as no agent would."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from epoxy.model.address import Address
from epoxy.model.elect_status import AgentStatus, ElectView
from epoxy.server import elect_agents
from epoxy.server.elect_agents import FRESH_S, MAX_REPLY_BYTES, QUESTION, ElectAgents

STATUS = AgentStatus(
    cluster="main",
    node="a",
    primary="a",
    primary_address="10.0.0.1:6379",
    epoch=3,
    leader_epoch=3,
    leader="a",
    role="primary",
    state="open",
    lease_ms=900,
    quorum=2,
    min_replicas_to_write=1,
    switches=0,
    guard=True,
    nodes=(),
    primary_ms=5_000,
    voted_for="a",
)
BODY = msgspec.json.encode(STATUS)


class Agent:
    """Answers every question with `reply`; None: never."""

    def __init__(self, reply: bytes | None) -> None:
        self.reply = reply
        self.asked: list[bytes] = []
        self.address = Address("127.0.0.1", 0)
        self._done = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.read(100))
        if self.reply is not None:
            writer.write(self.reply)
        else:
            await self._done.wait()
        writer.close()

    def end(self) -> None:
        self._done.set()


def seen(
    *replies: bytes | None, then: Callable[[ElectAgents, list[Agent]], Awaitable[None]] | None = None
) -> ElectView:
    async def story() -> ElectView:
        agents = [Agent(reply) for reply in replies]
        servers = []
        for agent in agents:
            server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
            servers.append(server)
            agent.address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        asking = ElectAgents(tuple([agent.address for agent in agents]), wall_s=lambda: 12.0)
        view = await asking.look()
        if then is not None:
            await then(asking, agents)
        for agent, server in zip(agents, servers, strict=True):
            agent.end()
            server.close()
        asking.stop()
        return view

    return asyncio.run(story())


def bulk(body: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(body), body)


def test_what_an_agent_says_is_read_as_it_says_it() -> None:
    view = seen(bulk(BODY))
    assert [(agent.status, agent.trouble) for agent in view.agents] == [(STATUS, "")]
    assert view.now == 12.0


def test_without_agents_there_is_nothing_to_ask() -> None:
    assert seen().agents == ()


@pytest.mark.parametrize(
    ("reply", "trouble"),
    [
        (b"-ERR unknown command 'ELECT'\r\n", "ERR unknown command 'ELECT'"),
        (b"+PONG\r\n", "what answers there is no agent of elect"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there is no agent of elect"),
        (b"$x\r\n", "what answers there is no agent of elect"),
        (b"", "what answers there is no agent of elect"),
        (b"$%d\r\n" % (MAX_REPLY_BYTES + 1), f"an answer of more than {MAX_REPLY_BYTES} bytes"),
        (b"x" * (2 * MAX_REPLY_BYTES), "chunk exceed the limit"),
        (b"$100\r\nshort", "bytes read on a total of 100 expected bytes"),
        (bulk(b"{}"), "missing required field"),
        (bulk(b"\xff"), "malformed"),
    ],
)
def test_what_is_no_agent_is_told_in_words(reply: bytes, trouble: str) -> None:
    first, second = seen(reply, bulk(BODY)).agents
    assert first.status is None
    assert trouble in first.trouble
    assert second.status == STATUS, "the others are shown all the same"


def test_one_that_is_not_there_and_one_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elect_agents, "ASK_S", 0.05)
    (silent,) = seen(None).agents
    assert (silent.status, silent.trouble) == (None, "no answer within 0.05 s")
    (gone,) = asyncio.run(ElectAgents((Address("127.0.0.1", 1),)).look()).agents
    assert gone.status is None
    assert "refused" in gone.trouble.lower()


def test_many_pages_share_one_question_a_second() -> None:
    now = [0.0]

    async def crowd(asking: ElectAgents, agents: list[Agent]) -> None:
        asking._now_s = lambda: now[0]
        asking._asked_s = 0.0
        now[0] = FRESH_S - 0.01
        await asyncio.gather(*[asking.look() for _ in range(20)])
        assert len(agents[0].asked) == 1
        now[0] = FRESH_S
        await asyncio.gather(*[asking.look() for _ in range(20)])
        assert agents[0].asked == [QUESTION, QUESTION]

    seen(bulk(BODY), then=crowd)
