"""Stories as text. EPOXY_REWRITE=1 writes today's output into the files; read the difference before you keep it."""

import os
from pathlib import Path

import pytest

from tests.scenarios.script import differences, parse, play, render, scenario_files
from tests.scenarios.table import ScenarioError

REWRITE = os.environ.get("EPOXY_REWRITE") == "1"


@pytest.mark.parametrize("path", scenario_files(), ids=lambda path: path.stem)
def test_the_story_is_still_true(path: Path) -> None:
    if REWRITE:
        path.write_text(render(play(parse(path.read_text("utf-8")))), "utf-8")
    assert list(differences(path)) == []
    assert render(parse(path.read_text("utf-8"))) == path.read_text("utf-8"), "blocks are parted by one empty line"


def test_there_are_stories() -> None:
    assert len(scenario_files()) >= 12


CLUSTER = "cluster n=3\n----\nreplicas A to C, slow quorum 2, fast quorum 2\n"


def test_a_story_that_is_not_true_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "false.txt"
    path.write_text(CLUSTER.replace("fast quorum 2", "fast quorum 3"))
    (difference,) = differences(path)
    assert "fast quorum 3" in difference
    path.write_text(CLUSTER)
    assert list(differences(path)) == []


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "# only a comment\n", "cluster n=3\n", "cluster n=3\n# late\n----\n", "----\nout\n"],
    ids=["empty", "blank", "comment", "no separator", "comment below", "no command"],
)
def test_a_file_that_proves_nothing_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError):
        parse(text)


@pytest.mark.parametrize(
    "command",
    [
        "teleport A->B",
        "propose A",
        "propose A ada bob cat",
        "propose D ada",
        "read A eventually",
        "deliver A->B",
        "deliver A->*",
        "deliver A",
        "drop B->C",
        "timer A",
        "restart A",
        "put A ada if=soon",
        "cluster n=none",
        "cluster n=3 policy=guess",
        "txn A put k 1",
        "follow A",
        "fold A",
        "fold A jump",
        "carry A put x",
        "back A",
    ],
)
def test_a_command_that_makes_no_sense_is_refused(command: str) -> None:
    blocks = parse(f"{CLUSTER}\n{command}\n----\n")
    with pytest.raises(ScenarioError):
        play(blocks)


@pytest.mark.parametrize(
    ("begin", "command"),
    [
        ("transactions n=3", "txn A jump k"),
        ("transactions n=3", "txn D put k 1"),
        ("transactions n=3", "recover A 1"),
        ("transactions n=3", "propose A ada"),
        ("transactions n=3", "timer A"),
        ("members n=3", "follow E"),
        ("members n=3", "learned A b"),
        ("members n=3", "read A linearizable"),
        ("members n=3", "timer D"),
    ],
)
def test_every_world_refuses_what_makes_no_sense_in_it(begin: str, command: str) -> None:
    play(parse(f"{begin}\n----\n"))
    with pytest.raises(ScenarioError):
        play(parse(f"{begin}\n{command}\n----\n"))


def test_nothing_happens_before_there_is_a_cluster() -> None:
    with pytest.raises(ScenarioError):
        play(parse("state\n----\n"))


def test_a_replica_that_is_down_takes_no_writes() -> None:
    with pytest.raises(ScenarioError):
        play(parse(f"{CLUSTER}\ncrash A\npropose A ada\n----\n"))
