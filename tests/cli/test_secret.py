"""`epoxy secret`: a secret is made, and replaced in three steps."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from epoxy.cli.secret import secret
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.node.process.secret_files import secrets_in


def run(*words: object) -> Result:
    return CliRunner().invoke(secret, [str(word) for word in words])


def shown(file: Path) -> list[str]:
    accepted = json.loads(run("show", file, "--json").stdout)["accepted"]
    assert isinstance(accepted, list)
    return accepted


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    both = tmp_path / "secret", tmp_path / "new-secret"
    for file in both:
        assert run("new", file).exit_code == 0
    return both


def test_a_new_one_is_long_random_and_for_its_owner_alone(files: tuple[Path, Path]) -> None:
    one, other = (secrets_in("file", file)[0] for file in files)
    assert one != other
    assert len(one) == 43
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600


def test_three_steps(files: tuple[Path, Path]) -> None:
    file, fresh = files
    (old,), (new,) = shown(file), shown(fresh)
    file.chmod(0o640)
    assert run("add", file, fresh).output == f"  {'spoken':<20}{old}\n  {'accepted, too':<20}{new}\n"
    assert run("switch", file).output == f"  {'spoken':<20}{new}\n  {'accepted, too':<20}{old}\n"
    assert run("drop", file).output == f"  {'spoken':<20}{new}\n"
    assert secrets_in("file", file) == secrets_in("file", fresh)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640, "as it was: its group may be the node's"
    assert sorted(each.name for each in file.parent.iterdir()) == ["new-secret", "secret"]


def test_no_secret_is_ever_printed(files: tuple[Path, Path]) -> None:
    file, fresh = files
    words = [run("show", file).output, run("add", file, fresh).output, run("switch", file, "--json").output]
    hidden = [each.decode() for each in (*secrets_in("file", file), *secrets_in("file", fresh))]
    assert not [told for told in words for each in hidden if each in told]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("new secret", "secret: exists already; `epoxy secret add` adds another secret to it"),
        ("add secret secret", "has the secret "),
        ("add secret none", "none: cannot be read: No such file or directory"),
        ("add secret short", "short: 5 bytes; at least 16"),
        ("add two new-secret", "two: has the secret "),
        ("add two third", "two: has two secrets already"),
        ("add third two", "two: has two secrets; one is added at a time"),
        ("switch secret", "secret: has one secret; `epoxy secret add` adds another"),
        ("drop secret", "secret: has one secret"),
        ("show none", "none: cannot be read: No such file or directory"),
        ("new none/secret", "secret: cannot be written: No such file or directory"),
    ],
)
def test_mistakes_change_nothing(files: tuple[Path, Path], words: str, told: str) -> None:
    folder = files[0].parent
    run("new", folder / "third")
    (folder / "short").write_text("short")
    (folder / "two").write_bytes(files[0].read_bytes() + files[1].read_bytes())
    before = {file: file.read_bytes() for file in folder.iterdir()}
    command, *names = words.split()
    result = run(command, *[folder / name for name in names])
    assert result.exit_code == EXIT_CONFIG
    assert result.stderr.startswith("epoxy: ")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
