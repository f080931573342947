"""`epoxy store`: a data directory of the format before is migrated offline, and brought back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from epoxy.cli import store as cli_store
from epoxy.cli.store import store
from epoxy.node.process.exits import EXIT_CONFIG, EXIT_STORE
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.log import LogPosition
from tests.cli.test_legacy import FILE
from tests.store.format4 import make_format4


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "epoxy.toml"
    path.write_text(FILE)
    (tmp_path / "data").mkdir()
    make_format4(tmp_path / "data", replica=1, rows={b"a": b"1"}, frames=[{b"b": b"2"}], reached=LogPosition())
    return path


def run(config: Path, command: str, *options: str) -> Result:
    return CliRunner().invoke(store, [command, "--config", str(config), *options])


def format_of(config: Path) -> object:
    return json.loads((config.parent / "data" / "format").read_text())["format"]


def test_a_dry_run_says_what_it_would_do(config: Path) -> None:
    told = run(config, "migrate", "--dry-run")
    assert (told.exit_code, format_of(config)) == (0, 4)
    assert "2 rows and the log would be migrated from format 4 to 5, in about 1 s; 64 MiB must be free" in told.output
    facts = json.loads(run(config, "migrate", "--dry-run", "--json").stdout)
    assert (facts["from"], facts["to"], facts["rows"], facts["migrates"]) == (4, 5, 2, True)


def test_a_dry_run_says_what_the_way_back_is(config: Path) -> None:
    assert (
        "release 0.1 can open the directory afterwards; earlier ones cannot"
        in run(config, "migrate", "--dry-run").output
    )
    run(config, "migrate")
    told = run(config, "migrate", "--dry-run").output
    assert "nothing to migrate, it is of format 5" in told
    assert "the release before this one, 0.1, reads the same format" in told
    assert "same format" in json.loads(run(config, "migrate", "--dry-run", "--json").stdout)["way_back"]


def test_after_an_end_that_was_not_in_order_the_way_back_is_a_start_and_a_stop(config: Path) -> None:
    run(config, "migrate")
    with DataDir.open(config.parent / "data", replica=1, name="a node") as data_dir:
        assert data_dir.mark()
    told = run(config, "migrate", "--dry-run")
    assert told.exit_code == 0
    assert "release 0.1 refuses the directory, because its node did not end in order: start it once more" in told.output


def test_a_format_that_the_last_release_cannot_read_is_said_to_have_no_way_back(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_store, "LAST_DIRECTORY", 4)
    told = run(config, "migrate", "--dry-run").output
    assert "release 0.1 cannot open the directory afterwards, except after `epoxy store back`" in told


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--dry-run", "--json"]])
@pytest.mark.parametrize(
    ("number", "words"), [(7, "newer than this release knows: it reads format 5"), (3, "migrates 4")]
)
def test_a_format_that_is_not_known_is_refused_and_left_as_it_is(
    config: Path, options: list[str], number: int, words: str
) -> None:
    file = config.parent / "data" / "format"
    written = json.dumps({"format": number, "replica": 1})
    file.write_text(written)
    told = run(config, "migrate", *options)
    assert told.exit_code == EXIT_CONFIG
    assert f"format {number}" in told.output
    assert words in told.output
    assert file.read_text() == written


def test_there_and_back_again(config: Path) -> None:
    told = run(config, "migrate")
    assert (told.exit_code, format_of(config)) == (0, 5)
    assert "migrated from format 4 to 5, 2 rows and the log; until a node of this version is started" in told.output
    assert "nothing to migrate" in run(config, "migrate").output
    assert "of format 4 again" in run(config, "back").output
    assert format_of(config) == 4
    assert json.loads(run(config, "migrate", "--json").stdout)["migrates"] is True
    assert json.loads(run(config, "back", "--json").stdout) == {"from": 5, "to": 4}


@pytest.mark.parametrize("command", ["migrate", "back"])
def test_a_directory_in_use_and_one_that_is_missing_are_refused(config: Path, command: str) -> None:
    with DataDir.open(config.parent / "data", replica=1, name="a node"):
        told = run(config, command)
        assert (told.exit_code, "in use by a node" in told.output) == (EXIT_CONFIG, True)
    config.write_text(FILE.replace('"data"', '"elsewhere"'))
    told = run(config, command)
    assert told.exit_code == EXIT_CONFIG
    assert told.output.count("\n") == 1
    assert "has no file `format`" in told.output


def test_without_a_migration_there_is_no_way_back(config: Path) -> None:
    told = run(config, "back")
    assert (told.exit_code, "no way back" in told.output) == (EXIT_CONFIG, True)


@pytest.mark.parametrize(
    "command",
    [
        ["store", "migrate", "--config", "epoxy.toml"],
        ["serve", "--config", "epoxy.toml"],
        ["rescue", "data", "--out", "b"],
    ],
)
def test_an_old_tree_that_was_cut_short_is_one_line(config: Path, command: list[str]) -> None:
    """It is read before the node has its store: a bus error would end these commands without a word."""
    (config.parent / "secret").write_text("s" * 16)
    os.truncate("data/tree/data.mdb", 2 * os.sysconf("SC_PAGESIZE"))
    told = subprocess.run([sys.executable, "-m", "epoxy", *command], capture_output=True, text=True, check=False)
    lines = [line for line in told.stderr.splitlines() if "was cut short, or its disk cannot read it" in line]
    assert (told.returncode, len(lines), format_of(config)) == (EXIT_STORE, 1, 4), told.stderr
