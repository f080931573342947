"""docs/runbooks.md: what an operator sees and does, at one cluster to which it all happens."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, ClusterNode, lay_out
from tests.end_to_end.pages import ROOT, Shell, blocks, masked, transcript
from tests.transport.test_tls import Office

PAGE = ROOT / "docs" / "runbooks.md"
BLOCKS = [(place, text) for place, text in blocks(PAGE) if text.startswith("$ ")]
"""What is run here; other blocks are run by the tests that the page names, or were by hand."""
ADDRESSES = {1: "10.0.0.1", 2: "10.1.0.1", 3: "10.2.0.1"}
NAMES = {"us-east-1": "dc-1", "eu-west-1": "dc-2", "ap-northeast-1": "dc-3"}

SUBJECTS = [
    "A node lost",
    "A disk lost",
    "A majority lost",
    "A region removed",
    "A full disk",
    "A slow disk",
    "Certificates expired",
    "A bad deploy rolled back",
    "Moving a node",
]
PARTS = ["Meanwhile", "Do", "Over", "Never", "Tried"]


def sections(page: Path, level: str) -> dict[str, str]:
    parts = re.split(rf"^{level} (.+)\n", page.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_runbook_has_all_its_parts_and_the_day_it_was_tried() -> None:
    told = sections(PAGE, "##")
    assert list(told) == SUBJECTS
    for subject, text in told.items():
        found = re.findall(r"^\*\*(\w+)", text, re.MULTILINE)
        assert [part for part in found if part in PARTS] == PARTS, subject
        assert re.search(r"on \d{4}-\d\d-\d\d", text.split("**Tried**")[1]), subject


def test_the_page_of_operators_has_each_under_its_name() -> None:
    """Alerts point there."""
    told = sections(ROOT / "docs" / "operating.md", "###")
    for subject in SUBJECTS:
        anchor = subject.lower().replace(" ", "-")
        assert f"](runbooks.md#{anchor})" in told[subject].split("\n## ")[0], subject


def test_every_command_with_a_prompt_is_run_below() -> None:
    assert [place for place, _ in BLOCKS] == [
        *["A node lost"] * 2,
        "A majority lost",
        *["Certificates expired"] * 2,
        "A bad deploy rolled back",
    ]


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path, "ca")


@pytest.fixture
def hurt(tmp_path: Path, office: Office, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three nodes with TLS, each with a certificate of its own."""
    monkeypatch.setenv("SSL_CERT_FILE", str(office.ca))
    nodes = lay_out(tmp_path, 3, QuorumPolicy.OPTIMAL)
    for node in nodes:
        certify(node, office)
        text = node.config.read_text("utf-8").replace("http://", "https://")
        tls = f'[tls]\ncert = "{node.id}-cert.pem"\nkey = "{node.id}-key.pem"\nca = "ca.pem"\n'
        node.config.write_text(f"{text}\n{tls}", "utf-8")
        node.url = node.url.replace("http://", "https://")
    made = Cluster(nodes, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def certify(node: ClusterNode, office: Office, expires: datetime | None = None) -> None:
    office.issue("127.0.0.1", expires=expires, file=str(node.id))


class Operator:
    """Runs the commands of a runbook, and looks for the lines that the page has among those that they print."""

    def __init__(self, cluster: Cluster) -> None:
        folder = cluster.folder
        changes = {rf"https?://{re.escape(ADDRESSES[node.id])}:7800": node.url for node in cluster}
        changes |= NAMES | {r"\bepoxy\.toml": str(cluster[0].config)}
        environment = {**os.environ, "EPOXY_URL": cluster[0].url, "EPOXY_CA": str(folder / "ca.pem")}
        self._shell = Shell(folder, environment, changes)
        self._left = {place: transcript(BLOCKS, place) for place in SUBJECTS}

    def run(self, subject: str, count: int) -> None:
        for _ in range(count):
            command, printed = self._left[subject].pop(0)
            said = masked(self._shell.run(command)).splitlines()
            for line in masked(self._shell.adapt(printed)).splitlines():
                assert line.rstrip() in [each.rstrip() for each in said], (command, line, said)

    def has_run_all(self) -> bool:
        return not any(self._left.values())


def test_what_happens_to_one_cluster(hurt: Cluster, office: Office) -> None:
    first, second, third = hurt
    operator = Operator(hurt)

    second.kill()
    for node in (first, third):
        node.wait_until(lambda status: status.tolerated_failures == 0, "noticed")
    operator.run("A node lost", 2)
    second.start()
    hurt.wait_until_connected()
    operator.run("A node lost", 1)

    for node in (second, third):
        node.kill()
    first.wait_until(lambda status: status.tolerated_failures < 0, "noticed")
    operator.run("A majority lost", 3)
    for node in (second, third):
        node.start(wait=False)
    hurt.wait_until_connected()

    third.stop()
    certify(third, office, datetime.now(UTC) - timedelta(days=1))
    third.start(wait=False)
    first.wait_until(lambda _: is_started(third), "beside a node that has started again")
    operator.run("Certificates expired", 1)
    certify(third, office)
    hurt.wait_until_connected()
    operator.run("Certificates expired", 1)

    text = first.config.read_text("utf-8")
    (hurt.folder / "new.toml").write_text(text.replace("data_dir", "data_drawer"), "utf-8")
    operator.run("A bad deploy rolled back", 2)
    assert operator.has_run_all()


def is_started(node: ClusterNode) -> bool:
    """Since it was started last."""
    return '"event":"started"' in node.log.read_text("utf-8").rpartition('"event":"stopped"')[2]
