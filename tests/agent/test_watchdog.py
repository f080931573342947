"""The watchdog process fences a real server when its agent cannot."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.failover_cluster import PATIENCE_S, ask, wait_for
from epoxy.agent.redis import ServerError
from epoxy.agent.watchdog import PASSWORD_VARIABLE, clock_ms


@pytest.fixture
def watchdog(server_port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "epoxy.agent.watchdog", "127.0.0.1", str(server_port), ""]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, PASSWORD_VARIABLE: ""})
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.kill()
        process.wait()


def tell(watchdog: "subprocess.Popen[bytes]", until_ms: int) -> None:
    assert watchdog.stdin is not None
    watchdog.stdin.write(b"%d\n" % until_ms)
    watchdog.stdin.flush()


def is_fenced(port: int) -> bool:
    return isinstance(ask(port, "SET", "key", "value"), ServerError)


def test_the_watchdog_closes_a_server_whose_time_is_over(server_port: int, watchdog: "subprocess.Popen[bytes]") -> None:
    assert not is_fenced(server_port)
    tell(watchdog, clock_ms() + 50)
    wait_for(lambda: is_fenced(server_port), "the watchdog does not fence")


def test_the_watchdog_closes_the_server_when_its_agent_is_gone(
    server_port: int, watchdog: "subprocess.Popen[bytes]"
) -> None:
    tell(watchdog, clock_ms() + 3_600_000)
    assert watchdog.stdin is not None
    watchdog.stdin.close()
    watchdog.wait(PATIENCE_S)
    assert is_fenced(server_port)


def test_the_watchdog_leaves_a_closed_server_alone(server_port: int, watchdog: "subprocess.Popen[bytes]") -> None:
    tell(watchdog, clock_ms() + 3_600_000)
    tell(watchdog, 0)
    assert watchdog.stdin is not None
    watchdog.stdin.close()
    watchdog.wait(PATIENCE_S)
    assert not is_fenced(server_port)
