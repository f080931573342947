"""docs/operating-members.md as an operator reads it: its commands, in order, on a cluster that grows and shrinks."""

import json
import os
import re
import urllib.request
from pathlib import Path

from epoxy.node.process.config import load
from epoxy.testing import Cluster, ClusterNode, cluster
from tests.end_to_end.pages import ROOT, Shell, blocks, commands
from tests.end_to_end.recorder import PATIENCE_S

PAGE = ROOT / "docs" / "operating-members.md"
BLOCKS = blocks(PAGE)
ADDRESSES = {4: "10.3.0.1:7800", 5: "10.4.0.1:7800", 6: "10.5.0.1:7800"}
"""Of the newcomers, as the page has them."""


def under(heading: str) -> list[str]:
    """The commands that stand under a heading."""
    texts = [text for place, text in BLOCKS if place == heading and text.startswith("epoxy ")]
    assert texts, heading
    return [command for text in texts for command in commands(text)]


def test_every_command_of_the_page_is_run_below() -> None:
    headings = {place for place, text in BLOCKS if text.startswith("epoxy ")}
    assert headings == {"Look", "Grow, 3 to 5", "Replace a dead datacenter", "Move a datacenter", "Shrink", "Undo"}


def test_grow_replace_shrink_and_undo(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path / "cluster") as grown:
        fourth, fifth, sixth = newcomers = [grown.prepare() for _ in ADDRESSES]
        assert [node.id for node in newcomers] == list(ADDRESSES)
        shell = operator_shell(tmp_path, grown, newcomers)
        for command in under("Look"):
            shell.run(command)

        wait_for_orders(fourth, fifth)
        told = [shell.run(command) for command in under("Grow, 3 to 5")]
        assert members_of(told[-1]) == [1, 2, 3, 4, 5]

        grown[1].kill()
        wait_for_orders(sixth)
        (replace,) = under("Replace a dead datacenter")
        assert members_of(shell.run(replace)) == [1, 3, 4, 5, 6]

        (shrink,) = under("Shrink")
        assert members_of(shell.run(shrink)) == [1, 3, 6]
        fourth.wait_until(lambda status: status.state == "removed", "told that it was removed")
        fourth.kill()

        (undo,) = under("Undo")
        shell.run(under("Grow, 3 to 5")[0] + " --no-check --no-wait")
        assert members_of(shell.run(undo)) == [1, 3, 6]
        (move,) = under("Move a datacenter")
        shell.run(move)
        with grown[0].client() as client:
            assert [peer.url for peer in client.status().peers if peer.id == 3] == [move.split()[-1]]
        over_http(grown[0], fifth)


def operator_shell(folder: Path, grown: Cluster, newcomers: list[ClusterNode]) -> Shell:
    addresses = {re.escape(ADDRESSES[node.id]): node.url.removeprefix("http://") for node in newcomers}
    return Shell(folder, {**os.environ, "EPOXY_URL": grown[0].url}, addresses)


def wait_for_orders(*nodes: ClusterNode) -> None:
    for node in nodes:
        node.start(wait=False)
    for node in nodes:
        node.wait_until(lambda status: status.state == "new", "there")


def members_of(told: str) -> list[int]:
    done = re.search(r"^Done: epoch \d+, members ([\d, ]+)\.$", told, re.MULTILINE)
    assert done, told
    return [int(number) for number in done[1].split(",")]


def over_http(member: ClusterNode, newcomer: ClusterNode) -> None:
    """The body of the last section, for a node that was removed and is added again under its id."""
    (body,) = re.findall(r"`POST /v2/members` with `(\{.*?\})` and", PAGE.read_text("utf-8"), re.DOTALL)
    wanted = json.loads(body)
    assert wanted["add"][0]["url"] == f"http://{ADDRESSES[4]}"
    wanted = {"add": [{**wanted["add"][0], "id": newcomer.id, "url": newcomer.url}], "remove": [6]}
    request = urllib.request.Request(
        f"{member.url}/v2/members", json.dumps(wanted).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.status == 202
    with urllib.request.urlopen(f"{member.url}/v2/members?progress=true", timeout=PATIENCE_S) as answer:
        assert json.load(answer)["wanted"] == [1, 3, 5]


def test_the_configuration_of_a_newcomer_is_accepted(tmp_path: Path) -> None:
    (sample,) = (text for _, text in BLOCKS if text.startswith("[node]"))
    (tmp_path / "secret").write_text("0" * 64)
    (tmp_path / "secret").chmod(0o600)
    config = tmp_path / "epoxy.toml"
    config.write_text(sample)
    loaded = load(config, flags={}, environ={})
    assert (loaded.node.id, loaded.cluster.join) == (4, True)
    assert f"http://{loaded.node.http}" == f"http://{ADDRESSES[4]}"
