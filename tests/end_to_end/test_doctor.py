"""`epoxy doctor` beside real nodes with real troubles: one cluster, to which more and more is done."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from epoxy.cli.node_visits import TOTAL_S
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, ClusterNode, lay_out
from tests.end_to_end.recorder import PATIENCE_S
from tests.monitoring.faulty_node import OTHER_VERSION, FaultyNode
from tests.transport.test_tls import Office

WEAK = "change-me-please"


def install(node: ClusterNode, office: Office, host: str = "127.0.0.1", days: float = 90.0) -> None:
    made = office.issue(host, expires=datetime.now(UTC) + timedelta(days=days), file=f"{node.id}")
    for file, name in zip(made, ("cert", "key"), strict=True):
        shutil.copy(file, node.config.parent / f"{name}-{node.id}.pem")
    (node.config.parent / f"key-{node.id}.pem").chmod(0o600)


def set_up(node: ClusterNode, office: Office) -> None:
    """With TLS, and with troubles: the certificate of the first ends soon; the second trusts one authority more than
    the others."""
    folder = node.config.parent
    text = node.config.read_text("utf-8").replace("http://", "https://")
    node.url = node.url.replace("http://", "https://")
    install(node, office, days=3.5 if node.id == 1 else 90.0)
    shutil.copy(office.ca, folder / f"ca-{node.id}.pem")
    if node.id == 2:
        with (folder / "ca-2.pem").open("ab") as trusted:
            trusted.write(Office(folder / "second", "ca").ca.read_bytes())
    tls = "".join([f'{name} = "{folder / name}-{node.id}.pem"\n' for name in ("cert", "key", "ca")])
    node.config.write_text(f"{text}\n[tls]\n{tls}", "utf-8")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "office", "ca")


@pytest.fixture
def troubled(tmp_path: Path, office: Office, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The third has a slow disk without room, a wrong clock, and bugs."""
    monkeypatch.setenv("SSL_CERT_FILE", str(office.ca))
    nodes = lay_out(tmp_path, 3, QuorumPolicy.OPTIMAL)
    nodes[2] = FaultyNode.of(nodes[2], tmp_path)
    (tmp_path / "secret").write_text(WEAK)
    (tmp_path / "secret").chmod(0o644)
    for node in nodes:
        set_up(node, office)
    cluster = Cluster(nodes, tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        for node in nodes:
            node.kill()


Findings = dict[str, list[dict[str, Any]]]


def doctor(status: int, *options: str) -> Findings:
    """What it finds, by code."""
    command = [sys.executable, "-m", "epoxy", "doctor", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (status, ""), done.stdout
    document = json.loads(done.stdout)
    assert document["took_s"] < TOTAL_S + 1
    by_code: Findings = {}
    for finding in document["findings"]:
        by_code.setdefault(finding["code"], []).append(finding)
    return by_code


def words(findings: Findings, code: str) -> str:
    return "; ".join([finding["words"] for finding in findings[code]])


def test_real_troubles_are_found(troubled: Cluster, office: Office) -> None:
    first, second, third = troubled
    with first.client() as client:
        for number in range(3):
            client.put(f"k/{number}", b"v")
    third.wait_until(lambda status: (status.longest_sync_ms or 0) > 100, "slow")

    found = doctor(1, "--url", first.url, "--config", str(first.config))
    assert words(found, "nodes-ready") == "3 of 3 nodes answer and are ready"
    assert re.match(r"the clock of dc-3 \(3\) is \d\.\d s ahead of that of dc-", words(found, "clock-skew"))
    (slow,) = [finding for finding in found["slow-disk"] if "the disk of dc-3 (3)" in finding["words"]]
    assert "syncs slowly: p50 " in slow["words"]
    assert slow["commands"] == [f"epoxy members add 4 {third.url} --replace 3 --url {first.url}"]
    assert "the disk of dc-3 (3) has 200 MiB left" in words(found, "disk-space")
    assert words(found, "invariant-broken").startswith("dc-3 (3) has seen 1 broken invariant")
    assert "dc-3 (3) has met " in words(found, "exceptions")
    assert words(found, "certificate-expires") == "the certificate of dc-1 (1) expires in 3 days"
    assert len(found["authorities-differ"]) == 1
    assert f"dc-3 (3): {OTHER_VERSION}" in words(found, "versions-differ")
    assert f"nodes run {OTHER_VERSION}" in words(found, "version-here")
    assert [finding["severity"] for finding in found["secret-default"]] == ["BROKEN"] * 4, "three nodes, and the file"
    assert found["secret-readable"][-1]["commands"] == [f"chmod 600 {first.secret}"]
    expected = {
        *("clock-skew", "slow-disk", "disk-space", "invariant-broken", "exceptions", "certificate-expires"),
        *(
            "authorities-differ",
            "versions-differ",
            "version-here",
            "secret-default",
            "secret-readable",
            "nodes-ready",
            "available",
        ),
    }
    assert {code for code in found if code != "slow-path"} == expected, "and nothing else, of all there is to find"

    first.secret.chmod(0o600)
    second.kill()
    install(second, office, host="localhost")
    second.start(wait=False)
    there = second.url.replace("127.0.0.1", "localhost")
    first.wait_until(lambda status: "mismatch" in status.peers[0].trouble, "refused its certificate")
    found = doctor(1, "--url", f"{first.url},{there}")
    assert "secret-readable" not in found
    assert "the certificate of dc-2 (2) is refused at https://127.0.0.1:" in words(found, "certificate-flaw")
    assert "dc-1 (1) does not reach dc-2, though both answer" in words(found, "link-cut")
    assert "Check its certificate" in found["link-cut"][0]["advice"]
    assert "no-spare" in found

    third.pause()
    first.wait_until(lambda status: status.tolerated_failures < 0, "alone")
    found = doctor(1, "--url", f"{first.url},{there}")
    # dc-2 may not have noticed yet, and then it says so.
    assert words(found, "node-silent").startswith(f"dc-3 at {third.url} does not answer: no connection in time")
    assert "dc-1 (1) reaches no quorum: 1 datacenter too few" in words(found, "no-quorum")
    assert not {"available", "clock-skew", "slow-disk"} & set(found), "what it does not say is not known"
