"""Demos that are not started; tests/end_to_end has those that run."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from epoxy.cli.demo import control
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.plan import plan
from tests.cli.demo.plans import NOWHERE, a_plan


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Demos of other people are none of a test's business. Sockets want short paths."""
    monkeypatch.setattr(control, "folder_of_user", lambda: tmp_path)


@pytest.fixture
def cluster(tmp_path: Path) -> DemoCluster:
    """None of its regions was started."""
    return DemoCluster(a_plan(tmp_path / "d"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Where the user that root runs PostgreSQL as can enter: not below pytest's folders, which are closed to it."""
    home = Path(tempfile.mkdtemp(prefix="epoxy-test-"))
    home.chmod(0o711)
    try:
        yield home / "d"
    finally:
        shutil.rmtree(home)


@pytest.fixture
def shared(open_folder: Path) -> DemoCluster:
    """Regions of two nodes, none of which was started."""
    return DemoCluster(plan(open_folder, regions=3, port_base=NOWHERE, wan=True, store="postgres", nodes=2))
