"""Attacks on the promise that an actor runs alone, and goes on: real workers of one node, and what their actors wrote
down. Two processes with one key, and workers that die with their node, are in test_workers.py."""

import os
import secrets
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from epoxy import Client, EpoxyError
from epoxy.client.actor_calls import Which
from epoxy.client.watchdog import EXIT_STOOD_STILL
from epoxy.testing import ClusterNode
from tests.end_to_end.actor_journal import Step, overlaps, read
from tests.end_to_end.attacked import THRESHOLD_S, clock_set_back, lone_node, persistent, until, workers
from tests.end_to_end.recorder import PATIENCE_S

BUSY_LEASES = 2.5
HOUR_S = 3600
TRIES = 3
OFTEN = 10
"""Requests in the time after which a worker pings."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNode]:
    """Tests share it, so each has a pool of its own."""
    with lone_node(tmp_path_factory.mktemp("attacked")) as alone:
        yield alone


@pytest.fixture
def client(node: ClusterNode) -> Iterator[Client]:
    with node.client(timeout=PATIENCE_S) as made:
        yield made


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def pool() -> str:
    return f"pool-{secrets.token_hex(4)}"


def lines(journal: Path, what: str) -> list[Step]:
    return [step for step in read(journal) if step.what == what]


def test_a_busy_worker_keeps_the_memory_of_its_actors_for_several_leases(
    node: ClusterNode, client: Client, journal: Path, pool: str
) -> None:
    """A machine that is too busy may cost a worker its lease now and then; the fault that this is for, each time."""
    with workers(node, journal, "busy", pool=pool):
        assert any(stays_in_memory(client, Which(name="memory", key=f"{pool}-{i}"), pool) for i in range(TRIES))


def stays_in_memory(client: Client, which: Which, pool: str) -> bool:
    asked, until_s = 0, time.monotonic() + BUSY_LEASES * THRESHOLD_S
    while time.monotonic() < until_s:
        told = persistent(lambda: client.actors.request(which, b"", pool=pool))
        asked += 1
        if int(told.split()[2]) != asked:
            return False
        time.sleep(THRESHOLD_S / 4 / OFTEN)
    return True


def test_code_that_blocks_its_process_past_the_lease_takes_no_other_step(
    node: ClusterNode, client: Client, journal: Path, pool: str
) -> None:
    which = Which(name="memory", key=pool)
    with workers(node, journal, "first", "second", pool=pool) as processes, ThreadPoolExecutor() as threads:
        first = int(persistent(lambda: client.actors.request(which, b"", pool=pool)).split()[0])
        blocked = threads.submit(client.actors.request, which, b"block")
        until(lambda: bool(lines(journal, "block")), "blocked")
        other = persistent(lambda: pid_but(client, which, first), "on the other worker")
        (victim,) = (process for process in processes if process.pid == first)
        assert victim.wait(PATIENCE_S) == EXIT_STOOD_STILL
        with pytest.raises(EpoxyError) as caught:
            blocked.result(PATIENCE_S)
        assert not caught.value.definite, "its code saw the request"
        assert {other, first} == {process.pid for process in processes}
    assert lines(journal, "after the block") == []
    assert overlaps(read(journal)) == []


def pid_but(client: Client, which: Which, first: int) -> int:
    """Of the process that answers; EpoxyError: it is still the first."""
    pid = int(client.actors.request(which, b"").split()[0])
    if pid == first:
        raise EpoxyError("still the first")
    return pid


def test_a_new_generation_waits_for_the_clean_up_of_the_one_before(
    node: ClusterNode, client: Client, journal: Path, pool: str
) -> None:
    """A node stands still past its worker's lease, so the worker cancels what it runs. Then the worker stands still for
    a moment, so that the node takes it for lost before it is back, and gives it the actor again."""
    which, gate = Which(name="careful", key=pool), journal.with_name("gate")
    flags = ["--unwatched"]  # on a busy machine that moment may be longer than the lease
    with workers(node, journal, "worker", pool=pool, flags=flags) as (worker,), ThreadPoolExecutor() as threads:
        client.actors.get_or_create("careful", pool, pool=pool, given=str(gate))
        persistent(lambda: client.actors.request(which, b""))
        with stopped(node.pid):
            until(lambda: bool(lines(journal, "clean-up")), "cancelled by its worker")
            time.sleep(THRESHOLD_S)
            os.kill(worker.pid, signal.SIGSTOP)
        until(lambda: client.actors.envoys(pool=pool) == [], "lost")
        os.kill(worker.pid, signal.SIGCONT)
        until(lambda: generation(client, which) > 1, "given to the worker again")
        waiting = threads.submit(persistent, lambda: client.actors.request(which, b""))
        until(lambda: len(client.actors.envoys(pool=pool)) == 1, "back")
        assert len(lines(journal, "begin")) == 1, "the clean-up is not over"
        gate.touch()
        waiting.result(PATIENCE_S)
    assert overlaps(read(journal)) == []
    assert len(lines(journal, "begin")) == 2


@contextmanager
def stopped(pid: int | None) -> Iterator[None]:
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def generation(client: Client, which: Which) -> int:
    found = client.actors.get(which)
    assert found is not None
    return found.generation


def test_the_next_actor_of_a_name_never_runs_beside_the_one_before(
    node: ClusterNode, client: Client, journal: Path, pool: str
) -> None:
    which, gate = Which(name="careful", key=pool), journal.with_name("gate")
    with workers(node, journal, "one", "two", pool=pool), ThreadPoolExecutor() as threads:
        old = client.actors.get_or_create("careful", pool, pool=pool, given=str(gate))
        persistent(lambda: client.actors.request(which, b""))
        client.actors.destroy(which)
        new = client.actors.get_or_create("careful", pool, pool=pool, given=str(gate))
        assert new.id != old.id
        asked = threads.submit(persistent, lambda: client.actors.request(which, b""))
        until(lambda: bool(lines(journal, "clean-up")), "the old one cleans up")
        assert [step.actor_id for step in lines(journal, "begin")] == [old.id]
        gate.touch()
        assert asked.result(PATIENCE_S) == new.id.encode()
    assert overlaps(read(journal)) == []


def test_a_process_whose_code_does_not_end_is_ended_before_the_next_actor_of_the_name_begins(
    node: ClusterNode, client: Client, journal: Path, pool: str
) -> None:
    which = Which(name="stubborn", key=pool)
    with workers(node, journal, "one", "two", pool=pool, flags=["--hasty"]) as processes:
        old = client.actors.get_or_create("stubborn", pool, pool=pool)
        persistent(lambda: client.actors.request(which, b""))
        client.actors.destroy(which)
        new = client.actors.get_or_create("stubborn", pool, pool=pool)
        assert persistent(lambda: client.actors.request(which, b"")) == new.id.encode()
        first, second = lines(journal, "begin")
        assert (first.actor_id, second.actor_id) == (old.id, new.id)
        (victim,) = (process for process in processes if process.pid == first.pid)
        assert victim.wait(PATIENCE_S) == EXIT_STOOD_STILL
    assert overlaps(read(journal)) == []


def test_a_power_cut_of_a_node_and_its_worker_with_the_clock_set_back_is_over_in_seconds(tmp_path: Path) -> None:
    journal, which = tmp_path / "journal", Which(name="memory", key="x")
    with lone_node(tmp_path) as node, node.client(timeout=PATIENCE_S) as client:
        with workers(node, journal, "before", pool="p"):
            persistent(lambda: client.actors.request(which, b"", pool="p"))
            node.kill()
        with clock_set_back(tmp_path, HOUR_S):
            node.start()
        clock_s = client.status().clock_s
        assert clock_s is not None
        assert time.time() - clock_s > HOUR_S / 2, "its clock is behind"
        with workers(node, journal, "after", pool="p"):
            assert persistent(lambda: client.actors.request(which, b"")).endswith(b" 1")
    assert overlaps(read(journal)) == []


def test_a_pool_without_workers_keeps_no_other_namespace_waiting(
    node: ClusterNode, client: Client, journal: Path, pool: str
) -> None:
    for i in range(3):
        client.actors.get_or_create("memory", f"{pool}-{i}", namespace="without", pool=pool)
    which = Which(name="memory", key=pool, namespace="with")
    with workers(node, journal, "worker", pool=pool, namespace="with"):
        assert persistent(lambda: client.actors.request(which, b"", pool=pool))
    assert [each.state for each in client.actors.page(namespace="without", name="memory").actors] == ["pending"] * 3


def test_an_actor_that_fails_at_once_is_tried_less_and_less_often(
    node: ClusterNode, client: Client, journal: Path, pool: str
) -> None:
    with workers(node, journal, "worker", pool=pool):
        client.actors.get_or_create("broken", pool, pool=pool)
        until(lambda: len(lines(journal, "begin")) >= 3, "tried three times")
    at_s = [step.at_s for step in lines(journal, "begin")]
    pauses = [after - before for before, after in pairwise(at_s)]
    assert [pause >= least for pause, least in zip(pauses, (1, 2), strict=False)] == [True] * 2, pauses
    assert overlaps(read(journal)) == []
