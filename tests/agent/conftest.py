"""Real servers, a Redis and a Valkey; one stands in for the other where a machine has only that (tools/programs.py)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.failover_cluster import ask, wait_for
from epoxy.testing import free_ports
from tools.programs import redis_server, valkey_server


@pytest.fixture(scope="session")
def server_binary() -> Path:
    return redis_server()


@pytest.fixture(scope="session")
def valkey_binary() -> Path:
    return valkey_server()


@pytest.fixture(params=["redis", "valkey"])
def server_port(
    request: pytest.FixtureRequest, server_binary: Path, valkey_binary: Path, tmp_path: Path
) -> Iterator[int]:
    """One server, a primary that takes writes."""
    (port,) = free_ports(1)
    binary = server_binary if request.param == "redis" else valkey_binary
    words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    process = subprocess.Popen([str(binary), *words], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: ask(port, "PING") == b"PONG", "the server does not start")
        yield port
    finally:
        process.kill()
        process.wait()
