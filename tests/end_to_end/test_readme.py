"""README.md, typed in by a newcomer: every block of it is run against a real cluster, in the order of the page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from epoxy import Client
from epoxy.cli.demo import show
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.plan import PORT_BASE, plan
from epoxy.cli.main import run
from tests.end_to_end.pages import ROOT, Shell, blocks, commands, expected_status
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.test_demo import running
from tests.end_to_end.world import draw_port_base, until

BLOCKS = blocks(ROOT / "README.md")
MOST_REGIONS = 7
"""What the three of the demo grow to on the page."""


def block(start: str) -> str:
    """The one block that begins like this."""
    (found,) = (text for _, text in BLOCKS if text.startswith(start))
    return found


STARTS = (
    "make demo\n",
    "Console: http://127.0.0.1:7800/ui",
    ". .venv/bin/activate\n",
    "redis-cli -p 7801",
    "from epoxy import Client\n",
    "echo '{",
    "with c.lock(",
    "from epoxy.envoy import Actor",
    "curl -X POST",
    "[node]\n",
    "epoxy auth init",
)
"""Every block of the page, as the tests below find them."""


def test_no_block_of_the_page_is_left_out() -> None:
    assert [text.splitlines()[0] for _, text in BLOCKS] == [block(start).splitlines()[0] for start in STARTS]


def test_the_first_five_minutes_and_the_rest_of_the_page(tmp_path: Path) -> None:
    base = draw_port_base(MOST_REGIONS)
    with running("--no-wan", "--port-base", str(base)) as demo:
        shell = readme_shell(tmp_path, base)
        first_terminal, *rest = commands(block(". .venv"))
        assert first_terminal == ". .venv/bin/activate"
        told = {command.partition(" #")[0].strip(): shell.run(command) for command in rest}
        assert told["epoxy get user/ada"] == "eu-west-1"
        assert "eu-west-1" in told["epoxy reserve user/ada us-east-1"]
        assert told["epoxy get user/cy"] == "dublin"
        assert len(demo.ps()) == MOST_REGIONS - 1

        assert [shell.run(command) for command in commands(block("redis-cli"))] == ["OK\n", "berlin\n", "OK\n"]

        names: dict[str, object] = {}
        snippet = shell.adapt(block("from epoxy import Client"))
        exec(snippet, names)
        client, reserved = names["c"], names["r"]
        assert isinstance(client, Client)
        with client:
            for attribute in re.findall(r"\br\.(\w+)", snippet):
                assert hasattr(reserved, attribute), attribute
            assert client.get(b"cfg") == b"2"
            exec(block("with c.lock("), names)

        (transfer,) = commands(block("echo"))
        assert shell.run(transfer).startswith("done\n")
        assert "acct/b was 5" in shell.run(transfer)

        ask_the_actor(shell)


def ask_the_actor(shell: Shell) -> None:
    worker = subprocess.Popen([sys.executable, "-c", shell.adapt(block("from epoxy.envoy"))])
    try:
        until(lambda: "worker" in shell.run("epoxy envoy list --pool demo | tail -n +2"), "a worker of the pool")
        *counted, where = map(shell.run, commands(block("curl -X POST")))
        assert [json.loads(each) for each in counted] == [{"count": count, "in": "us-east-1"} for count in (1, 2)]
        assert "counter/visits is " in where
    finally:
        worker.terminate()
        worker.wait(PATIENCE_S)


def readme_shell(folder: Path, base: int) -> Shell:
    environment = {**os.environ, "EPOXY_URL": f"http://127.0.0.1:{base}"}
    ports = {
        f"\\b{PORT_BASE + 10 * region + door}\\b": str(base + 10 * region + door)
        for region in range(9)
        for door in (0, 1)
    }
    return Shell(folder, environment, {r"\bepoxy demo ": f"epoxy demo --port-base {base} ", **ports})


def test_the_table_of_the_demo_is_what_it_prints(tmp_path: Path) -> None:
    planned = plan(tmp_path / "demo", regions=None, port_base=None, wan=True)
    printed = show.welcome(planned, DemoCluster(planned).document(), 2.4, kept=False)
    shown = block("Console").splitlines()
    assert [squeezed(line) for line in shown] == [squeezed(line) for line in printed[: len(shown)]]


def squeezed(line: str) -> str:
    """Without the pid of a process that runs, and of one that does not, and without the widths of columns."""
    return " ".join(re.sub(r"\b47\d\d$|-$", "", line.rstrip()).split())


def test_the_example_configuration_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret").write_text("0" * 64)
    (tmp_path / "secret").chmod(0o600)
    config = tmp_path / "epoxy.toml"
    config.write_text(block("[node]"))
    assert run(["serve", "--config", str(config), "--print-config"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "ap-northeast-1" in printed.out


def test_a_page_is_cut_into_blocks_and_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n\n    a 'b\n    c'\n\n    d  # exit 3\n\ntext\n\n## Two\n```sh\ne\n```\n")
    assert blocks(page) == [("One", "a 'b\nc'\n\nd  # exit 3\n"), ("Two", "e\n")]
    assert list(commands("a 'b\nc'\n\nd  # exit 3\n")) == ["a 'b\nc'", "d  # exit 3"]
    assert [expected_status(command) for command in ("d  # exit 3", "exit 3")] == [3, 0]


def test_a_command_that_does_not_do_what_the_page_promises_is_seen(tmp_path: Path) -> None:
    shell = readme_shell(tmp_path, 11_000)
    assert shell.run("echo 7801 7820") == "11001 11020\n"
    with pytest.raises(AssertionError, match="false"):
        shell.run("false")
    shell.run("(exit 3)  # exit 3: somebody else was first")
