"""Worker processes that stop, die with their node, outlive a planned stop of it, or come twice."""

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from epoxy import Client, EpoxyError
from epoxy.client.actor_calls import Which
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import POLL_S, ClusterNode, lay_out
from tests.end_to_end.recorder import PATIENCE_S

SETTINGS = "\n[placement]\neligible_threshold_ms = 2000\nsweep_every_s = 86400\n"
"""An envoy is lost after two seconds, and no sweep comes to the rescue."""

WORKER = """
import asyncio, os, sys
from epoxy.envoy import Worker
worker = Worker(sys.argv[1], key=sys.argv[2])
@worker.actor("room")
async def room(actor):
    asked = 0
    async for request in actor:
        asked += 1
        if request.body:
            gate = request.text
            open(gate + ".reached", "w").close()
            while not os.path.exists(gate):
                await asyncio.sleep(0.02)
        request.respond(f"{os.getpid()} {asked}")
worker.run()
"""

ROOM = Which(name="room", key="lobby")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ClusterNode]:
    (alone,) = lay_out(tmp_path, 1, QuorumPolicy.OPTIMAL)
    with alone.config.open("a") as config:
        config.write(SETTINGS)
    alone.start()
    try:
        yield alone
    finally:
        alone.kill()


@contextmanager
def workers(url: str, *keys: str) -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen([sys.executable, "-c", WORKER, url, key], stderr=subprocess.PIPE, text=True) for key in keys
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def until(ask: Callable[[], bool], words: str) -> None:
    deadline, last = time.monotonic() + PATIENCE_S, ""
    while True:
        try:
            if ask():
                return
        except EpoxyError as error:
            last = str(error)
        assert time.monotonic() < deadline, f"not so: {words}; {last}"
        time.sleep(POLL_S)


def runner(client: Client) -> int:
    return int(client.actors.request(ROOM, b"", pool="default").split()[0])


def test_a_worker_that_stands_still_and_one_that_dies_with_its_node_are_noticed_at_their_deadline(
    node: ClusterNode,
) -> None:
    with workers(node.url, "a", "b", "c") as processes, node.client(timeout=PATIENCE_S) as client:
        until(lambda: len(client.actors.envoys()) == 3, "all connected")
        first = runner(client)
        os.kill(first, signal.SIGSTOP)
        until(lambda: runner(client) != first, "the actor runs elsewhere")
        second = runner(client)
        node.kill()
        os.kill(second, signal.SIGKILL)
        node.start()
        until(lambda: runner(client) not in (first, second), "and again")
        assert runner(client) in {process.pid for process in processes}


def test_a_planned_stop_waits_for_the_answers_of_actors_and_refuses_what_none_has_seen(
    node: ClusterNode, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with (
        workers(node.url, "w") as (process,),
        node.client(timeout=PATIENCE_S) as client,
        ThreadPoolExecutor() as threads,
    ):
        until(lambda: runner(client) == process.pid, "it runs")
        held = threads.submit(client.actors.request, ROOM, str(gate).encode())
        until(gate.with_suffix(".reached").exists, "the actor has the request")
        unplaced = threads.submit(request_without_workers, node)
        until(lambda: len(client.actors.page(name="hall").actors) == 1, "the other request waits")
        stopping = threads.submit(node.stop)
        status, told = unplaced.result(PATIENCE_S)
        assert (status, "the node is stopping" in told, '"definite":true' in told) == (503, True, True), told
        assert not held.done()
        gate.touch()
        assert held.result(PATIENCE_S) == f"{process.pid} 2".encode()
        stopping.result(PATIENCE_S)


def request_without_workers(node: ClusterNode) -> tuple[int, str]:
    """A request to an actor whose pool has no worker."""
    door = http.client.HTTPConnection(node.url.removeprefix("http://"), timeout=PATIENCE_S)
    try:
        door.request("POST", "/v2/actors/request?name=hall&key=x&pool=empty&create=true", b"")
        answer = door.getresponse()
        return answer.status, answer.read().decode()
    finally:
        door.close()


def test_a_second_process_with_the_same_key_is_refused_while_the_first_lives(node: ClusterNode) -> None:
    with workers(node.url, "w") as (first,), node.client(timeout=PATIENCE_S) as client:
        until(lambda: runner(client) == first.pid, "it runs")
        with workers(node.url, "w") as (second,):
            _, told = second.communicate(timeout=PATIENCE_S)
            assert second.returncode == 1
        last = told.splitlines()[-1]
        assert f"/{first.pid}/" in last, told
        assert "key 'w' in namespace 'default' is in use by" in last
        assert "give each worker process a key of its own" in last
        first.kill()
        with workers(node.url, "w") as (third,):
            until(lambda: runner(client) == third.pid, "the key is free when the first is lost")
