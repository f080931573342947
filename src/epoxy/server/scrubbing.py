"""Scrubs and repairs in one node's process: put together, logged, and the end of a node whose votes rotted."""

import logging
import time
from collections.abc import Callable
from functools import partial

from epoxy.api.http.routes import Route
from epoxy.api.http.routes_scrub import ScrubRoutes
from epoxy.model.errors import RottenRow, StoreFailed
from epoxy.node.members.peer_gate import WAY_OUT
from epoxy.node.process.logs import LOGGER
from epoxy.node.scrub.repairs import in_words
from epoxy.node.scrub.scrubber import Scrubber
from epoxy.node.service import Node
from epoxy.ports import Clock
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.keyspace import Keyspace
from epoxy.store.member_rows import MemberSpace
from epoxy.store.row_kinds import row_of
from epoxy.store.scrub_rows import ScrubProgress, ScrubSpace


class Scrubbing:
    """`fail` ends the process."""

    def __init__(self, node: Node, store: EmbeddedStore, clock: Clock, fail: Callable[[StoreFailed], None]) -> None:
        self._node = node
        self._store = store
        self._fail = fail
        node.repairs.report = log_rot
        node.repairs.end = self._end
        settings = node.settings.store
        self._scrubber = node.scrubber = Scrubber(
            store,
            node.repairs,
            ScrubSpace(node.me),
            clock,
            days=settings.scrub_days,
            mib_s=settings.scrub_mib_s,
            is_busy=lambda: node.is_busy,
            wall_ms=lambda: int(time.time() * 1000),
        )
        self._scrubber.report = log_round

    def routes(self) -> list[Route]:
        return ScrubRoutes(self._scrubber).table()

    def _end(self, reason: str) -> None:
        """That is recorded first, so that no later process takes part either. One that is refused already takes no
        part, and goes on to say so."""
        gate = self._node.gate
        if gate is not None and gate.refused:
            return
        words = f"{reason}. {WAY_OUT.format(me=self._node.me)}"
        if gate is not None:
            gate.refuse(words)
        self._store.when_durable(partial(self._fail, StoreFailed(words)))


def log_rot(level: str, row: str, words: str) -> None:
    LOGGER.log(logging.getLevelNamesMapping()[level.upper()], "a rotten row", extra={"row": row, "detail": words})


def log_round(words: str, progress: ScrubProgress) -> None:
    LOGGER.info(words, extra={"rows": progress.rows, "bytes": progress.bytes})


class EndsSoon(StoreFailed):
    """The process ends as soon as the reason is on the disk."""


def cannot_start(rot: RottenRow, me: int, store: EmbeddedStore, fail: Callable[[StoreFailed], None]) -> EndsSoon:
    """A row that a node needs before it can even say what is wrong, or one beside such rows, is damaged. The reason is
    recorded: the next process reads that first, and serves nothing but its status, if the rows it needs for that are
    sound."""
    row = in_words(row_of(rot.key, me))
    error = EndsSoon(f"{row} is damaged on the disk, and this node cannot start. {WAY_OUT.format(me=me)}")
    store.transact(partial(MemberSpace(Keyspace(me), me).refuse, reason=str(error)))
    store.when_durable(partial(fail, error))
    return error
