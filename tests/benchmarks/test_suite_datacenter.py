"""Nodes that share a database: what is held against the embedded store and against plain clients of the database."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.machine import ROOT
from benchmarks.suite import __main__ as command
from benchmarks.suite import cpu_shares, datacenter, datacenter_claims, processes
from benchmarks.suite.datacenter import EMBEDDED, ONE, PLAIN, RESP, TWO, WITHIN_SHARES, Found, Stretch, for_cpu
from benchmarks.suite.job import AtNode, Latency, Outcome
from benchmarks.suite.makers import Makers
from benchmarks.suite.measure import Plan
from tests.benchmarks.test_suite_rest import options

FRESH = RESP[0]
FRESH_WITHIN_SHARES = WITHIN_SHARES[0]


def outcome(operations: int, *, server_s: float = 0.5, database_s: float = 0.0, faults: int = 0) -> Outcome:
    return Outcome(
        operations=operations,
        seconds=1.0,
        latency=Latency(p50=1.0, p99=2.0),
        nodes=(AtNode(operations=operations, latency=Latency()),),
        faults={"TRYAGAIN": faults} if faults else {},
        unanswered=0,
        answered=operations,
        server_cpu_s=server_s,
        generator_cpu_s=0.1,
        stolen_share=0.0,
        others_share=0.0,
        database_cpu_s=database_s,
    )


def found_of(*rounds: dict[str, Outcome]) -> Found:
    nothing: Found = {each.name: [] for each in (*datacenter.WORKLOADS, *WITHIN_SHARES)}
    return nothing | {FRESH.name: [Stretch(outcomes=each) for each in rounds]}


def test_ratios_are_those_of_the_median_round() -> None:
    """What slows all of them down in one round changes no ratio."""
    found = found_of(
        {EMBEDDED: outcome(1000), ONE: outcome(600), PLAIN: outcome(1500), TWO: outcome(660)},
        {EMBEDDED: outcome(100), ONE: outcome(60), PLAIN: outcome(150), TWO: outcome(66)},
        {EMBEDDED: outcome(1000), ONE: outcome(100), PLAIN: outcome(1500), TWO: outcome(110)},
    )
    by_claim = {verdict.claim: verdict for verdict in datacenter_claims.ratios(found)}
    embedded = by_claim[f"{FRESH.title}: {ONE}, commits a second, to {EMBEDDED}"]
    assert embedded.found.startswith("0.60x")
    assert embedded.held
    plain = by_claim[f"{FRESH.title}: {ONE}, commits a second, to {PLAIN}"]
    assert plain.found.startswith("0.40x")
    assert not plain.held
    assert len(by_claim) == 2, "what was not measured has no line"


def test_what_a_second_node_adds_is_judged_where_each_has_cpu_time_of_its_own() -> None:
    """Without shares both nodes have the same two cores."""
    found = found_of({ONE: outcome(1000), TWO: outcome(900)})
    assert not list(datacenter_claims.ratios(found))
    found[FRESH_WITHIN_SHARES.name] = [Stretch(outcomes={ONE: outcome(1000), TWO: outcome(1400)})]
    (verdict,) = datacenter_claims.ratios(found)
    assert verdict.claim == f"{FRESH_WITHIN_SHARES.title}: {TWO}, commits a second, to {ONE}"
    assert verdict.found.startswith("1.40x")
    assert verdict.held


def test_cpu_time_of_nodes_and_database_is_added_up_for_ratios_and_apart_in_the_table() -> None:
    assert for_cpu(outcome(1000, server_s=0.5, database_s=1.5)) == 500
    found = found_of({EMBEDDED: outcome(1000), ONE: outcome(1000, database_s=0.5)})
    (verdict,) = datacenter_claims.ratios(found)
    assert verdict.found.endswith("for each second of CPU time 0.50x")
    row = datacenter_claims.cpu(found).rows[1]
    assert row[1:7] == [ONE, "500", "500", "100", "1,000", "0.50 + 0.50 + 0.10"]


def test_failures_are_told() -> None:
    verdicts = list(datacenter_claims.unfailing(found_of({ONE: outcome(8, faults=2), PLAIN: outcome(9)})))
    assert [(verdict.found, verdict.held) for verdict in verdicts] == [("2 of 10", False)]


def test_stores_stand_in_one_order_whichever_was_first() -> None:
    found = found_of({PLAIN: outcome(1), TWO: outcome(1), ONE: outcome(1), EMBEDDED: outcome(1)})
    assert [row[1] for row in datacenter_claims.rates(found).rows] == [EMBEDDED, ONE, TWO, PLAIN]


def test_the_part_is_measured_alone_or_with_everything(tmp_path: Path) -> None:
    assert command.parts(options("--parts", "datacenter")) == ["datacenter"]
    assert "datacenter" in command.parts(options())
    with pytest.raises(ValueError, match="or datacenter"):
        command.session(options("--write", "--parts", "datacenter,compare"), tmp_path)


def test_the_smallest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real PostgreSQL, with one and with two nodes on it."""
    monkeypatch.setattr(datacenter, "SHARED", (ONE, TWO))
    monkeypatch.setattr(datacenter, "STORED", 64)
    for module in (datacenter, datacenter_claims):
        monkeypatch.setattr(module, "WORKLOADS", (FRESH, *datacenter.HTTP))
        monkeypatch.setattr(module, "WITHIN_SHARES", ())
    makers = Makers(tmp_path, {}, Path(sys.executable))
    part = datacenter_claims.datacenter_part(makers, tmp_path / "run", Plan(rounds=1, warm_s=0.1, seconds=0.3))
    assert [verdict.found[:5] for verdict in part.verdicts if verdict.claim.endswith("failed")]
    assert all(verdict.held for verdict in part.verdicts if verdict.claim.endswith("failed"))
    rates, cpu = part.tables
    stores = [row[1] for row in rates.rows if "HTTP" not in row[1]]
    assert stores == [EMBEDDED, *([datacenter.TWO_PROCESSES] if datacenter.has_processes() else []), ONE, TWO, PLAIN]
    plain = cpu.rows[stores.index(PLAIN)]
    assert plain[2] == "0"
    assert int(plain[3]) > 0, "the database's CPU time is its own"


