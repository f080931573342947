"""Three nodes as processes: an actor outlives its region, moves to another one, and is found from everywhere."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from epoxy.cli.actors import actor
from epoxy.client import Client, Which
from epoxy.envoy import Actor, Request, Worker
from epoxy.testing import Cluster, cluster
from epoxy.testing.actor_world import WorkerThread
from tests.end_to_end.attacked import until

LEASE_MS = 5_000
SETTINGS = f"[placement]\nhome_lease_ms = {LEASE_MS}\neligible_threshold_ms = 2000\n"
COUNTER = Which(name="counter", key="one")


def worker_of(url: str, key: str) -> WorkerThread:
    worker = Worker(url, key=key, pool="homes")

    @worker.actor("counter")
    class Counter(Actor):
        async def on_request(self, _: Request) -> str:
            self.state["count"] = self.state.get("count", 0) + 1
            return f"{self.state['count']} in {self.datacenter}"

    return WorkerThread(worker)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Cluster]:
    """Workers at the first two nodes."""
    with cluster(3, folder=tmp_path, settings=SETTINGS) as nodes, ExitStack() as ends:
        for number, node in enumerate(list(nodes)[:2]):
            thread = worker_of(node.url, f"w{number}")
            thread.start()
            ends.callback(thread.stop)
        yield nodes


def test_an_actor_moves_and_outlives_its_region(world: Cluster) -> None:
    with world[2].client() as far:
        live_on(world, far)


def live_on(world: Cluster, far: Client) -> None:
    def count() -> str:
        return far.actors.request(COUNTER, b"", pool="homes").decode()

    first = count()
    made = far.actors.get(COUNTER)
    assert made is not None
    assert made.datacenter in ("dc-1", "dc-2"), "where workers are"
    assert [first, count()] == [f"1 in {made.datacenter}", f"2 in {made.datacenter}"]

    other = "dc-2" if made.datacenter == "dc-1" else "dc-1"
    told = CliRunner().invoke(actor, ["move", "counter", "one", "--to", other, "--url", world[2].url])
    assert told.exit_code == 0, told.output
    assert ["datacenter", other] in [line.split() for line in told.output.splitlines()]
    assert count() == f"3 in {other}"
    wrong = CliRunner().invoke(actor, ["move", "counter", "one", "--to", "dc-3", "--url", world[2].url])
    assert wrong.exit_code == 1
    reasons = ("no worker of pool 'homes'", "hosts no actors now")
    assert any(reason in wrong.output for reason in reasons), "by whether that node has ever needed a lease"
    nowhere = CliRunner().invoke(actor, ["move", "counter", "one", "--to", "moon", "--url", world[2].url])
    assert "no datacenter of this cluster is named 'moon'; there are dc-1, dc-2, dc-3" in nowhere.output

    home = next(node for node in world if node.datacenter == other)
    home.kill()
    killed_s = time.monotonic()
    answers: list[str] = []

    def answered() -> bool:
        answers.append(count())
        return True

    until(answered, "the actor answers from another region")
    assert answers == [f"4 in {made.datacenter}"]
    assert time.monotonic() - killed_s < LEASE_MS / 1000 + 5 + 10, "slack for a busy machine"
    found = far.actors.get(COUNTER)
    assert found is not None
    assert (found.id, found.datacenter, found.epoch) == (made.id, made.datacenter, made.epoch + 3)

    home.start()
    with home.client() as back:
        until(lambda: back.actors.request(COUNTER, b"").decode() == f"5 in {made.datacenter}", "it redirects")
