"""Members come and go while clients of both doors write: nothing they were told is lost, and none of them is turned
away."""

import shutil
from pathlib import Path

import pytest

from epoxy.model.errors import Unavailable
from epoxy.testing import Cluster, ClusterNode, as_newcomer, change_members, cluster
from epoxy_sim.history import Unknown
from tests.end_to_end.members_load import Writers, agree, failures
from tests.end_to_end.recorder import Recorder, judge
from tests.end_to_end.world import until

STEPS = 30
"""Answers for each client between two changes: some of every kind."""


def test_three_become_five_one_of_them_is_replaced_and_three_are_left(tmp_path: Path) -> None:
    """The founders leave: in the end not one of the first members is there any more but the third."""
    recorder = Recorder()
    with cluster(3, folder=tmp_path) as grown:
        first, second, third = grown.nodes
        fourth, fifth, sixth = (grown.prepare() for _ in range(3))
        urls = [node.url for node in (first, second, third, fourth, fifth, sixth)]
        names = ["one", "two", "three", "locks"]
        with Writers(recorder) as writers:
            for i, name in enumerate(names[:3]):
                writers.http(name, urls[i:] + urls[:i])
            writers.redis("locks", third.resp_port)
            writers.more(STEPS, names)

            grown.join(fourth, fifth)
            until(lambda: {epoch_of(node) for node in grown} == {6}, "in one epoch")
            writers.more(STEPS, names)
            assert failures(recorder) == []

            second.kill()
            shutil.rmtree(second.data_dir)
            order_of_one_that_dies(grown, first, sixth, instead_of=second)
            writers.more(STEPS, ["three", "locks"])
            first.start()
            writers.more(STEPS, names)

            change_members(third, remove=[first.id, fourth.id])
            until(lambda: state(first) == state(fourth) == "removed", "told that they were removed")
            writers.more(STEPS, names)
        grown.nodes = [third, fifth, sixth]
        agree(recorder, grown)
        empty_disk(second)
    assert judge(recorder.history, tmp_path) > STEPS
    lost = [operation for operation in recorder.history if isinstance(operation.outcome, Unknown)]
    assert {operation.client for operation in lost} <= {"one", "two"}, "only clients of those who were killed"


def order_of_one_that_dies(grown: Cluster, asked: ClusterNode, newcomer: ClusterNode, instead_of: ClusterNode) -> None:
    """The coordinator is gone as soon as it has promised; somebody else goes on."""
    newcomer.start(wait=False)
    newcomer.wait_until(lambda status: status.state == "new", "there")
    with asked.client() as client:
        client.change_members(add=[as_newcomer(newcomer)], remove=[instead_of.id])
    asked.kill()
    until(lambda: state(newcomer) == "active", "a member")
    grown.nodes = [node for node in grown.nodes if node is not instead_of] + [newcomer]


def empty_disk(node: ClusterNode) -> None:
    """Under an id that was removed it is told so, and serves no client."""
    node.start(wait=False)
    node.wait_until(lambda status: not status.ready and status.state == "removed", "told that it was removed")
    with pytest.raises(Unavailable, match="it was removed"), node.client() as client:
        client.reserve(b"never/written", b"")


def state(node: ClusterNode) -> str:
    with node.client() as client:
        return client.status().state


def epoch_of(node: ClusterNode) -> int:
    with node.client() as client:
        return client.status().epoch
