"""Power cuts under load: nothing that anybody was told is lost."""

from pathlib import Path

from epoxy_sim.history import Found, Operation, Read, Reserve, Won
from tests.end_to_end.load import Load
from tests.end_to_end.recorder import Recorder, judge
from tests.end_to_end.settle import agree_on_all
from tests.end_to_end.world import in_touch, order, others, regions

STEPS = 60
"""Answers at each region between two faults: some of every kind."""


def test_each_region_is_killed_under_load_and_comes_back(tmp_path: Path) -> None:
    recorder = Recorder()
    with regions(tmp_path) as cluster:
        with Load(recorder, cluster) as load:
            load.more(STEPS, cluster.nodes)
            for name in cluster.plan.names:
                order(cluster, "kill", name)
                load.more(STEPS, others(cluster, name))
                order(cluster, "revive", name)
                load.more(STEPS, cluster.nodes)
        in_touch(cluster)
        agree_on_all(recorder, cluster)
    assert judge(recorder.history, tmp_path) > 20
    assert wins(recorder.history) > STEPS


def test_a_power_cut_of_everything(tmp_path: Path) -> None:
    recorder = Recorder()
    with regions(tmp_path) as cluster:
        with Load(recorder, cluster) as load:
            load.more(3 * STEPS, cluster.nodes)
            cluster.kill()
        for name in cluster.plan.names:
            order(cluster, "revive", name)
        in_touch(cluster)
        agree_on_all(recorder, cluster)
    judge(recorder.history, tmp_path)
    won = {o.key: o.kind.value for o in recorder.history if isinstance(o.kind, Reserve) and isinstance(o.outcome, Won)}
    last = {o.key: o.outcome.value for o in recorder.history if isinstance(o.outcome, Found) and o.kind == Read()}
    assert won
    assert {key: last[key] for key in won} == won


def wins(history: list[Operation]) -> int:
    return sum(isinstance(operation.outcome, Won) for operation in history)
