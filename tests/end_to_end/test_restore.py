"""New clusters from backups, with real processes: from copies of stopped nodes, and from what is left of a cluster that
lost its majority."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epoxy.client import Client, Status
from epoxy.client.actor_calls import Which
from epoxy.envoy import Actor, Request, Worker
from epoxy.model.errors import OutcomeUnknown
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import Add, Put
from epoxy.testing import Cluster, ClusterNode, clean_environment, cluster, lay_out
from epoxy.testing.actor_world import WorkerThread

NAMES = [b"user/%d" % number for number in range(40)]


def epoxy(*arguments: str | Path, status: int = 0) -> str:
    command = [sys.executable, "-m", "epoxy", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=clean_environment(os.environ), check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def worker_at(url: str) -> Iterator[None]:
    """Its actors count: `tally` in every datacenter, `near` in its own alone."""
    worker = Worker(url, pool="counts", key="counts")

    class Counter(Actor):
        async def on_request(self, _: Request) -> str:
            self.state["count"] = self.state.get("count", 0) + 1
            return str(self.state["count"])

    worker.actor("tally")(Counter)
    worker.actor("near", storage="local")(Counter)
    thread = WorkerThread(worker)
    thread.start()
    try:
        yield
    finally:
        thread.stop()


def counted(node: ClusterNode, *names: str) -> list[bytes]:
    """What the actors answer to one more request each."""
    with node.client(timeout=20) as client:
        return [client.actors.request(Which(name=name, key="1"), b"", pool="counts") for name in names]


@contextmanager
def laid_out(folder: Path, size: int, secret: Path) -> Iterator[Cluster]:
    """A cluster with empty directories that is not started, with the secret of the old one."""
    folder.mkdir()
    made = Cluster(lay_out(folder, size, QuorumPolicy.OPTIMAL), folder)
    shutil.copy(secret, folder / "secret")
    try:
        yield made
    finally:
        made.stop()


def write(client: Client) -> str:
    """Returns the id of an actor, which no worker hosts."""
    for name in NAMES:
        assert client.reserve(name, b"dublin").won
    for value in (b"1", b"2", b"3"):
        client.put(b"cfg", value)
    client.put(b"gone", b"1")
    client.delete(b"gone")
    client.txn(then=[Put(key=b"acct/a", value=b"5"), Put(key=b"acct/b", value=b"7")])
    made = client.actors.create("room", "42", pool="chat", given="hi")
    assert made is not None
    return made.id


def check(client: Client, actor: str) -> None:
    """All of it is there, and writes go on where the old cluster ended."""
    assert [client.get(name) for name in NAMES] == [b"dublin"] * len(NAMES)
    assert not client.reserve(NAMES[0], b"oslo").won
    config = client.read(b"cfg", read="linearizable")
    assert (config.value, config.version) == (b"3", 3)
    assert client.get(b"gone") is None
    assert client.put(b"cfg", b"4", if_version=3).version == 4
    assert client.txn(reads=[b"acct/a", b"acct/b"]).reads == (b"5", b"7")
    client.txn(then=[Add(key=b"acct/a", amount=1)])
    assert client.put(b"acct/b", b"7").version > 1
    found = client.actors.get(Which(name="room", key="42"))
    assert found is not None
    assert (found.id, found.state) == (actor, "pending")


def restore(file: Path, node: ClusterNode, *options: str) -> str:
    """The id of the new cluster."""
    done = json.loads(epoxy("restore", file, "--config", node.config, "--json", *options))
    cluster_id = done["cluster"]
    assert isinstance(cluster_id, str)
    return cluster_id


def test_a_backup_and_copies_of_stopped_nodes_make_clusters_of_any_size(tmp_path: Path) -> None:
    """A backup of the running cluster as one of five, copies of its stopped nodes as one of one."""
    online, copies = tmp_path / "online.backup", tmp_path / "copies.backup"
    with cluster(3, folder=tmp_path / "old") as old:
        with old.client() as client:
            actor = write(client)
        with worker_at(old[1].url):
            assert [counted(old[1], "tally", "near") for _ in range(2)] == [[b"1", b"1"], [b"2", b"2"]]
        epoxy("backup", online, "--url", old[0].url)
        inspected = json.loads(epoxy("backup", "inspect", online, "--json"))
        assert inspected["end"]["keys"]["records"] == len(NAMES) + 8, "with three names of actors, and a state"
        refused = epoxy("restore", online, "--config", old[2].config, status=78)
        assert "holds the rows of replica 3" in refused
        old[2].kill()
        shutil.rmtree(old[2].data_dir)
        refused = epoxy("restore", online, "--config", old[2].config, status=78)
        assert "A single member is not restored but replaced" in refused
        for node in old:
            node.stop()
    secret = tmp_path / "old" / "secret"
    said = epoxy("rescue", old[0].data_dir, old[1].data_dir, "--out", copies, "--lost", "3")
    assert "these are a quorum" in said
    assert not Path(f"{copies}.missing").exists()
    with laid_out(tmp_path / "one", 1, secret) as alone:
        restore(copies, alone[0], "--actors-of", "dc-2=dc-1")
        alone.start()
        with alone.client() as client:
            check(client, actor)
        with worker_at(alone[0].url):
            assert counted(alone[0], "tally", "near") == [b"3", b"3"], "their states, in another datacenter"
    file = online
    with laid_out(tmp_path / "five", 5, secret) as grown:
        assert len({restore(file, node) for node in grown}) == 1
        grown.start()
        for i, node in enumerate(grown):
            with node.client() as client:
                assert client.get(NAMES[i]) == b"dublin", "a local read"
        with grown.client() as client:
            check(client, actor)
        with worker_at(grown[1].url):
            assert counted(grown[4], "tally", "near") == [b"3", b"3"]


def test_a_restored_cluster_hears_only_nodes_restored_with_it(tmp_path: Path) -> None:
    with cluster(1, folder=tmp_path / "old") as old:
        with old.client() as client:
            write(client)
        old[0].stop()
    file, secret = tmp_path / "all.backup", tmp_path / "old" / "secret"
    epoxy("rescue", old[0].data_dir, "--out", file)
    with laid_out(tmp_path / "new", 3, secret) as new:
        first, second, forgotten = new.nodes
        name = restore(file, first)
        assert restore(file, second) == name
        for node in new:
            node.start(wait=False)
        for node in (first, second):
            node.wait_until(lambda status: "cluster id" in trouble(status, 3), "told why it is not heard")
        forgotten.wait_until(lambda status: f"cluster id (of replica 1: {name})" in trouble(status, 1), "told, too")
        with first.client() as client:
            assert client.status().cluster == name
        forgotten.kill()
        assert "holds the rows of replica 3" in epoxy("restore", file, "--config", forgotten.config, status=78)
        shutil.rmtree(forgotten.data_dir)
        with_id = forgotten.config.read_text().replace("[cluster]", f'[cluster]\nid = "{name}"')
        forgotten.config.write_text(with_id)
        assert "run `epoxy restore` here" in epoxy("serve", "--config", forgotten.config, status=78)
        restore(file, forgotten)
        forgotten.start(wait=False)
        new.wait_until_connected()
        newcomer = new.prepare()
        newcomer.config.write_text(newcomer.config.read_text().replace("[cluster]", f'[cluster]\nid = "{name}"'))
        new.join(newcomer)
        with newcomer.client() as client:
            assert client.get(NAMES[0]) == b"dublin"
            assert client.status().cluster == name


def trouble(status: Status, peer: int) -> str:
    return next(each.trouble for each in status.peers if each.id == peer)


def test_a_lost_majority_is_rescued_with_the_list_of_what_may_be_missing(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path / "old") as old:
        with old.client() as client:
            actor = write(client)
        survivor, *others = old.nodes
        for node in others:
            node.pause()
        with survivor.client(timeout=0.5) as client, pytest.raises(OutcomeUnknown):
            client.reserve(b"open", b"mine")
        survivor.kill()
        for node in others:
            node.resume()
        with Client([node.url for node in others]) as client:
            assert client.reserve(b"late", b"theirs").won, "acknowledged by the two that will be lost"
        for node in others:
            node.kill()
            shutil.rmtree(node.data_dir)
    file = tmp_path / "left.backup"
    before = tree_of(survivor.data_dir)
    assert "name the lost members: --lost 2,3" in epoxy("rescue", survivor.data_dir, "--out", file, status=1)
    assert "not 2" in epoxy("rescue", survivor.data_dir, "--out", file, "--lost", "2", status=1)
    assert not file.exists()
    said = epoxy("rescue", survivor.data_dir, "--out", file, "--lost", "3,2", status=5)
    assert "these are no quorum" in said
    assert "must never run again" in said
    assert tree_of(survivor.data_dir) == before, "nothing is changed"
    listed = [json.loads(line) for line in Path(f"{file}.missing").read_text().splitlines()]
    assert listed == [
        {"key": "open", "why": "vote", "replicas": [1], "version": 1, "value": "mine", "taken": True},
    ]
    with laid_out(tmp_path / "new", 1, tmp_path / "old" / "secret") as new:
        restore(file, new[0])
        new.start()
        with new.client() as client:
            check(client, actor)
            assert client.get(b"open") == b"mine"
            assert client.get(b"late") is None


def tree_of(folder: Path) -> dict[str, tuple[int, int]]:
    stats = {str(path): path.stat() for path in folder.rglob("*")}
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}
