"""What a member gives to another one that makes a backup: open votes, committed keys that differ, the slots of
transactions it knows, and its rows of actors."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, assert_never

from epoxy.codec.tuple import pack, strinc
from epoxy.model.actors import ACTOR_ROWS
from epoxy.model.errors import RottenRow
from epoxy.model.members import (
    MAX_PAGE_BYTES,
    MAX_PAGE_ROWS,
    ActorRow,
    ActorsPage,
    ActorsRead,
    Frontier,
    FrontierRead,
    HeldRead,
    MemberReply,
    VotesRead,
)
from epoxy.model.messages import Failed
from epoxy.model.records import ChangelogEntry
from epoxy.node.keys.replica import Replica
from epoxy.ports import Clock, KeyValue, Snapshot, Store
from epoxy.protocol.keys import acceptor
from epoxy.store.buffer import scan
from epoxy.store.keyspace import SCAN_ROWS
from epoxy.store.member_rows import MemberSpace, fitting
from epoxy.store.row_pages import HeldSpace, row_bytes

BackupRequest = VotesRead | HeldRead | FrontierRead | ActorsRead

SLICE = 2
"""Stretches that are compared in one turn of the event loop: five hundred rows, about a millisecond."""

SERVING_SHARE = 0.2
"""Of a source's time, while it compares."""

ACTORS = pack((ACTOR_ROWS,))

Answered = Callable[[MemberReply], None]


class FrontierSource(Protocol):
    """The ordered engine, as far as a backup asks for it."""

    def frontier(self) -> Frontier: ...


class BackupSource:
    def __init__(
        self, replica: Replica, store: Store, space: MemberSpace, engine: FrontierSource | None, clock: Clock
    ) -> None:
        self._replica = replica
        self._store = store
        self._space = space
        self._engine = engine
        self._clock = clock
        self.held = HeldSpace(replica.me)
        self.cpu_ms = clock.now_ms
        """What rests are measured by: in a process the CPU time of the event loop, which a busy machine does not
        stretch."""

    def answer(self, request: BackupRequest, answered: Answered) -> None:
        """The reply leaves when what it rests on is durable."""
        if isinstance(request, HeldRead):
            HeldComparison(self._store, self._clock, self.cpu_ms, self.held, request, answered).go_on()
        else:
            self._store.when_durable(partial(answered, self._reply(request)))

    def _reply(self, request: VotesRead | FrontierRead | ActorsRead) -> MemberReply:
        view = self._store.newest()
        match request:
            case VotesRead():
                config = self._replica.config
                refusal = acceptor.wrong_epoch(request.epoch, config)
                return refusal or self._space.unsettled_page(view, request.after, config, every=True)
            case FrontierRead():
                return self._engine.frontier() if self._engine is not None else Failed(reason="it has none")
            case ActorsRead():
                return actors_page(view, request.after)
            case _:
                assert_never(request)


class HeldComparison:
    """One page, in turns of the event loop: each stretch may be compared at a moment of its own."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        cpu_ms: Callable[[], float],
        held: HeldSpace,
        request: HeldRead,
        answered: Answered,
    ) -> None:
        self._store = store
        self._clock = clock
        self._cpu_ms = cpu_ms
        self._held = held
        self._left = list(request.held)
        self._after = request.after
        self._entries: tuple[ChangelogEntry, ...] = ()
        self._answered = answered

    def go_on(self) -> None:
        begun_ms = self._cpu_ms()
        part, self._left = self._left[:SLICE], self._left[SLICE:]
        try:
            page = self._held.page(self._store.newest(), self._after, part, self._entries)
        except RottenRow as error:
            # It is repaired, and asked for again; the answer of another member may be enough.
            self._answered(Failed(reason=str(error)))
            return
        self._entries, self._after = page.entries, page.through
        if self._left and page.through == part[-1].until:
            rest_ms = (self._cpu_ms() - begun_ms) * (1 / SERVING_SHARE - 1)
            self._clock.call_later(rest_ms, self.go_on)
        else:
            self._store.when_durable(partial(self._answered, page))


def actors_page(view: Snapshot, after: bytes | None) -> ActorsPage:
    begin = ACTORS if after is None else after + b"\x00"
    found, more = fitting(scan(view, begin, strinc(ACTORS), SCAN_ROWS, False), MAX_PAGE_ROWS, MAX_PAGE_BYTES, row_bytes)
    return ActorsPage(rows=tuple([actor_row(row) for row in found]), more=more)


def actor_row(row: KeyValue) -> ActorRow:
    return ActorRow(*row)
