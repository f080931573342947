"""Demos that are not started; tests/end_to_end has those that run."""

from pathlib import Path

import pytest

from epoxy.cli.demo import control
from epoxy.cli.demo.cluster import DemoCluster
from tests.cli.demo.plans import a_plan


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Demos of other people are none of a test's business. Sockets want short paths."""
    monkeypatch.setattr(control, "folder_of_user", lambda: tmp_path)


@pytest.fixture
def cluster(tmp_path: Path) -> DemoCluster:
    """None of its regions was started."""
    return DemoCluster(a_plan(tmp_path / "d"))
