"""What the data plane sends to its server and its watchdog, and which process it may kill."""

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest

from epoxy.agent import data_plane as planes
from epoxy.agent.connection import ServerConnection
from epoxy.agent.data_plane import DataPlane, ServerProcess, identify
from epoxy.agent.redis import Command, Reply
from epoxy.agent.settings import load
from epoxy.agent.watchdog import clock_ms
from epoxy.protocol.elect.terms import (
    Fence,
    Follow,
    Mode,
    OpenServer,
    Order,
    Quiesce,
    ReplicationPosition,
    ServerReport,
)
from tests.agent.test_settings import SOUND, written

HOUR_MS = 3_600_000


class Server:
    """Records commands and never replies."""

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.is_open = True

    def send(self, *commands: Command) -> "list[asyncio.Future[Reply]]":
        self.sent += commands
        return [asyncio.get_running_loop().create_future() for _ in commands]

    def close(self) -> None:
        self.is_open = False


class Watchdog:
    def __init__(self) -> None:
        self.is_running = True
        self.told: list[int] = []

    def send_deadline(self, until_ms: int) -> None:
        self.told.append(until_ms)


def opened(
    tmp_path: Path, *orders: Order, watched: bool = True, report: ServerReport | None = None
) -> tuple[Server, Watchdog]:
    """These orders, one after the other, to a connected server."""

    async def play() -> tuple[Server, Watchdog]:
        plane = DataPlane(load(written(tmp_path, SOUND)), lambda _: None)
        server, watchdog = Server(), Watchdog()
        watchdog.is_running = watched
        plane._connection = cast(ServerConnection, server)
        plane.watchdog = cast(planes.WatchdogProcess, watchdog)
        plane.report = report or plane.report
        for order in orders:
            plane.obey(order)
        return server, watchdog

    return asyncio.run(play())


def test_an_open_whose_lease_is_over_never_reaches_the_server(tmp_path: Path) -> None:
    server, _ = opened(tmp_path, OpenServer(4, clock_ms()), OpenServer(4, clock_ms() - 1), Quiesce(clock_ms() - 1))
    assert server.sent == []


def test_an_open_reaches_the_server_and_the_watchdog_knows_before(tmp_path: Path) -> None:
    until_ms = clock_ms() + HOUR_MS
    server, watchdog = opened(tmp_path, OpenServer(4, until_ms))
    assert ("REPLICAOF", "NO", "ONE") in server.sent
    assert watchdog.told == [until_ms]


def test_without_a_watchdog_nothing_is_opened_and_everything_is_closed(tmp_path: Path) -> None:
    server, _ = opened(tmp_path, OpenServer(4, clock_ms() + HOUR_MS), Fence(), watched=False)
    assert server.sent[0] == ("REPLICAOF", "127.0.0.1", 0)


def test_a_lease_that_goes_on_is_told_to_the_watchdog_alone(tmp_path: Path) -> None:
    until_ms = clock_ms() + HOUR_MS
    report = ServerReport(alive=True, mode=Mode.OPEN, position=ReplicationPosition(4, 1))
    server, watchdog = opened(tmp_path, OpenServer(4, until_ms), OpenServer(4, until_ms + 1), report=report)
    assert server.sent.count(("REPLICAOF", "NO", "ONE")) == 1
    assert watchdog.told == [until_ms, until_ms + 1]


def test_a_server_that_no_longer_has_the_mark_is_opened_again(tmp_path: Path) -> None:
    until_ms = clock_ms() + HOUR_MS
    report = ServerReport(alive=True, mode=Mode.OPEN, position=ReplicationPosition(0, 1))
    server, _ = opened(tmp_path, OpenServer(4, until_ms), OpenServer(4, until_ms + 1), report=report)
    assert server.sent.count(("REPLICAOF", "NO", "ONE")) == 2


def test_the_address_of_a_leader_is_that_of_the_lists_that_count(tmp_path: Path) -> None:
    server, _ = opened(tmp_path, Follow("b"))
    assert server.sent[0] == ("REPLICAOF", "10.0.0.2", 6379)


def hung(tmp_path: Path, known: ServerProcess, until_ms: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pids that an agent kills when its server, open until `until_ms`, does not answer."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    path = written(tmp_path, SOUND.replace("[cluster]", "[server]\nkill_hung = true\n[cluster]"))

    async def play() -> None:
        plane = DataPlane(load(path), lambda _: None)
        plane._process, plane._opened_until_ms = known, until_ms
        plane._kill_if_hung()
        plane._kill_if_hung()

    asyncio.run(play())
    return killed


@pytest.mark.parametrize(
    ("known", "until_ms", "killed"),
    [
        (ServerProcess(77, "redis-server", "12"), 1, [77]),
        (ServerProcess(77, "redis-server", "11"), 1, []),
        (ServerProcess(77, "valkey-server", "12"), 1, []),
        (ServerProcess(77, "redis-server", "12"), 1 << 60, []),
        (ServerProcess(77, "redis-server", "12"), 0, []),
    ],
    ids=["the same", "started later", "another program", "its lease is running", "never opened"],
)
def test_a_reused_pid_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: ServerProcess, until_ms: int, killed: list[int]
) -> None:
    monkeypatch.setattr(planes, "identify", lambda pid: ServerProcess(pid, "redis-server", "12"))
    assert hung(tmp_path, known, until_ms, monkeypatch) == killed


def test_only_a_server_is_identified() -> None:
    assert identify(os.getpid()) is None
    assert identify(2**22 + 1) is None


def test_a_process_is_its_number_its_name_and_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = " ".join(str(number) for number in range(3, 50))
    (tmp_path / "stat").write_text(f"77 (redis-server (x)) {fields}")
    monkeypatch.setattr(planes, "Path", lambda _: tmp_path / "stat")
    assert identify(77) == ServerProcess(77, "redis-server (x)", "22")
