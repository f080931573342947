"""One fake node, or several."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.client.fake import FakeNode


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as fake:
        yield fake


@pytest.fixture
def nodes() -> Iterator[list[FakeNode]]:
    with ExitStack() as stack:
        yield [stack.enter_context(FakeNode()) for _ in range(3)]


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers in this process must not end it: a busy machine may well stand still for as long as their leases."""
    monkeypatch.setattr("epoxy.client.worker.Worker.watched", False)
