"""An installation without the extra `server`: which commands work, and what the others say."""

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from epoxy.cli import groups
from epoxy.cli.main import run
from epoxy.cli.server_packages import SERVER_PACKAGES, ServerPackageMissing
from epoxy.node.process.exits import EXIT_CONFIG

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(SERVER_PACKAGES)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from epoxy.cli.main import main
main(sys.argv[1:])
"""


def without_server(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True, check=False)


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", each)[0].replace("-", "_") for each in requirements}


def test_the_list_is_what_the_extra_adds() -> None:
    asked = (ROOT / "requirements" / "server.in").read_text("utf-8").splitlines()
    assert names([line for line in asked if line[:1].isalpha()]) == SERVER_PACKAGES
    declared = [each for each in requires("epoxydb") or [] if 'extra == "server"' in each]
    assert names(declared) == SERVER_PACKAGES


def test_the_help_lists_all_commands_and_says_which_are_not_installed() -> None:
    shown = without_server("--help")
    assert shown.returncode == 0, shown.stderr
    lacking = re.findall(r"^ +([a-z]+) +Not installed: pip install 'epoxydb\[server\]'$", shown.stdout, re.MULTILINE)
    assert lacking == ["backup", "elect", "restore", "rescue", "store", "legacy", "sim"]


def test_a_node_does_not_start_and_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the sixteen bytes that it takes")
    config = tmp_path / "epoxy.toml"
    config.write_text(
        '[node]\nid = 1\ndata_dir = "data"\n[cluster]\nsecret_file = "secret"\n'
        'members = [{ id = 1, datacenter = "a", url = "http://127.0.0.1:7800" }]\n'
    )
    refused = without_server("serve", "--config", str(config))
    assert refused.returncode == EXIT_CONFIG == ServerPackageMissing.exit_code
    assert re.fullmatch(
        r"epoxy: this needs what a node needs, and \w+ is not installed: pip install 'epoxydb\[server\]'\n",
        refused.stderr,
    )


@pytest.mark.parametrize("words", ["backup", "backup --help", "backup file --url http://127.0.0.1:1", "store migrate"])
def test_a_command_without_its_packages_gives_the_reason_whatever_its_words(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(_: str) -> None:
        raise ModuleNotFoundError("No module named 'xxhash'", name="xxhash")

    monkeypatch.setattr(groups, "import_module", absent)
    assert run(words.split()) == EXIT_CONFIG
    assert capsys.readouterr().err.startswith("epoxy: this needs what a node needs, and xxhash is not installed")


def test_any_other_missing_module_is_no_matter_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise ModuleNotFoundError("No module named 'epoxy.codec'", name="epoxy.codec")

    monkeypatch.setattr(groups, "import_module", absent)
    with pytest.raises(ModuleNotFoundError):
        run(["get", "a"])
