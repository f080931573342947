"""A fake node that the commands talk to without being told where it is."""

from collections.abc import Iterator

import pytest

from tests.client.fake import FakeNode


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNode]:
    with FakeNode() as fake:
        monkeypatch.setenv("EPOXY_URL", fake.url)
        yield fake