def test_a_process_has_its_share_of_a_core_or_the_kernel_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups are folders of the kernel's, or here of a disk that has no such files."""
    groups = tmp_path / "cpu"
    groups.mkdir()
    monkeypatch.setattr(cpu_shares, "GROUPS", groups)
    monkeypatch.setattr(Path, "rmdir", lambda path: shutil.rmtree(path))
    with cpu_shares.shares([17, 18], 0.35):
        made = sorted(groups.iterdir())
        assert [(each / "cgroup.procs").read_text() for each in made] == ["17", "18"]
        assert {(each / "cpu.cfs_quota_us").read_text() for each in made} == {str(round(cpu_shares.PERIOD_US * 0.35))}
    assert (groups / "cgroup.procs").read_text() == "18", "they are taken back into the group of all"
    assert not [each for each in groups.iterdir() if each.is_dir()]
    monkeypatch.setattr(cpu_shares, "GROUPS", tmp_path / "absent")
    with pytest.raises(OSError, match="absent"), cpu_shares.shares([17], 0.35):
        pass


def test_turns_of_the_scheduler_are_set_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from benchmarks.suite.processes import take_short_turns as t; t(100)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or "the length of turns cannot be set" in done.stderr
    monkeypatch.setattr(processes, "SCHED_SETATTR", 100_000)
    with pytest.raises(OSError, match="the length of turns cannot be set"):
        processes.take_short_turns(100)


def test_a_process_that_has_ended_takes_no_time_from_the_others() -> None:
    mine = os.getpid()
    assert processes.cpu_since({mine: 0.0, 2**22 + 1: 5.0}) == pytest.approx(processes.cpu_s((mine,)), rel=0.2)
