"""Runs commands against a fake node, and gives back what they printed."""

import json
from typing import Any

import pytest

from epoxy.cli.main import run

Captured = pytest.CaptureFixture[bytes]


def command(words: list[str], captured: Captured) -> tuple[int, str, str]:
    status = run(words)
    out, err = captured.readouterr()
    return status, out.decode(), err.decode()


def in_json(words: list[str], captured: Captured) -> tuple[int, Any]:
    status, out, _ = command([*words, "--json"], captured)
    return status, json.loads(out)
