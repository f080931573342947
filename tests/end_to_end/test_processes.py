"""A node of several processes: one of them is killed under load, then the first, and then it comes back with more of
them, and alone. Nothing that was acknowledged is lost, and what clients were told has an order."""

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from epoxy import Client
from epoxy.model.errors import OutcomeUnknown
from epoxy.testing.process_cluster import ClusterNode, cluster
from epoxy_sim.history import Failed
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.load import MAX_STEPS, RETRY_S, TIMEOUT_S, draw, remember
from tests.end_to_end.recorder import PATIENCE_S, Recorder, judge

CLIENTS = 3
"""Of each protocol: more than there are processes, so that every process has one."""

STEPS = 60
"""Answers of each kind of client between two faults."""

HTTP, RESP = "http", "resp"


class ProcessLoad(Crowd):
    """Clients of both protocols. Those of the Redis protocol connect anew for each command, and the system chooses the
    process."""

    def __init__(self, recorder: Recorder, node: ClusterNode) -> None:
        super().__init__()
        self._recorder = recorder
        self._node = node
        self.acknowledged: dict[bytes, bytes] = {}

    def __enter__(self) -> Self:
        for number in range(CLIENTS):
            self._begin(self._ask_http, random.Random(number))
            self._begin(self._ask_resp, number)
        return self

    def more(self) -> None:
        """Until clients of both protocols have been answered so many more times."""
        goal = len(self.acknowledged) + STEPS
        self._recorder.more(STEPS, [HTTP])
        wait_until(lambda: len(self.acknowledged) >= goal, f"{STEPS} more acknowledged writes")

    def _ask_http(self, dice: random.Random) -> None:
        known: dict[bytes, int] = {}
        with Client(self._node.url, timeout=TIMEOUT_S) as client:
            for step in range(MAX_STEPS):
                if self._over.is_set():
                    return
                key, kind = draw(dice, step, HTTP, known)
                outcome = self._recorder.run(HTTP, client, key, kind)
                remember(known, key, outcome)
                if isinstance(outcome, Failed):
                    self._over.wait(RETRY_S)

    def _ask_resp(self, number: int) -> None:
        for step in range(MAX_STEPS):
            if self._over.is_set():
                return
            key, value = b"resp/%d/%d" % (number, step), b"%d" % step
            try:
                with connected(self._node) as client:
                    assert client.set(key, value)
            except redis.RedisError:
                self._over.wait(RETRY_S)
            else:
                self.acknowledged[key] = value


def connected(node: ClusterNode) -> "redis.Redis":
    once = Retry(NoBackoff(), 0)
    return redis.Redis("127.0.0.1", node.resp_port, socket_timeout=TIMEOUT_S, retry=once)


def wait_until(condition: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not in {PATIENCE_S:.0f} s: {words}"
        time.sleep(0.02)


def restart_with(node: ClusterNode, processes: int) -> None:
    """The process before it has ended."""
    lines = node.config.read_text("utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("processes")]
    kept.insert(kept.index("[node]") + 1, f"processes = {processes}")
    node.config.write_text("\n".join(kept), "utf-8")
    node.start()
    wait_for_shards(node, processes)


def wait_for_shards(node: ClusterNode, processes: int) -> None:
    """Until every process has its part of the shards."""
    if processes > 1:
        node.wait_until(
            lambda status: len(status.nodes) == processes and all(each.shards > 50 for each in status.nodes),
            f"{processes} processes",
        )


def children(node: ClusterNode) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def test_processes_are_killed_under_load(tmp_path: Path) -> None:
    recorder = Recorder()
    with cluster(1, folder=tmp_path / "cluster") as made:
        node = made[0]
        node.stop()
        restart_with(node, 2)
        with ProcessLoad(recorder, node) as load:
            load.more()
            (killed,) = children(node)
            os.kill(killed, 9)
            load.more()
            wait_for_shards(node, 2)
            load.more()
            orphans = children(node)
            node.kill()
            wait_until(lambda: not any(map(is_alive, orphans)), "the others end with the first")
            restart_with(node, 3)
            load.more()
            node.stop()
            restart_with(node, 1)
            load.more()
        assert judge(recorder.history, tmp_path) > 20
        with connected(node) as client:
            found = {key: client.get(key) for key in load.acknowledged}
        assert found == load.acknowledged
        assert len(found) >= 5 * STEPS


def test_a_process_that_stands_still_loses_its_shards_and_is_replaced(tmp_path: Path) -> None:
    recorder = Recorder()
    with cluster(1, folder=tmp_path / "cluster", settings="[store]\nlease_ms = 1000\n") as made:
        node = made[0]
        node.stop()
        restart_with(node, 2)
        with ProcessLoad(recorder, node) as load:
            load.more()
            (stopped,) = children(node)
            os.kill(stopped, 19)
            node.wait_until(lambda status: len(status.nodes) == 1, "without the one that stands still")
            recorder.more(STEPS, [HTTP])
            os.kill(stopped, 18)
            wait_until(lambda: stopped not in children(node), "it ends when it goes on")
            wait_for_shards(node, 2)
            load.more()
        judge(recorder.history, tmp_path)
        node.stop()
        restart_with(node, 1)
        with connected(node) as client:
            assert {key: client.get(key) for key in load.acknowledged} == load.acknowledged


def test_a_node_starts_anew_after_its_first_process_was_killed_beside_one_that_stood_still(tmp_path: Path) -> None:
    """Which would hold the address of Redis clients, and accept connections that it does not serve."""
    with cluster(1, folder=tmp_path / "cluster") as made:
        node = made[0]
        node.stop()
        restart_with(node, 2)
        (orphan,) = children(node)
        os.kill(orphan, 19)
        node.kill()
        try:
            wait_until(lambda: not is_alive(orphan), "it ends with the first")
        finally:
            if is_alive(orphan):
                os.kill(orphan, 9)
        node.start()
        for number in range(20):
            with connected(node) as client:
                assert client.set(b"anew/%d" % number, b"1")


def test_one_of_three_datacenters_has_two_processes(tmp_path: Path) -> None:
    """Its peers know nothing of it: requests about keys of both processes come to the first, and votes leave by it."""
    with cluster(3, folder=tmp_path / "cluster") as made:
        node, other, third = made
        node.stop()
        restart_with(node, 2)
        made.wait_until_connected()
        keys = [b"shared/%d" % number for number in range(20)]
        third.kill()  # every quorum has the node of two processes in it
        with node.client() as here, other.client() as there:
            for key in keys[::2]:
                assert here.reserve(key, b"here").won
            for key in keys[1::2]:
                assert there.reserve(key, b"there").won
            (killed,) = children(node)
            os.kill(killed, 9)
            for key in keys:
                with suppress(OutcomeUnknown):  # of one that was on its way to the process that was killed
                    assert not here.reserve(key, b"late").won
                assert there.read(key, read="linearizable").value in (b"here", b"there")
        third.start()
        made.wait_until_connected()
        with third.client() as client:
            found = [client.read(key, read="linearizable").value for key in keys]
        assert found == [b"here", b"there"] * 10
