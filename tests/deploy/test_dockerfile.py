"""The Dockerfile: judged by hadolint, and compared with what it copies and installs. docker itself does not run here;
`make packages` builds wheels in the same way."""

import fnmatch
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")


def hadolint(text: str) -> list[str]:
    program = Path(sys.executable).with_name("hadolint")
    assert program.exists(), "make packages-tools installs hadolint"
    told = subprocess.run([program, "--no-color", "-"], input=text, capture_output=True, text=True, check=False)
    return re.findall(r"\b(?:DL|SC)\d{4}\b", told.stdout) or ([] if told.returncode == 0 else [told.stdout])


def instructions(text: str, name: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", text)
    return re.findall(rf"^{name} (.+)$", joined, re.MULTILINE)


def test_hadolint_finds_nothing() -> None:
    assert hadolint(DOCKERFILE) == []


@pytest.mark.parametrize(
    ("planted", "code"),
    [("USER 7800:7800", "DL3002"), ("python:3.11-slim-bookworm", "DL3006"), ("--no-cache-dir ", "DL3042")],
)
def test_hadolint_sees_a_planted_fault(planted: str, code: str) -> None:
    instead = {"USER 7800:7800": "USER root", "python:3.11-slim-bookworm": "python", "--no-cache-dir ": ""}
    assert code in hadolint(DOCKERFILE.replace(planted, instead[planted]))


def test_it_ends_without_root_and_asks_for_its_health() -> None:
    assert instructions(DOCKERFILE, "USER") == ["7800:7800"]
    (health,) = instructions(DOCKERFILE, "HEALTHCHECK")
    assert 'CMD ["python", "/usr/local/lib/epoxy/healthcheck.py"]' in health
    assert "deploy/healthcheck.py /usr/local/lib/epoxy/healthcheck.py" in instructions(DOCKERFILE, "COPY")


def copied(text: str) -> list[str]:
    """From the repository, not from another stage."""
    return [name for words in instructions(text, "COPY") if "--from" not in words for name in words.split()[:-1]]


def let_in(name: str, ignore: str) -> bool:
    """By .dockerignore: the last line that matches the file or a folder above it decides."""
    allowed = True
    above = [name, *map(str, Path(name).parents)]
    for line in ignore.splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and any(fnmatch.fnmatch(each, pattern) for each in above):
            allowed = line.startswith("!")
    return allowed


def test_what_is_copied_is_there_and_nothing_else_is_sent() -> None:
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8")
    names = copied(DOCKERFILE)
    assert {"src", "setup.py", "requirements/run.txt"} <= set(names)
    assert [name for name in names if not (ROOT / name).exists()] == []
    assert [name for name in names if not let_in(name, ignore)] == []
    assert not let_in("secret", ignore)
    assert not let_in("data/log/1", ignore)
    assert let_in("src/epoxy/ports.py", ignore)


def test_its_build_tools_are_those_that_are_declared() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    asked = re.findall(r"^[a-z][\w-]*", (ROOT / "requirements" / "build.in").read_text("utf-8"), re.MULTILINE)
    assert sorted(re.split("[=>]", each)[0] for each in wanted) == sorted(asked)
