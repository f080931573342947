"""`epoxy serve` before it serves: where settings come from, what is printed, and how it refuses."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from epoxy.cli import serve as module
from epoxy.cli.serve import serve
from epoxy.model.errors import StoreFailed
from epoxy.node.process.config import TABLE, Settings
from epoxy.node.process.exits import EXIT_CONFIG

FILE = """[node]
id = 1
data_dir = "data"
[cluster]
secret_file = "secret"
members = [
    { id = 1, datacenter = "us-east-1", url = "http://10.0.0.1:7800" },
    { id = 2, datacenter = "eu-west-1", url = "http://10.0.0.2:7800" },
]
"""


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`serve` has its process to itself. Here it leaves that as it was, and hears nothing of the shell around."""
    for name in [name for name in os.environ if name.startswith("EPOXY_")]:
        monkeypatch.delenv(name)
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "epoxy.toml"
    path.write_text(FILE)
    return path


def run(config: Path, *arguments: str, **environ: str) -> Result:
    return CliRunner(env=environ).invoke(serve, ["--config", str(config), *arguments])


def printed(config: Path, *arguments: str, **environ: str) -> dict[str, dict[str, object]]:
    result = run(config, "--print-config", *arguments, **environ)
    assert (result.exit_code, result.stderr) == (0, "")
    document: dict[str, dict[str, object]] = json.loads(result.stdout)
    return document


def test_addresses_of_peers_and_operators_are_flags_too(config: Path) -> None:
    node = printed(config, "--peers", "10.0.0.1:7802", "--admin", "127.0.0.1:7803")["node"]
    assert (node["peers"], node["admin"]) == ("10.0.0.1:7802", "127.0.0.1:7803")


def test_what_is_in_force_is_printed_under_the_names_of_the_file(config: Path) -> None:
    document = printed(config)
    assert document["node"] == {
        "id": 1,
        "datacenter": "us-east-1",
        "data_dir": str(config.parent / "data"),
        "http": "127.0.0.1:7800",
        "advertise_url": "http://10.0.0.1:7800",
        "processes": 1,
    }
    limits = {key: field.default for key, field in TABLE["limits"].items() if field.default is not None}
    assert document["limits"] == limits
    assert document["store"] == {key: field.default for key, field in TABLE["store"].items() if key != "url"}
    assert document["wan"] == {"emulate": False}
    assert not (config.parent / "data").exists(), "printing touches nothing"


def test_a_file_is_checked_and_nothing_is_made(config: Path) -> None:
    (config.parent / "secret").write_text("s" * 32)
    (config.parent / "secret").chmod(0o600)
    result = run(config, "--check")
    data = config.parent / "data"
    assert result.stdout == f"{config}: us-east-1 (replica 1) would start; {data} is not there yet\n"
    assert result.stderr.startswith(f"warning: {data} is empty: ")
    assert json.loads(run(config, "--check", "--json").stdout)["format"] is None
    assert not data.exists()
    (config.parent / "secret").unlink()
    assert run(config, "--check").exit_code == EXIT_CONFIG


def test_flags_beat_variables_and_those_beat_the_file(config: Path) -> None:
    assert printed(config, EPOXY_NODE_HTTP="127.0.0.1:2")["node"]["http"] == "127.0.0.1:2"
    flags = ("--id", "2", "--http", "127.0.0.1:3", "--resp", "127.0.0.1:4", "--data-dir", "/d")
    node = printed(config, *flags, "--set", "wan.emulate=true", EPOXY_NODE_HTTP="127.0.0.1:2")["node"]
    assert (node["id"], node["http"], node["resp"], node["data_dir"]) == (2, "127.0.0.1:3", "127.0.0.1:4", "/d")
    assert node["datacenter"] == "eu-west-1"


def test_set_reaches_every_setting_and_takes_values_with_equal_signs(config: Path) -> None:
    document = printed(config, "--set", "limits.pipeline=7", "--set", "cluster.secret_file=/a=b")
    assert document["limits"]["pipeline"] == 7
    assert document["cluster"]["secret_file"] == "/a=b"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--id", "x"), "command line: node.id is 'x'; allowed: a whole number from 1 to 4294967295"),
        (("--set", "limits.pipelin=7"), "command line: unknown setting limits.pipelin; known: limits.connections, "),
        (
            ("--set", "limits.pipeline="),
            "command line: limits.pipeline is ''; allowed: a whole number from 1 to 100000",
        ),
    ],
)
def test_a_bad_setting_is_one_line_and_status_78(config: Path, arguments: tuple[str, ...], words: str) -> None:
    result = run(config, *arguments)
    assert result.exit_code == EXIT_CONFIG == 78
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"epoxy: {words}")
    assert result.stdout == ""


def test_a_bad_file_is_one_line_with_its_place(config: Path) -> None:
    config.write_text(FILE.replace("secret_file", "secretfile"))
    result = run(config)
    known = ", ".join(TABLE["cluster"])
    words = f"unknown setting cluster.secretfile; known: {known}; did you mean secret_file?"
    assert result.stderr == f"epoxy: {config}, line 5: {words}\n"


def test_no_secret(config: Path) -> None:
    """Looked for when the node is made, and before anything else is."""
    result = run(config)
    assert result.exit_code == EXIT_CONFIG
    secret = config.parent / "secret"
    assert result.stderr == f"epoxy: cluster.secret_file {secret}: cannot be read: No such file or directory\n"
    assert not (config.parent / "data").exists()


@pytest.mark.parametrize("arguments", [("--set", "node.id"), ("--log-level", "loud"), ("--port", "1")])
def test_what_is_no_flag_is_a_matter_of_usage(config: Path, arguments: tuple[str, ...]) -> None:
    assert run(config, *arguments).exit_code == click.UsageError.exit_code


def test_a_store_that_fails_at_the_start_is_status_74(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Settings) -> None:
        raise StoreFailed("data directory d: No space left on device")

    monkeypatch.setattr("epoxy.server.serve.serve", fail)
    result = run(config)
    assert (result.exit_code, result.stderr) == (74, "epoxy: data directory d: No space left on device\n")


def test_the_help_has_every_status() -> None:
    text = CliRunner().invoke(serve, ["-h"]).stdout
    assert module.__doc__
    assert all(f"  {status}  " in text for status in (0, 74, 75, 78))
