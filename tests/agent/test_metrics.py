"""What Prometheus is told."""

import asyncio

import pytest

from epoxy.agent.metrics import AgentMetrics
from epoxy.testing import free_ports
from epoxy.transport.http.server import serve_http
from tests.agent.test_sentinel import HEADLESS, STATUS


def values(text: bytes) -> dict[str, float]:
    lines = [line for line in text.decode().splitlines() if line.startswith("epoxy_elect")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_every_number_of_a_status_is_there() -> None:
    told = values(AgentMetrics(lambda: STATUS).text())
    assert told["epoxy_elect_primary_known"] == 1
    assert told["epoxy_elect_open"] == 0
    assert told["epoxy_elect_switches_total"] == 1
    assert told['epoxy_elect_offset{node="a"}'] == 77
    assert told['epoxy_elect_silence_seconds{node="b"}'] == 0.01
    assert 'epoxy_elect_silence_seconds{node="c"}' not in told
    assert told["epoxy_elect_epoch"] == told["epoxy_elect_leader_epoch"] == 4


def test_no_server_takes_writes() -> None:
    assert values(AgentMetrics(lambda: HEADLESS).text())["epoxy_elect_primary_known"] == 0


@pytest.mark.parametrize(("path", "status"), [("/metrics", b"200"), ("/", b"404")])
def test_over_http(path: str, status: bytes) -> None:
    async def play() -> bytes:
        (port,) = free_ports(1)
        server = await serve_http(AgentMetrics(lambda: STATUS).answer, "127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        told = await reader.read()
        writer.close()
        server.close()
        return told

    told = asyncio.run(play())
    assert told.split()[1] == status
    assert (b"epoxy_elect_open 0.0" in told) == (status == b"200")
