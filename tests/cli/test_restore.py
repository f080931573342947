"""`epoxy restore` at the command line: what it asks for, what it refuses, what it prints."""

import json
import os
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from epoxy.backup.files import BackupWriter
from epoxy.backup.format import BackupHeader, BackupMember, Kind, encode_block
from epoxy.cli import restore as module
from epoxy.cli.restore import restore
from epoxy.codec import wire
from epoxy.model.records import CommittedRecord, Proposal, ProposalId
from epoxy.node.process.config import load
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.transport.peers.probe import ProbeRefused

FILE = """[node]
id = 1
data_dir = "data"
[cluster]
secret_file = "secret"
members = [
  { id = 1, datacenter = "us", url = "http://10.0.0.1:7800" },
  { id = 2, datacenter = "eu", url = "http://10.0.0.2:7800" },
]
"""
PROPOSAL = Proposal(value=b"dublin", version=1, mutable=False, proposal_id=ProposalId(1, 1))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "running_cluster", lambda *_: None)
    (tmp_path / "epoxy.toml").write_text(FILE)
    header = BackupHeader(
        made_at="2026-11-16T11:00:00Z",
        replica=2,
        datacenter="eu",
        epoch=3,
        members=(BackupMember(id=2, datacenter="eu"),),
        quorum_policy="optimal",
        version="2",
    )
    with BackupWriter(tmp_path / "b", header) as writer:
        record = wire.encode_committed_record(CommittedRecord(committed=PROPOSAL))
        writer.write(encode_block(Kind.KEYS, [(b"user/ada", record)]))
        writer.finish(missing=("eu",))
    return tmp_path


def run(*options: str) -> Result:
    return CliRunner().invoke(restore, ["b", "--config", "epoxy.toml", *options])


def test_it_says_what_was_restored_and_what_comes_next(place: Path) -> None:
    done = run()
    assert done.exit_code == 0, done.output
    cluster = json.loads((place / "data" / "format").read_bytes())["cluster"]
    assert done.stdout.splitlines() == [
        "backup of 2026-11-16T11:00:00Z, made at eu (replica 2): whole",
        "actors that are not in it: those of eu; they are made anew when requested",
        "replica 1: 1 key, 0 values of transactions, 0 actors",
        f"cluster {cluster}",
        "next: the same command on eu (2), each with its own file; then start them all",
        f'write cluster.id = "{cluster}" into the files: members that are added later need it',
    ]
    again = run()
    assert again.exit_code == EXIT_CONFIG
    assert "holds the rows of replica 1; a backup is restored into an empty one" in again.stderr


def test_it_says_that_no_token_is_accepted(place: Path) -> None:
    (place / "epoxy.toml").write_text(FILE + '[access]\nauth = "tokens"\n')
    done = run()
    assert done.exit_code == 0, done.output
    assert "a backup has no grants, so no token is accepted: `epoxy auth init`" in done.stdout


def test_a_dry_run_writes_nothing_and_names_the_same_cluster(place: Path) -> None:
    tried = json.loads(run("--dry-run", "--json").stdout)
    assert not (place / "data").exists()
    assert "nothing was written; replica 1 would be a member of cluster" in run("--dry-run").stdout
    done = json.loads(run("--json").stdout)
    assert (tried["cluster"], tried["dry_run"], tried["keys"]) == (done["cluster"], True, 0)
    assert done == tried | {"dry_run": False, "keys": 1}


@pytest.mark.parametrize("option", ["--actors-of=eu", "--actors-of==us", "--actors-of=eu="])
def test_a_choice_is_two_names(place: Path, option: str) -> None:
    assert "give it as OLD=NEW" in run(option).output
    assert not (place / "data").exists()


def test_a_damaged_file_is_refused_before_anything_is_made(place: Path) -> None:
    data = bytearray((place / "b").read_bytes())
    data[-30] ^= 1
    (place / "b").write_bytes(data)
    refused = run()
    assert (refused.exit_code, "block 2" in refused.stderr) == (1, True)
    assert "data" not in os.listdir(place)


def test_a_node_that_joins_and_one_of_another_cluster_are_refused(place: Path) -> None:
    joins = FILE.replace("id = 1\n", 'id = 3\ndatacenter = "ap"\n', 1).replace("[cluster]", "[cluster]\njoin = true")
    (place / "epoxy.toml").write_text(joins)
    assert "gets its rows from the others, not from a backup" in run().stderr
    (place / "epoxy.toml").write_text(FILE.replace("[cluster]", '[cluster]\nid = "00000000000000aa"'))
    refused = run()
    assert (refused.exit_code, "cluster.id is 00000000000000aa, but this file makes" in refused.stderr) == (78, True)
    assert "data" not in os.listdir(place)


def test_it_makes_no_member_of_a_cluster_that_runs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: member 2 of the old cluster answers. A node of the new cluster itself may."""
    cluster = json.loads(run("--dry-run", "--json").stdout)["cluster"]
    monkeypatch.setattr(module, "running_cluster", lambda _, replica, _url: "" if replica == 2 else None)
    refused = run()
    assert refused.exit_code == EXIT_CONFIG
    assert (
        "runs at http://10.0.0.2:7800, the address of member 2: it belongs to a cluster that was not" in refused.stderr
    )
    assert "replaced, with `epoxy members add NEW-ID URL --replace ID`" in refused.stderr
    assert "data" not in os.listdir(place)
    monkeypatch.setattr(module, "running_cluster", lambda *_: cluster)
    assert run().exit_code == 0


def test_a_member_that_does_not_answer_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBE_S", 0.2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("0123456789abcdef")
    (tmp_path / "epoxy.toml").write_text(FILE.replace("http://10.0.0.1:7800", "http://127.0.0.1:1"))
    settings = load(tmp_path / "epoxy.toml")
    assert module.running_cluster(settings, 1, settings.cluster.members[0].url) is None


def test_a_node_there_that_is_not_of_this_cluster_is_an_obstacle(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another secret, say: it cannot be asked which cluster it belongs to."""

    async def refused(*_: object) -> NoReturn:
        raise ProbeRefused("http://10.0.0.1:7800: not signed with our secret")

    monkeypatch.undo()
    monkeypatch.chdir(place)
    monkeypatch.setattr(module, "ask", refused)
    (place / "secret").write_text("0123456789abcdef")
    answer = run()
    assert answer.exit_code == EXIT_CONFIG
    assert "another node runs at http://10.0.0.1:7800, the address of member 1: http" in answer.stderr
    assert "data" not in os.listdir(place)
