"""One server for all tests of a worker; a schema of its own for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from epoxy.store.postgres import database_connection
from epoxy.testing.postgres_server import PostgresServer
from tests.store.postgres.playing import Place

NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """No test cuts the machine's power, so its disk need not be waited for."""
    with PostgresServer(fsync=False) as server:
        yield server


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place(server=postgres, schema=f"test_{next(NUMBERS)}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of tests are back at once."""
    monkeypatch.setattr(database_connection, "LAST_BACKOFF_S", 0.1)
