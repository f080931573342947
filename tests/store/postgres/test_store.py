"""The PostgreSQL store above a database in memory."""

import pytest
from hypothesis import settings

from tests.store.conformance import StoreConformance
from tests.store.model import check_random_histories
from tests.store.postgres.shared_bench import SharedBench

pytestmark = pytest.mark.pure("plants faults in stores, in classes that inherit from them")

BUDGET = settings(max_examples=100, stateful_step_count=40, deadline=None)


class TestPostgresStore(StoreConformance):
    def open_bench(self) -> SharedBench:
        return SharedBench()


class TestWithoutMemory(StoreConformance):
    """No row is of the system shard, and the cache holds one."""

    def open_bench(self) -> SharedBench:
        return SharedBench(first=b"", cache_bytes=0)


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_random_histories(cache_bytes: int) -> None:
    check_random_histories(lambda: SharedBench(cache_bytes=cache_bytes), BUDGET)
