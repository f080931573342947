"""The other processes of a node: their places, and their supervision, with small programs in their place."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.model.errors import ConfigError
from epoxy.model.quorum import QuorumPolicy
from epoxy.node.process.config import Settings, load
from epoxy.server import child_processes
from epoxy.server.child_processes import VARIABLE, ChildPlace, ChildProcesses, place_of
from epoxy.testing import lay_out
from tests.store.local.linked import local_database, until
from tests.store.postgres.playing import played

OBEYS = """
import json, os, socket
place = json.loads(os.environ["EPOXY_PROCESS"])
asking = socket.socket(fileno=place["asking"])
open(f"{FOLDER}/{os.getpid()}", "w").close()
said = asking.recv(1000)
while said and b"end" not in said:
    open(f"{FOLDER}/told", "ab").write(said)
    said = asking.recv(1000)
"""
STUBBORN = "import time, os\nopen(f'{FOLDER}/{os.getpid()}', 'w').close()\ntime.sleep(1000)\n"
FAILS = "import os\nopen(f'{FOLDER}/{os.getpid()}', 'w').close()\nraise SystemExit(3)\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (node,) = lay_out(tmp_path, 1, QuorumPolicy.OPTIMAL)
    return load(node.config, flags={"node.processes": "3"})


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes children run these words, and returns the folder where they leave their names."""

    def run(words: str) -> Path:
        folder = tmp_path / "ran"
        folder.mkdir()
        monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-c", f"FOLDER = {str(folder)!r}\n{words}"])
        return folder

    return run


def test_the_first_process_has_no_place() -> None:
    assert place_of({}) is None
    assert place_of({VARIABLE: '{"number":2,"asking":3,"waiting":4,"cluster":"c"}'}) == ChildPlace(2, 3, 4, "c")


@played
async def start_and_stop(settings: Settings, folder: Path, pids: list[int]) -> None:
    async with local_database() as (_, database):
        children = ChildProcesses(settings, database, lambda: None)
        children.start()
        await until(lambda: len(list(folder.iterdir())) == 2)
        pids += children.pids
        children.reload()
        await until(lambda: (folder / "told").exists())
        async with asyncio.timeout(60):
            await children.stop(asyncio.Event())
        assert children.pids == []


def test_they_are_told_and_end_in_order(settings: Settings, program: Callable[[str], Path]) -> None:
    pids: list[int] = []
    start_and_stop(settings, program(OBEYS), pids)
    assert len(set(pids)) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_one_that_does_not_end_is_killed(
    settings: Settings, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_processes, "STOP_S", 0.05)
    folder = program(STUBBORN)

    @played
    async def story() -> None:
        async with local_database() as (_, database):
            children = ChildProcesses(settings, database, lambda: None)
            children.start()
            await until(lambda: len(list(folder.iterdir())) == 2)
            pids = children.pids
            async with asyncio.timeout(60):
                await children.stop(asyncio.Event())
            for pid in pids:
                with pytest.raises(ProcessLookupError):
                    os.kill(pid, 0)

    story()


def test_one_that_ends_is_started_again_and_its_shards_are_free(
    settings: Settings, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_processes, "BACKOFF_S", 0.01)
    folder, lost = program(FAILS), list[int]()
    one = replace(settings, node=replace(settings.node, processes=2))

    @played
    async def story() -> None:
        async with local_database() as (_, database):
            children = ChildProcesses(one, database, lambda: lost.append(1))
            children.start()
            await until(lambda: len(list(folder.iterdir())) >= 3)
            assert children.restarts >= 2
            assert len(lost) >= 2
            async with asyncio.timeout(60):
                await children.stop(asyncio.Event())

    story()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"store.driver": "postgres", "store.url": "postgresql://db/x"}, "start more nodes instead"),
        ({"store.backfill": "true"}, "needs node.processes = 1"),
        ({"node.resp": "127.0.0.1:0"}, "must be given, and not 0"),
    ],
)
def test_what_several_processes_cannot_have(
    settings: Settings, flags: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        load(tmp_path / "dc-1.toml", flags={"node.processes": "2", **flags})
    assert settings.node.processes == 3
