import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.libraries.judge import JUDGED_BY_REDIS, Doors, a_redis, nodes

OF_OTHERS = ("ResourceWarning", "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning")
"""Warnings in the code of libraries, such as connections that they leave open: not ours to mend."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for warning in OF_OTHERS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))


@pytest.fixture(autouse=True)
def _leftovers() -> Iterator[None]:
    """What a library has left open is collected here, and not in a test that takes such a warning for an error."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Shared, so each test uses keys of its own."""
    folder = tmp_path_factory.mktemp("libraries")
    with a_redis(folder) if JUDGED_BY_REDIS else nodes(folder) as opened:
        yield opened


@pytest.fixture
def clients(doors: Doors) -> Iterator[list["redis.Redis"]]:
    """A redis-py client for each door, with its defaults."""
    made = [redis.Redis(port=port) for port in doors.ports]
    yield made
    for client in made:
        client.close()


@pytest.fixture(scope="session")
def site(doors: Doors) -> None:
    """Imported late: the settings of Django are one for each process."""
    from tests.libraries import django_site

    django_site.configure(doors)
