"""The embedded store: the port's suite on whole and on tiny generations, and what only a disk can do."""

from hypothesis import settings

from epoxy.store.embedded import LOG_BYTES
from tests.store.conformance import Bench, StoreConformance
from tests.store.hand import EmbeddedBench
from tests.store.model import check_random_histories

TINY = 64
"""Bytes of a generation: every other flush freezes one, so checkpoints are always under way."""


class TestEmbeddedStore(StoreConformance):
    log_bytes = LOG_BYTES

    def open_bench(self) -> Bench:
        return EmbeddedBench(log_bytes=self.log_bytes)

    def test_random_histories_match_a_plain_dict(self) -> None:
        check_random_histories(self.open_bench, settings(max_examples=50, stateful_step_count=40, deadline=None))


class TestTinyGenerations(TestEmbeddedStore):
    log_bytes = TINY
