"""Makes a release of what is committed: checks it, runs lint and tests, builds the packages, and sets the tag.

    python -m tools.release [--dry-run]

Nothing is pushed, and nothing is changed before all checks hold. With --dry-run only the checks run. The steps around
it are in CONTRIBUTING.md.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.previous_release import ROOT, git, newest_release

VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
BRANCH = "main"
STEPS = (("make", "check"), ("make", "packages"))
"""What must succeed before the tag is set: lint and all tests, then sdist and wheels in dist/, judged."""

Runner = Callable[[Sequence[str]], int]
"""Runs a command, and returns its exit status."""


class Tree:
    """The working copy that is released."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.version = str(tomllib.loads(self.read("pyproject.toml"))["project"]["version"])

    @property
    def tag(self) -> str:
        return f"v{self.version}"

    def read(self, name: str) -> str:
        return (self.root / name).read_text("utf-8")

    def git(self, *words: str) -> str | None:
        """None: it failed."""
        told = git(self.root, *words)
        return told.decode().strip() if told is not None else None


def objections(tree: Tree) -> list[str]:
    """Why this is not to be released, each with what to do about it."""
    found: list[str] = []
    version = VERSION.fullmatch(tree.version)
    if version is None:
        found.append(f"pyproject.toml: version {tree.version} is none of a release: write X.Y.Z, without .dev")
    branch = tree.git("branch", "--show-current")
    if branch != BRANCH:
        found.append(f"on {branch or 'no branch'}: releases are made of {BRANCH}")
    if changed := tree.git("status", "--porcelain"):
        found.append(f"the working copy is not clean ({len(changed.splitlines())} files): commit or put away first")
    if tree.git("rev-parse", "--verify", "--quiet", f"refs/tags/{tree.tag}") is not None:
        found.append(f"{tree.tag} is tagged already: raise the version")
    section = section_of(tree.read("CHANGELOG.md"), tree.version)
    if section is None:
        found.append(f"CHANGELOG.md has no section `## [{tree.version}] - YYYY-MM-DD`: rename Unreleased")
    elif not section.strip():
        found.append(f"CHANGELOG.md: the section of {tree.version} is empty")
    last, _ = newest_release(tree.read("releases.toml"))
    if version is not None and not follows(numbers(last), numbers(tree.version)):
        found.append(
            f"{tree.version} does not follow {last}, the newest of releases.toml: it is {last} with one number raised "
            "by one, and zeros behind it"
        )
    return found


def section_of(changelog: str, version: str) -> str | None:
    """The text of the section of a release, which has a date."""
    found = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    return found[1] if found is not None else None


def numbers(version: str) -> tuple[int, int, int]:
    major, minor, patch = version.split(".")
    return int(major), int(minor), int(patch)


def follows(last: tuple[int, int, int], new: tuple[int, int, int]) -> bool:
    """No minor release is skipped: two that follow each other run mixed, and others do not."""
    major, minor, patch = last
    return new in ((major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0))


def release(tree: Tree, run: Runner, *, dry_run: bool) -> int:
    found = objections(tree)
    for objection in found:
        print(f"release: {objection}", file=sys.stderr)
    if found:
        return 1
    if dry_run:
        steps = ", ".join(" ".join(step) for step in STEPS)
        print(f"release: {tree.version} could be made: {steps}, then the tag {tree.tag}; nothing was done")
        return 0
    commit = tree.git("rev-parse", "HEAD")
    for step in STEPS:
        if run(step) != 0:
            print(f"release: `{' '.join(step)}` failed; nothing was tagged", file=sys.stderr)
            return 1
    # A check takes a quarter of an hour, in which the working copy may have become another one.
    if tree.git("rev-parse", "HEAD") != commit or tree.git("status", "--porcelain"):
        print("release: the working copy has changed meanwhile; nothing was tagged", file=sys.stderr)
        return 1
    if tree.git("tag", "--annotate", tree.tag, "--message", f"Epoxy {tree.version}") is None:
        print(f"release: git does not set the tag {tree.tag}", file=sys.stderr)
        return 1
    print(after(tree, str(commit)))
    return 0


def after(tree: Tree, commit: str) -> str:
    major, minor, _ = numbers(tree.version)
    return (
        f"release: {tree.tag} is set on {commit[:12]}, and the packages are in dist/. Nothing was pushed. Next:\n"
        f"  git push origin {BRANCH} {tree.tag}\n"
        f"  a commit that begins {major}.{minor + 1}.0.dev0: the version in pyproject.toml, an empty Unreleased in "
        "CHANGELOG.md,\n"
        f'  version = "{tree.version}", commit = "{commit}" on top of releases.toml, and what {major}.{minor} reads '
        "as LAST_... in\n  src/epoxy/model/versions.py"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="only check")
    given = parser.parse_args(arguments)

    def run(command: Sequence[str]) -> int:
        return subprocess.run(command, cwd=ROOT, check=False).returncode

    return release(Tree(), run, dry_run=given.dry_run)


if __name__ == "__main__":
    sys.exit(main())
