"""Charts, processes, options and the loader."""

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.store import opened
from benchmarks.suite import __main__ as command
from benchmarks.suite import loader
from benchmarks.suite.job import MARK, value_of
from benchmarks.suite.makers import Makers, chosen
from benchmarks.suite.measure import named
from benchmarks.suite.processes import Server, cpu_s, disk_bytes, free_ports, memory, tree, wait_until
from benchmarks.suite.svg import Axis, chart, linear, logarithmic, number, places
from benchmarks.suite.workloads import WORKLOADS
from epoxy.ports import KeyValue

SVG = "{http://www.w3.org/2000/svg}"


def test_a_chart_is_xml_with_a_line_and_a_dot_for_every_point() -> None:
    lines = {"a <b>": [(1.0, 10.0), (10.0, 20.0)], "c": [(1.0, 5.0)]}
    root = ElementTree.fromstring(chart("Title & more", logarithmic("x", [1, 10]), linear("y", [5, 20]), lines))
    assert len(root.findall(f"{SVG}circle")) == 3
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert {"Title & more", "a <b>", "c", "x", "y"} <= set(words)
    assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or "")


def test_points_lie_inside_of_the_axes_in_their_order() -> None:
    axis = logarithmic("x", [3, 4000])
    assert (axis.low, axis.high, axis.ticks) == (1.0, 10000.0, (1.0, 10.0, 100.0, 1000.0, 10000.0))
    assert [axis.place(value) for value in (1, 100, 10000)] == [0, 0.5, 1]
    with pytest.raises(ValueError, match="above 0"):
        logarithmic("x", [0, 1])


@pytest.mark.parametrize(("most", "ticks"), [(7.0, 8), (100.0, 6), (1234.0, 7), (0.0, 6)])
def test_a_linear_axis_begins_at_zero_and_ends_at_or_above_the_most(most: float, ticks: int) -> None:
    axis = linear("y", [most])
    assert axis.low == 0
    assert axis.high >= most
    assert 2 <= len(axis.ticks) <= ticks


def test_a_single_place_is_in_the_middle() -> None:
    assert places("x", [5], log=False).place(5) == 0.5
    assert isinstance(places("x", [5], log=True), Axis)


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (12.5, "12.5"), (1500, "1.5k"), (65536, "64Ki"), (10_000_000, "10M")]
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


def test_a_server_is_watched_and_ended_by_its_own_pid(tmp_path: Path) -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], stdin=sys.stdin)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        while len(tree([parent.pid])) < 2:
            assert parent.poll() is None
        assert memory(tree([parent.pid])).anonymous > 0
        assert cpu_s(tree([parent.pid])) > 0
    finally:
        parent.communicate(b"\n")
    assert memory([parent.pid]).anonymous == 0, "one that has ended has none"
    assert disk_bytes(tmp_path) == 0
    (tmp_path / "file").write_bytes(bytes(10000))
    assert disk_bytes(tmp_path) >= 10000


def test_a_server_that_ends_early_tells_its_last_words(tmp_path: Path) -> None:
    server = Server([sys.executable, "-c", "print('no room')"], tmp_path)
    with pytest.raises(RuntimeError, match="no room"):
        wait_until(lambda: False, server, "it")
    server.end()
    assert not server.running


def test_ports_are_free_distinct_and_not_those_of_outgoing_connections() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    assert all(20000 <= port < 32000 for port in found)


def options(*words: str) -> argparse.Namespace:
    return command.parser().parse_args(words)


def test_what_is_chosen_is_known(tmp_path: Path) -> None:
    makers = Makers(tmp_path, {}, None)
    assert chosen("etcd, EPOXY", makers) == ["etcd", "Epoxy"]
    assert "rqlite" not in chosen(None, makers), "it is not installed"
    with pytest.raises(ValueError, match="no system 'oracle'"):
        chosen("oracle", makers)
    with pytest.raises(ValueError, match="no workload begins with 'nothing'"):
        named("nothing")
    assert [workload.name for workload in named("get-1,hot,overwrite")] == [
        "get-1",
        "hot-key",
        "overwrite-64",
        "overwrite-256",
    ]
    with pytest.raises(ValueError, match="no part 'half'"):
        command.session(options("--parts", "half"), tmp_path)
    with pytest.raises(ValueError, match="it wants all parts"):
        command.session(options("--write", "--only", "hot"), tmp_path)
    with pytest.raises(ValueError, match="only the part compare"):
        command.session(options("--systems", "etcd"), tmp_path)


@pytest.mark.parametrize("words", [("--rounds", "0"), ("--seconds", "-1"), ("--seconds", "nan"), ("--keys", "many")])
def test_numbers_that_make_no_sense_are_refused(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(*words)
    assert words[0] in capsys.readouterr().err


def test_a_session_is_what_the_options_say(tmp_path: Path) -> None:
    quick = command.session(options("--quick", "--keys", "50000"), tmp_path)
    assert (quick.plan.rounds, quick.scale.keys, quick.scale.loaded) == (1, (10_000, 50_000), 50_000)
    only = command.session(options("--only", "fresh-1", "--rounds", "5", "--seconds", "0.5"), tmp_path)
    assert (only.parts, only.plan.rounds, only.plan.seconds) == (["compare"], 5, 0.5)
    assert command.session(options(), tmp_path).workloads is WORKLOADS


def test_a_binary_that_is_missing_is_an_error_that_helps(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make bench"):
        Makers(tmp_path, {}, None).binary("etcd")
    with pytest.raises(FileNotFoundError, match="no such file"):
        Makers(tmp_path, {"etcd": tmp_path / "gone"}, None).binary("etcd")
    with pytest.raises(FileNotFoundError, match="make fast"):
        Makers(tmp_path, {}, tmp_path / "gone").epoxy(tmp_path)


def test_workloads_have_names_of_their_own() -> None:
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
    assert len({workload.title for workload in WORKLOADS}) == len(WORKLOADS)


def test_the_loader_repeats_what_a_commit_left(tmp_path: Path) -> None:
    async def rows() -> list[KeyValue]:
        store = opened(tmp_path)
        found = list(loader.everything(store.durable()))
        store.close()
        return found

    async def plant() -> None:
        store = opened(tmp_path)
        tx = store.begin()
        tx.set(b"other", b"row")
        tx.set(b"key/" + MARK, value_of(16))
        tx.set_stamped(b"log/", b"\x00\x00", MARK)
        tx.commit()
        synced = asyncio.get_running_loop().create_future()
        store.when_durable(lambda: synced.set_result(None))
        await synced
        store.close()

    asyncio.run(plant())
    before = asyncio.run(rows())
    asyncio.run(loader.fill(tmp_path, 1500))
    after = asyncio.run(rows())
    assert len(before) == 3
    assert len(after) == 3 + 2 * 1500
    digits = b"000000001234"
    assert (b"key/" + digits, value_of(16).replace(MARK, digits)) in after
    logged = [value for key, value in after if key.startswith(b"log/")]
    assert logged == [MARK, *(b"%012d" % count for count in range(1500))], "stamped in their order"


def test_the_loader_wants_a_pattern(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no pattern"):
        asyncio.run(loader.fill(tmp_path, 10))
