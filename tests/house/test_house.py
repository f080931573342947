"""What holds for the repository as a whole. Every judge below is shown a planted fault as well."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINS = ("run", "dev", "build", "packages", "redis", "libraries", "redis-py-suite", "spec", "bench")

# Hosts and folders that belong to one machine or one registry. The escapes keep this file from matching itself.
HOSTS = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|crates\.io|(?:index|find)-(?:url|links)", re.IGNORECASE
)
FOLDERS = re.compile(r"(?<![\w./}-])/(?:work|root|home|opt|Users)/\w")

PIN = re.compile(r"[a-z0-9][a-z0-9._-]*==[\w.+!]+(?: ; [\w .'<>=!()]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")
NOTE = re.compile(r"    #(?: via| {3})[\w .<>-]*")


THIRD_PARTY = ROOT / "src" / "epoxy" / "api" / "console" / "static" / "vendor"
"""Files of others, as they are: paths in them are not those of a machine of ours."""


def strangers(text: str, *patterns: re.Pattern[str]) -> list[str]:
    """The registry hosts and machine paths that `text` names."""
    return [match.group() for pattern in patterns or (HOSTS, FOLDERS) for match in pattern.finditer(text)]


def strangers_in(path: Path) -> list[str]:
    text = path.read_text("utf-8", errors="replace")
    return strangers(text, HOSTS) if THIRD_PARTY in path.parents else strangers(text)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


def test_no_tracked_file_names_a_registry_or_a_machine() -> None:
    files = tracked_files()
    assert ROOT / "pyproject.toml" in files
    found = {str(path.relative_to(ROOT)): strangers_in(path) for path in files}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize("parts", [("https://py", "pi.org/simple"), ("--index", "-url x"), ("cd /ho", "me/ada")])
def test_a_planted_stranger_is_seen(parts: tuple[str, str]) -> None:
    assert strangers("".join(parts))


def test_paths_of_our_own_are_no_strangers() -> None:
    assert strangers("docs/home/page src/work/x https://example.org/ho" + "me/ada {key}/ro" + "ot/x") == []


def misfits(text: str) -> list[str]:
    """The lines of a pin file that are neither a version, a hash nor a note of where the pin came from."""
    shapes = (PIN, HASH, NOTE)
    return [line for line in text.splitlines() if not any(shape.fullmatch(line) for shape in shapes)]


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").splitlines()
    return dict(line.split()[0].split("==") for line in lines if PIN.fullmatch(line))


@pytest.mark.parametrize("name", PINS)
def test_pins_carry_versions_and_hashes_alone(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    assert misfits(text) == []
    assert re.findall(r"\\\n(?!    --hash=)", text) == [], "a pin without a hash"
    assert pins(name)


@pytest.mark.parametrize("line", ["click>=8.1 \\", "click==8.1", "--pre", "    --hash=md5:00", "click @ file:x \\"])
def test_a_planted_misfit_is_seen(line: str) -> None:
    assert misfits(line) == [line]


def asked_for(name: str) -> set[str]:
    """What a list of requirements names, and the lists that it includes."""
    text = (ROOT / "requirements" / f"{name}.in").read_text("utf-8")
    included = re.findall(r"^-r ([\w-]+)\.in$", text, re.MULTILINE)
    return set(re.findall(r"^[a-z][\w-]*", text, re.MULTILINE)).union(*map(asked_for, included))


@pytest.mark.parametrize("name", PINS)
def test_everything_asked_for_is_pinned(name: str) -> None:
    assert asked_for(name)
    assert asked_for(name) <= set(pins(name))
    assert {"click", "lmdb"} <= asked_for("run"), "of both lists that it includes"


def test_what_users_run_is_what_tests_run() -> None:
    assert pins("run").items() <= pins("dev").items()


def mute_targets(makefile: str) -> set[str]:
    """Targets that `make help` would not show."""
    phony = set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.MULTILINE))
    return phony - set(re.findall(r"^([a-z0-9-]+):.* ## \S", makefile, re.MULTILINE))


def test_every_make_target_says_what_it_is_for() -> None:
    assert mute_targets((ROOT / "Makefile").read_text("utf-8")) == set()
    assert mute_targets(".PHONY: loud\nloud: ## speaks\n.PHONY: mute\nmute: loud\n") == {"mute"}


def test_help_lists_the_targets_the_documents_promise() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    promised = ["setup", "demo", "test", "test-pythons", "check", "lint", "sim", "soak", "mutate", "fuzz", "spec"]
    promised += ["bench", "lock", "clean"]
    assert [name for name in promised if not re.search(rf"^ +{name} +\w", shown, re.MULTILINE)] == []


def test_the_changelog_has_room_for_the_next_change() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## \[?Unreleased\]?\n+### \w+\n+- \S", text, re.MULTILINE)


def repeated(changelog: str) -> list[str]:
    """What a merge by union has left twice: lines, wherever they are, and headings, within one version."""
    found: set[str] = set()
    for version in re.split(r"(?m)^(?=## )", changelog):
        heads = [line for line in version.splitlines() if line.startswith("#")]
        found |= {line for line in heads if heads.count(line) > 1}
    lines = [line for line in changelog.splitlines() if line.startswith(("## ", "- ", "  "))]
    return sorted(found | {line for line in lines if lines.count(line) > 1})


def test_the_changelog_says_nothing_twice() -> None:
    assert repeated((ROOT / "CHANGELOG.md").read_text("utf-8")) == []
    assert repeated("## [Unreleased]\n### Fixed\n- one\n- two\n### Fixed\n- one\n") == ["### Fixed", "- one"]
    assert repeated("## [2]\n### Fixed\n- one\n## [1]\n### Fixed\n- one\n## [1]\n") == ["## [1]", "- one"]


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert records[0].startswith("0001-")
    assert re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8")) == records


def test_every_decision_weighs_alternatives() -> None:
    headings = ["## Context", "## Decision", "## Alternatives", "## Consequences"]
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        assert re.findall(r"^## .+$", path.read_text("utf-8"), re.MULTILINE) == headings, path.name


def test_no_transport_is_given_pieces() -> None:
    """Python's own event loop, from 3.12.0 on, does not pause a protocol whose reader is stuck when it is given pieces
    (CVE-2024-12254, mended in 3.12.9 and 3.13.2), and fails when the connection is lost. One piece is joined first."""
    files = [path for path in tracked_files() if path.is_relative_to(ROOT / "src") and path.suffix == ".py"]
    assert len(files) > 100
    assert [path.name for path in files if "transport.writelines(" in path.read_text("utf-8")] == []
