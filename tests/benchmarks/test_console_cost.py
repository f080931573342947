"""The benchmark of the console: what is above a goal is marked, and the visitor notices when it is cut off."""

import asyncio
import itertools
import sys

import pytest

from benchmarks.access_cost import Served, Variant, Window
from benchmarks.console_cost import BEFORE, VISITED, WITHOUT, Visitor, commits, per_commit_us, told, told_alone, visited

CLUSTER = Served(http=1, resp=2, pids=(), tokens={})


def test_the_report_marks_what_is_surely_above_the_goal() -> None:
    variants = [Variant(name=name, cluster=CLUSTER) for name in (BEFORE, WITHOUT, VISITED)]
    workload = next(commits())
    visitor = Visitor(CLUSTER)
    visitor.samples, visitor.looks = 300, 15
    same = [[Window(100.0, 10.0), Window(100.0, 10.0), Window(99.5, 10.05)]] * 4
    lines = told(workload, variants, same, visitor).splitlines()
    assert lines[0].startswith(
        f"{workload.name}: {BEFORE} 100 a second, 10.0 us of CPU each; the visitor saw 300 samples"
    )
    assert not any("ABOVE" in line for line in lines)
    dear = [[Window(100.0, 10.0), Window(99.0, 10.1), Window(97.0, 10.3)]] * 4
    lines = told(workload, variants, dear, visitor).splitlines()
    assert [line.endswith(("ABOVE 0%", "ABOVE 1%")) for line in lines] == [False, True, True]


def test_every_commit_is_of_a_key_of_its_own() -> None:
    for workload in commits():
        make = workload.make(Variant(name=BEFORE, cluster=CLUSTER))
        assert len(set(itertools.islice(iter(make, None), 5))) == 5


def test_a_visitor_that_is_cut_off_is_noticed() -> None:
    async def story() -> None:
        async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, visited(Served(http=port, resp=1, pids=(), tokens={})):
            await asyncio.sleep(0.2)

    with pytest.raises(AssertionError, match="cut off"):
        asyncio.run(story())


def test_what_a_visitor_costs_by_itself_is_told_with_its_spread() -> None:
    words = told_alone([1.0, 2.0, 3.0, 4.0, 5.0], 0.3)
    assert words.startswith("A visitor by itself: +3.0 ms of CPU a second (+1.5 to +4.5)")
    assert 0 < per_commit_us(sys.executable) < 1000
