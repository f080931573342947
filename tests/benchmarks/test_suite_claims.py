"""Figures of a suite's run, what they are held against, and how they are shown. Every judge is shown a miss as well."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.findings import Verdict
from benchmarks.machine import Machine
from benchmarks.suite import claims, plots, report
from benchmarks.suite.job import AtNode, Latency, Outcome
from benchmarks.suite.processes import Memory
from benchmarks.suite.results import Figures, Growth, Held, Holding, Lines, Loaded, Overload, Results, Spread, figures
from benchmarks.suite.workloads import EMPTY, EPOXY, EPOXY_HTTP, ETCD, ETCD_SHARED, REDIS, WORKLOADS


def outcome(
    operations: int, *, p50: float = 1.0, cpu_s: float = 1.0, nodes: tuple[int, ...] = (), **more: object
) -> Outcome:
    found = Outcome(
        operations=operations,
        seconds=2.0,
        latency=Latency(mean=p50, p50=p50, p99=2 * p50, most=3 * p50),
        nodes=tuple(AtNode(operations=count, latency=Latency(p50=p50)) for count in nodes or (operations,)),
        faults={},
        unanswered=0,
        answered=operations,
        server_cpu_s=cpu_s,
        generator_cpu_s=0.5,
        stolen_share=0.0,
        others_share=0.1,
    )
    return msgspec.structs.replace(found, **more)


def some(
    rate: float, *, p50: float = 1.0, cpu_us: float = 100.0, nodes: tuple[int, ...] = (), **more: object
) -> Figures:
    operations = round(rate * 2)
    cpu_s = operations * cpu_us / 1e6
    return figures([outcome(operations, p50=p50, cpu_s=cpu_s, nodes=nodes, **more)])


def held(found: list[Verdict]) -> list[bool]:
    return [verdict.held for verdict in found]


def test_rounds_give_medians_with_their_spread_and_add_up_what_went_wrong() -> None:
    rounds = [
        outcome(200, p50=1.0, nodes=(100, 100)),
        outcome(600, p50=9.0, nodes=(200, 400), faults={"BUSY": 2}),
        outcome(400, p50=2.0, nodes=(400, 0), faults={"BUSY": 1}, unanswered=1),
    ]
    found = figures(rounds)
    assert found.rate == Spread(median=200.0, low=100.0, high=300.0)
    assert found.p50 == Spread(median=2.0, low=1.0, high=9.0)
    assert found.nodes == (700, 500)
    assert (found.operations, found.failed, found.faults) == (1200, 4, {"BUSY": 3, "unanswered": 1})
    assert found.cpu_us.median == 2500.0


@pytest.mark.parametrize(
    ("ours", "shared", "cpu", "p50", "expected"),
    [
        (160.0, 100.0, 60.0, 1.0, [True, True, True, True]),
        (159.0, 90.0, 60.0, 1.0, [False, True, True, True]),
        (160.0, 101.0, 60.0, 1.0, [True, False, True, True]),
        (160.0, 100.0, 61.0, 1.01, [True, True, False, False]),
    ],
)
def test_commits_against_etcd(ours: float, shared: float, cpu: float, p50: float, expected: list[bool]) -> None:
    found = {
        "fresh-64": {EPOXY: some(ours, cpu_us=cpu), ETCD: some(100.0), ETCD_SHARED: some(shared)},
        "fresh-1": {EPOXY: some(10.0, p50=p50), ETCD: some(10.0)},
    }
    assert held(list(claims.commits(found))) == expected


def test_overwrites_against_etcd_and_commits_over_http_against_those_over_resp() -> None:
    found = {
        "fresh-64": {EPOXY: some(100.0), EPOXY_HTTP: some(90.0)},
        "overwrite-64": {EPOXY: some(150.0), ETCD: some(100.0)},
    }
    assert held(list(claims.commits(found))) == [True, True]
    found["fresh-64"][EPOXY_HTTP], found["overwrite-64"][EPOXY] = some(89.0), some(149.0)
    assert held(list(claims.commits(found))) == [False, False]


def test_reads_are_held_against_redis_and_against_the_best_of_etcd() -> None:
    found = {
        "get-1": {EPOXY: some(500.0), EPOXY_HTTP: some(150.0), ETCD: some(60.0), REDIS: some(1000.0)},
        "get-spread": {EPOXY: some(400.0), ETCD: some(100.0), ETCD_SHARED: some(90.0)},
    }
    assert held(list(claims.reads(found))) == [True, True, True]
    found["get-spread"][ETCD_SHARED] = some(101.0)
    assert held(list(claims.reads(found))) == [True, False, False]
    found["get-1"][REDIS] = some(1001.0)
    assert held(list(claims.reads(found)))[0] is False


def test_reads_all_over_a_large_store_are_held_against_redis_too() -> None:
    def of(ours: float) -> list[bool]:
        by = {"get-loaded": {EPOXY: some(ours), REDIS: some(100.0)}}
        return held(list(claims.scattered(Loaded(held={EPOXY: holding(10).held}, workloads=by))))

    assert (of(50.0), of(49.0)) == ([True], [False])


def test_linearizable_reads_at_every_number_of_clients() -> None:
    found = {
        "linearizable-mutable-1": {EPOXY: some(100.0), ETCD: some(100.0)},
        "linearizable-immutable-64": {EPOXY: some(99.0), ETCD: some(100.0), ETCD_SHARED: some(98.0)},
    }
    assert held(list(claims.linearizable(found))) == [True, False, True]


def test_no_node_may_be_a_hot_spot_and_a_hot_key_must_move_everywhere() -> None:
    def of(nodes: tuple[int, ...], again: float, hot: Figures) -> list[bool]:
        found = {
            "fresh-256": {EPOXY: some(100.0, nodes=nodes)},
            "overwrite-256": {EPOXY: some(again)},
            "hot-key": {EPOXY: hot},
        }
        return held(list(claims.everywhere(found)))

    hot = some(100.0, nodes=(100, 60, 40))
    assert of((70, 70, 60), 80.0, hot) == [True, True, True]
    assert of((90, 70, 40), 79.0, some(100.0, nodes=(200, 0, 0))) == [False, False, False]
    assert of((70, 70, 60), 80.0, some(100.0, nodes=(100, 60, 40), faults={"INDEFINITE": 1}))[2] is False


def holding(keys: int, *, p50: float = 1.0, start_s: float = 1.0, memory: int = 100) -> Holding:
    by = {EPOXY: some(100.0, p50=p50), EMPTY: some(100.0)}
    nothing, something = Memory(anonymous=100, resident=100), Memory(anonymous=memory, resident=500)
    one = Held(
        keys=keys,
        how="somehow",
        took_s=1.0,
        nodes=1,
        before=nothing,
        after=something,
        disk_before=0,
        disk_after=2 * keys,
    )
    return Holding(
        held=one,
        alone=by,
        busy=by,
        reads=some(1000.0),
        memory=something,
        memory_empty=nothing,
        start_s=0.5,
        start_after_kill_s=start_s,
    )


@pytest.mark.parametrize(
    ("p50", "start_s", "memory", "expected"),
    [
        (1.5, 4.9, 125, [True, True, True, True]),
        (1.6, 4.9, 125, [False, False, True, True]),
        (1.0, 5.0, 100, [True, True, False, True]),
        (1.0, 1.0, 126, [True, True, True, False]),
    ],
)
def test_a_full_store_is_held_against_an_empty_one(
    p50: float, start_s: float, memory: int, expected: list[bool]
) -> None:
    assert held(list(claims.full(holding(10, p50=p50, start_s=start_s, memory=memory)))) == expected


def test_overload_may_refuse_but_not_fail_and_not_drag_on() -> None:
    def of(**more: object) -> Overload:
        return Overload(under_way=16000, figures=some(100.0, **more))  # type: ignore[arg-type]

    assert claims.overloaded(of(faults={"BUSY": 600})).held
    assert of(faults={"BUSY": 600}).busy_share == 0.75
    assert not claims.overloaded(of(faults={"INDEFINITE": 1})).held
    assert not claims.overloaded(of(p50=1001.0)).held


def growth() -> Growth:
    curve = {1: {EPOXY: some(10.0), ETCD: some(5.0)}, 64: {EPOXY: some(100.0), ETCD: some(50.0)}}
    return Growth(
        clients=curve,
        sizes=curve,
        replicas=curve,
        keys=[holding(10), holding(1000)],
        lines={EPOXY: Lines(count=500, bytes_each=2048.0)},
        overload=[Overload(under_way=64, figures=some(1.0)), Overload(under_way=1000, figures=some(2.0))],
    )


def results() -> Results:
    workloads = {workload.name: {name: some(100.0) for name in workload.contenders} for workload in WORKLOADS}
    return Results(
        when="today",
        commit="abc",
        machine=Machine(cores=2, kernel="6", python="3.11", packages={"uvloop": "1"}),
        versions={ETCD: "3"},
        rounds=3,
        seconds=3.0,
        quick=False,
        fsync_ms=(0.2, 0.3),
        workloads=workloads,
        loaded=Loaded(held={EPOXY: holding(10).held}, workloads={"get-loaded": {EPOXY: some(5.0)}}),
        growth=growth(),
    )


def test_a_report_shows_every_workload_every_contender_and_every_promise() -> None:
    shown = report.text(results())
    for workload in WORKLOADS:
        assert f"| {workload.title} | {EPOXY} |" in shown
    assert "| fresh keys, 64 clients: commits a second, to etcd | at least 1.6x | 1.00x | **no** |" in shown
    assert "| fresh keys, 1 client: p50, to etcd | at most 1x | 1.00x | yes |" in shown
    assert "![Commits a second, by clients](img/bench-clients.svg)" in shown
    assert "2.0 KiB" in shown


def test_results_survive_their_file() -> None:
    assert msgspec.json.decode(msgspec.json.encode(results()), type=Results) == results()


def test_the_page_is_renewed_between_its_marks_alone() -> None:
    page = f"before\n{report.BEGIN}old\n{report.END}after\n"
    assert report.replaced(page, "new") == f"before\n{report.BEGIN}\nnew\n{report.END}after\n"
    with pytest.raises(ValueError, match="no place"):
        report.replaced("nothing here", "new")


def test_a_page_is_renewed_from_the_file_of_results_with_its_pictures(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}{report.END}after\n")
    report.save(results(), tmp_path / "results" / "bench.json")
    report.renew(tmp_path / "results" / "bench.json", page, tmp_path / "img")
    assert page.read_text() == f"before\n{report.BEGIN}\n{report.text(results())}\n{report.END}after\n"
    assert sorted(path.name for path in (tmp_path / "img").iterdir()) == sorted(
        name for name, _, _ in plots.pictures(growth())
    )


def test_pictures_are_named_and_drawn() -> None:
    drawn = {name: picture for name, _, picture in plots.pictures(growth())}
    shown = ("clients", "sizes", "replicas", "keys", "keys-p50", "overload")
    assert set(drawn) == {f"bench-{name}.svg" for name in shown}
    assert all(picture.startswith("<svg ") for picture in drawn.values())
