"""Clients that generators make of the OpenAPI document: one in Python, which talks to a real node, and types for
TypeScript, which a compiler checks."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epoxy import testing
from epoxy.api.http.openapi import document
from tests.api.http.http_bench import FakeNode, whole_api

SOURCES = Path(__file__).with_name("generated")
PATIENCE_S = 300.0
"""Only to end a test that would hang."""


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """What it printed, once it has ended well. Tools of this environment are found first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=os.environ | {"PATH": path} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """The document as a file."""
    found = tmp_path / "openapi.json"
    found.write_text(json.dumps(document(whole_api(FakeNode()).routes)))
    return found


@pytest.fixture
def npm_tools() -> Path:
    """The folder of the programs that package.json names, installed once beside the tools of Python."""
    folder = Path(sys.prefix) / "npm-openapi"
    wanted = (SOURCES / "package.json").read_text()
    installed = folder / "installed.json"
    if not installed.is_file() or installed.read_text() != wanted:
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text(wanted)
        run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", folder=folder)
        installed.write_text(wanted)
    return folder / "node_modules" / ".bin"


def test_a_generated_python_client_talks_to_a_node(described: Path, tmp_path: Path) -> None:
    package = tmp_path / "epoxy_generated"
    options = ("--path", str(described), "--meta", "none", "--output-path", str(package), "--fail-on-warning")
    run("openapi-python-client", "generate", *options, folder=tmp_path)
    with testing.cluster(1) as cluster:
        run(sys.executable, SOURCES / "use_client.py", cluster[0].url, folder=tmp_path, PYTHONPATH=str(tmp_path))


def test_generated_types_for_typescript_are_what_a_node_takes(described: Path, npm_tools: Path, tmp_path: Path) -> None:
    run(npm_tools / "openapi-typescript", described, "--output", tmp_path / "epoxy.d.ts", folder=tmp_path)
    shutil.copy(SOURCES / "use.ts", tmp_path)
    run(npm_tools / "tsc", "--noEmit", "--strict", "use.ts", folder=tmp_path)
