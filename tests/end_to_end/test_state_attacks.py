"""Attacks on the state of actors: workers that are stopped past their lease and go on, and requests that are
asked again after a kill. One node, real workers."""

import os
import secrets
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import Struct

from epoxy import Client, EpoxyError
from epoxy.client.actor_calls import Which
from epoxy.client.watchdog import EXIT_STOOD_STILL
from epoxy.model.envoy_messages import (
    ActorRequest,
    Held,
    Response,
    Running,
    Saved,
    SaveRefused,
    SaveState,
    Start,
)
from epoxy.testing import ClusterNode
from tests.end_to_end.actor_journal import Step, overlaps, read
from tests.end_to_end.attacked import lone_node, persistent, until, workers
from tests.end_to_end.hand_envoy import hand_envoy
from tests.end_to_end.recorder import PATIENCE_S

MANY = 3
"""Requests that a worker has when it is stopped: one in a turn that is half done, others in its queue."""


class Counted(Struct, frozen=True):
    pid: int
    fence: int
    count: int


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
def pool() -> str:
    return f"pool-{secrets.token_hex(4)}"


def count(client: Client, pool: str, body: bytes = b"", key: str = "", name: str = "") -> Counted:
    told = client.actors.request(Which(name="saver", key=name or pool), body, pool=pool, idempotency_key=key)
    return Counted(*map(int, told.split()))


def elsewhere(client: Client, pool: str, before: Counted) -> Counted:
    told = count(client, pool)
    if told.pid == before.pid:
        raise EpoxyError("still there")
    return told


def steps_of(journal: Path, pid: int, what: str) -> list[Step]:
    return [step for step in read(journal) if step.pid == pid and step.what == what]


@pytest.mark.parametrize("flags", [[], ["--undead"]], ids=["", "without a watchdog and a lease"])
def test_a_worker_that_was_stopped_past_its_lease_neither_saves_nor_answers(
    node: ClusterNode, client: Client, tmp_path: Path, pool: str, flags: list[str]
) -> None:
    """Without its own watch over itself a zombie goes on, and tries to save and to answer: then the node refuses it."""
    journal = tmp_path / "journal"
    with (
        workers(node, journal, "one", "two", pool=pool, flags=flags) as processes,
        ThreadPoolExecutor() as threads,
    ):
        first = persistent(lambda: count(client, pool))
        held = [threads.submit(count, client, pool, b"slow") for _ in range(MANY)]
        until(lambda: bool(steps_of(journal, first.pid, "slow")), "in a turn that is half done")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            next_one = persistent(lambda: elsewhere(client, pool, first))
            later = [persistent(lambda: count(client, pool)) for _ in range(MANY)]
        finally:
            os.kill(first.pid, signal.SIGCONT)
        (victim,) = (process for process in processes if process.pid == first.pid)
        if flags:
            until(lambda: len(client.actors.envoys(pool=pool)) == 2, "back")
        else:
            assert victim.wait(PATIENCE_S) == EXIT_STOOD_STILL
        last = [persistent(lambda: count(client, pool)) for _ in range(MANY)]
        at_once = answered(held)
    one_by_one = [first, next_one, *later, *last]
    assert [each.count for each in one_by_one] == sorted({each.count for each in one_by_one}), "it never goes back"
    assert len({each.count for each in (*one_by_one, *at_once)}) == len(one_by_one) + len(at_once)
    assert all(each.count < next_one.count for each in at_once if each.pid == first.pid), "a zombie's answer"
    assert {each.pid for each in (*later, *last)} == {next_one.pid}
    assert next_one.fence > first.fence
    if not flags:
        assert overlaps(read(journal), stood_still=[first.pid]) == []


def answered(held: list[Future[Counted]]) -> list[Counted]:
    """Of others it is not known whether they were carried out."""
    told = []
    for each in held:
        try:
            told.append(each.result(PATIENCE_S))
        except EpoxyError as error:
            assert not error.definite  # noqa: PT017
    return told


def test_what_a_generation_that_is_over_saves_and_answers_is_refused(
    node: ClusterNode, client: Client, pool: str
) -> None:
    """An envoy that is lost, comes back, and goes on as if nothing had happened."""
    which = Which(name="any", key=pool)
    with hand_envoy(node, pool, f"{pool}-old") as lost, ThreadPoolExecutor() as threads:
        client.actors.get_or_create("any", pool, pool=pool)
        before = lost.hear(Start)
        lost.say(Running(actor_id=before.actor_id, generation=before.generation))
        lost.say(save(before, number=1, version=before.version, document=b"first"))
        saved = lost.hear(Saved)
        with hand_envoy(node, pool, f"{pool}-new") as heir:
            after = heir.hear(Start)
            assert (after.state, after.generation > before.generation) == (b"first", True)
            assert after.version > saved.version, "raised"
            heir.say(Running(actor_id=after.actor_id, generation=after.generation))
            held = Held(before.actor_id, before.generation)
            with hand_envoy(node, pool, f"{pool}-old", held) as zombie:
                for version in (saved.version, after.version):
                    zombie.say(save(before, number=2, version=version, document=b"zombie's"))
                    assert zombie.hear(SaveRefused).fenced
                heir.say(save(after, number=1, version=after.version, document=b"second"))
                assert heir.hear(Saved).version > after.version
                asked = threads.submit(client.actors.request, which, b"")
                number = heir.hear(ActorRequest).request_id
                zombie.say(Response(request_id=number, body=b"zombie's"))
                zombie.say(save(before, number=3, version=1, document=b"zombie's"))
                zombie.hear(SaveRefused)  # and so the response before it was looked at
                heir.say(Response(request_id=number, body=b"heir's"))
                assert asked.result(PATIENCE_S) == b"heir's"


def save(start: Start, *, number: int, version: int, document: bytes) -> SaveState:
    return SaveState(
        actor_id=start.actor_id, generation=start.generation, number=number, version=version, document=document
    )


def test_asking_again_with_an_idempotency_key_changes_nothing_twice_even_after_a_kill(
    node: ClusterNode, client: Client, tmp_path: Path, pool: str
) -> None:
    with workers(node, tmp_path / "journal", "one", "two", pool=pool):
        first = persistent(lambda: count(client, pool, key="a"))
        assert count(client, pool, key="a") == first
        second = count(client, pool, key="b")
        os.kill(first.pid, signal.SIGKILL)
        assert persistent(lambda: count(client, pool, key="a")) == first
        assert count(client, pool, key="b") == second
        third = count(client, pool, key="c")
        assert (first.count, second.count, third.count) == (1, 2, 3)
        assert third.pid != first.pid
