"""`epoxy legacy import`: what the first layout left, in a store that has not served yet."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from epoxy.cli.legacy import legacy
from epoxy.model.ballot import fast_ballot
from epoxy.model.errors import StoreFailed
from epoxy.model.records import KeyState, Proposal, ProposalId, Vote
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.ports import Transaction
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.keyspace import Keyspace, legacy_proposal

FILE = """[node]
id = 1
data_dir = "data"
[cluster]
secret_file = "secret"
members = [{ id = 1, datacenter = "us-east-1", url = "http://10.0.0.1:7800" }]
"""
LINES = '{"key": "user%2Fada", "value": "dublin"}\n{"key": "%00", "value_base64": "/wA="}\n'
MINE = Proposal(value=b"oslo", version=1, mutable=False, proposal_id=ProposalId(replica_id=1, nonce=7))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "epoxy.toml"
    path.write_text(FILE)
    return path


def imported(config: Path, lines: str, *options: str) -> Result:
    return CliRunner().invoke(legacy, ["import", "--config", str(config), *options, "-"], input=lines)


def in_store(config: Path, body: Callable[[Transaction], None]) -> None:
    """In a transaction of the node's store, made durable."""

    async def act() -> None:
        loop = asyncio.get_running_loop()
        failures: list[StoreFailed] = []
        folder = config.parent / "data"
        with DataDir.open(folder, replica=1, name="a test"):
            store = EmbeddedStore(
                folder, post=loop.call_soon_threadsafe, schedule=loop.call_soon, on_failure=failures.append
            )
            durable = loop.create_future()
            store.transact(body)
            store.when_durable(lambda: durable.set_result(None))
            await durable
            assert not failures
            store.close()

    asyncio.run(act())


def held(config: Path, key: bytes) -> Proposal | None:
    found: list[Proposal | None] = []
    in_store(config, lambda tx: found.append(Keyspace(1).committed(tx, key)))
    return found[0]


def test_what_is_imported_is_committed_at_version_0(config: Path) -> None:
    result = imported(config, LINES)
    assert (result.exit_code, result.output) == (0, "replica 1: 2 values imported\n")
    assert held(config, b"user/ada") == legacy_proposal(b"dublin")
    assert held(config, b"\x00") == legacy_proposal(b"\xff\x00")


def test_a_second_import_changes_nothing_and_a_dry_run_writes_nothing(config: Path) -> None:
    tried = imported(config, LINES, "--dry-run", "--json")
    assert json.loads(tried.output) == {"replica": 1, "dry_run": True, "written": 2, "present": 0}
    assert not (config.parent / "data").exists()
    assert "line 1: " in imported(config, "{}\n", "--dry-run").output
    assert held(config, b"user/ada") is None
    imported(config, LINES)
    again = imported(config, LINES, "--json")
    assert json.loads(again.output) == {"replica": 1, "dry_run": False, "written": 0, "present": 2}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 3: "),
        ('{"key": "a"}', "line 3: needs either `value` or `value_base64`"),
        ('{"key": "", "value": "x"}', "line 3: a key of 0 bytes; allowed: 1 to 1024"),
        ('{"key": "100%", "value": "x"}', "line 3: '%' is not a percent sign and two hexadecimal digits"),
        ('{"key": "%ff/x", "value": "x"}', "line 3: key b'\\xff/x' belongs to the cluster"),
        ('{"key": "a", "value": "x", "valeu": "y"}', "line 3: "),
        (
            '{"key": "user%2Fada", "value": "oslo"}',
            "lines 1 to 3 were not imported: key b'user/ada' holds another value",
        ),
    ],
)
def test_a_wrong_line_is_named(config: Path, line: str, says: str) -> None:
    result = imported(config, LINES + line + "\n")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"epoxy: {says}")
    assert held(config, b"user/ada") is None


def test_what_is_being_decided_is_not_overruled(config: Path) -> None:
    vote = Vote(proposal=MINE, ballot=fast_ballot(1), epoch=1)
    in_store(config, partial(Keyspace(1).save, key=b"user/ada", before=KeyState(), after=KeyState(vote=vote)))
    result = imported(config, LINES)
    assert result.exit_code == 1
    assert "is being decided" in result.stderr


def test_a_replica_that_committed_something_takes_no_import(config: Path) -> None:
    in_store(config, partial(Keyspace(1).save, key=b"other", before=KeyState(), after=KeyState(committed=MINE)))
    result = imported(config, LINES)
    assert result.exit_code == 1
    assert "this replica has committed writes" in result.stderr
    assert held(config, b"user/ada") is None


def test_a_directory_in_use_is_left_alone(config: Path) -> None:
    with DataDir.open(config.parent / "data", replica=1, name="a node"):
        result = imported(config, LINES)
    assert result.exit_code == EXIT_CONFIG
    assert "in use by a node" in result.stderr
