"""A fake node that the commands talk to without being told where it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.fake import FakeNode


@pytest.fixture(autouse=True)
def no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the developer's own."""
    for name in ("EPOXY_TOKEN", "EPOXY_TOKEN_FILE", "EPOXY_CA", "EPOXY_CERT", "EPOXY_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNode]:
    with FakeNode() as fake:
        monkeypatch.setenv("EPOXY_URL", fake.url)
        yield fake
