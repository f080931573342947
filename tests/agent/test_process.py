"""The agent's process: what is to run for ever, and does not."""

import asyncio
from pathlib import Path

import pytest
import uvloop
from msgspec.structs import replace

from epoxy.agent import process
from epoxy.agent.process import Agent, joining
from epoxy.agent.settings import AgentSettings
from epoxy.model.address import Address
from epoxy.protocol.elect.lists import first, settled
from epoxy.testing import free_ports
from tests.agent.test_sentinel import node
from tests.protocol.elect.bench import config_of
from tests.protocol.elect.test_lists import joint

PATIENCE_S = 30.0


def settings(folder: Path) -> AgentSettings:
    listen, clients, server = (Address("127.0.0.1", port) for port in free_ports(3))
    return AgentSettings(
        me="a",
        data_dir=folder,
        listen=listen,
        clients=clients,
        metrics=None,
        server=server,
        user="",
        password="",
        kill_hung=False,
        secret_file=folder / "secret",
        secrets=(b"x" * 16,),
        tls=None,
        config=config_of("abc"),
        findings=(),
    )


def test_a_task_that_fails_ends_the_agent_with_its_reason(tmp_path: Path) -> None:
    """Its supervisor starts it again: an agent that goes on without it might hold its lease and see nothing."""

    async def fail() -> None:
        raise RuntimeError("a bug")

    async def story() -> None:
        agent = Agent(settings(tmp_path))
        cancelled = agent._begin(asyncio.sleep(10 * PATIENCE_S))
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert (agent.over.is_set(), agent.failed()) == (False, None)
        agent._begin(fail())
        await asyncio.wait_for(agent.over.wait(), PATIENCE_S)
        assert str(agent.failed()) == "a bug"

    uvloop.run(story())


def test_an_agent_that_does_not_lead_shows_no_lease(tmp_path: Path) -> None:
    async def story() -> None:
        status = Agent(settings(tmp_path)).status()
        assert (status.lease_ms, status.primary, status.primary_ms, status.voted_for) == (0, None, None, "")

    uvloop.run(story())


def test_how_long_a_primary_is_in_office_is_counted_anew_in_each_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        agent = Agent(settings(tmp_path))
        now, primary = [1_000], ["b"]
        monkeypatch.setattr(process, "clock_ms", lambda: now[0])
        monkeypatch.setattr(agent, "primary", lambda: primary[0])
        agent._publish_switch()
        now[0] = 3_500
        agent._publish_switch()
        assert agent.status().primary_ms == 2_500
        agent.elector.record = replace(agent.elector.record, leader_epoch=9, voted_for="c")
        agent._publish_switch()
        status = agent.status()
        assert (status.primary_ms, status.voted_for) == (0, "c")
        primary[0] = "c"
        assert agent.status().primary_ms is None, "not published yet"
        agent._publish_switch()
        now[0] = 3_700
        assert agent.status().primary_ms == 200

    uvloop.run(story())


def test_a_change_is_not_over_while_a_node_has_no_record() -> None:
    """Another change would begin with a file of which that node could tell nothing to anybody."""
    both = joint("abc", "abcd")
    nodes = node("a"), node("b"), node("c"), node("d", state="fresh")
    assert joining(both, nodes) == joining(settled(both), nodes) == ("d",)
    assert joining(settled(both), (*nodes[:3], node("d"))) == ()
    assert joining(first(config_of("abcd")), nodes) == (), "a new cluster is no change"
