"""Copies the state of the ordered engine to new members: packs pages as a source, and keeps pages as a newcomer."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, assert_never

from epoxy.model.members import (
    MAX_PAGE_BYTES,
    MAX_PAGE_ROWS,
    Frontier,
    Kept,
    KeptId,
    KeptPage,
    KeptRead,
    MemberReply,
    Unfinished,
    ValuesRead,
)
from epoxy.model.records import KeyState
from epoxy.node.keys.replica import Replica
from epoxy.node.members.key_sync import Pace
from epoxy.ports import Store, Transaction
from epoxy.protocol.keys import acceptor
from epoxy.protocol.members.effects import (
    GiveWay,
    HostEffect,
    Install,
    LookThrough,
    Mirrored,
    MirrorEffect,
    Preserve,
    Replace,
)
from epoxy.protocol.members.mirror import is_learning, mirror, nearest_sources
from epoxy.protocol.txn.execution import Values
from epoxy.runtime.flow import Done, FlowHost, FlowRunner
from epoxy.store.txn_pages import ValueSpace

AGAIN_MS, HURRY_MS = 1_000.0, 20.0
"""Between two passes: while a newcomer learns, and in a joint epoch, when all transactions wait for its end."""


class TxnStateSource(Protocol):
    """The ordered engine, as far as its state is copied."""

    def is_complete(self, term: int) -> bool:
        """Everything of this term, and of those before, has been executed here."""

    def needs_copy(self, term: int) -> bool:
        """It was not, and will not be: this replica takes no part in the term."""

    def frontier(self) -> Frontier:
        """The term here, and the last slots known in it."""

    def has_executed(self, frontier: Frontier) -> bool:
        """Everything of earlier terms, and all up to these slots."""

    def note(self, frontier: Frontier) -> None:
        """There is something up to these slots: what is not known here is recovered."""

    def kept(self, after: KeptId | None, limit: int) -> list[Kept]:
        """Decisions that are not forgotten, in order."""

    def keep(self, kept: tuple[Kept, ...]) -> None: ...

    def copied(self, values: Values) -> None:
        """What is held of these keys was replaced by what another replica holds; not durable yet."""

    def install(self, term: int) -> None:
        """From now on this replica counts as one that has executed everything of the term."""


class TxnSync:
    def __init__(
        self, replica: Replica, store: Store, engine: TxnStateSource, host: FlowHost, near: Callable[[], Sequence[int]]
    ) -> None:
        """`host` performs the effects that are no part of this. `near`: the members within reach, the nearest first."""
        self.values = ValueSpace(replica.me)
        self.engine = engine
        self._replica = replica
        self._store = store
        self._host = host
        self.clock = host.clock
        self.failures = host.failures
        self.send = host.send
        self._near = near
        self._pace = Pace(host.clock)
        self._running = False
        self._has_bulk = False
        replica.config_watchers.append(self._config_changed)

    def start(self) -> None:
        self._look()

    # How far it has come

    @property
    def is_ready(self) -> bool:
        """Whether a joint epoch may begin: little is left to copy in it."""
        return self._has_bulk or not self._is_new

    @property
    def is_synced(self) -> bool:
        """In a joint epoch: all that was ordered before it was executed here, or by the replica it was copied from."""
        return self.engine.is_complete(self._replica.config.term)

    @property
    def _is_new(self) -> bool:
        config = self._replica.config
        if config.is_joint:
            return self._replica.me in config.active and self.engine.needs_copy(config.term)
        return is_learning(config, self._replica.me)

    # As a source

    def page(self, tx: Transaction, request: ValuesRead | KeptRead) -> MemberReply:
        """In a joint epoch only if this replica has executed the whole term: then its values stay as they are until
        that epoch is over."""
        if request.epoch or isinstance(request, KeptRead):
            refusal = acceptor.wrong_epoch(request.epoch, self._replica.config)
            if refusal is not None:
                return refusal
            if not self.engine.is_complete(self._replica.config.term):
                return Unfinished()
        if isinstance(request, ValuesRead):
            return self.values.page(tx.snapshot, request)
        return fitting(self.engine.kept(request.after, MAX_PAGE_ROWS + 1))

    # As a newcomer

    def _look(self) -> None:
        if not self._is_new:
            self._has_bulk = False
        elif not self._running:
            self._running = True
            sources = nearest_sources(self._replica.config, self._replica.me, self._near())
            flow = mirror(sources, again=self._has_bulk)
            FlowRunner[bool | None](self, "mirror", flow, lambda _: None, self._passed).start()

    def _passed(self, passed: bool | None) -> None:
        """None: it raised. The next pass begins later then: what it met may still be there."""
        self._running = False
        is_urgent = self._replica.config.is_joint and passed is not None
        self._pace.rest(HURRY_MS if is_urgent else AGAIN_MS, self._look)

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        """End a rest early, because the flow may have something else to do; and begin if this replica is new."""
        if not self._pace.end_rest() and not self._running:
            self._pace.rest(0, self._look)

    def perform(self, effect: HostEffect, done: Done) -> None:
        if isinstance(effect, MirrorEffect):
            self._perform_here(effect, done)
        elif isinstance(effect, GiveWay):
            self._pace.give_way(effect.share, partial(done, None))
        else:
            self._host.perform(effect, done)

    def _perform_here(self, effect: MirrorEffect, done: Done) -> None:
        match effect:
            case LookThrough():
                view = self._store.newest()
                done(self._pace.timed(lambda: self.values.stretches(view, effect.after, effect.stretches)))
            case Replace():
                self._change(effect.epoch, partial(self._replace, effect), done)
            case Preserve():
                self._change(effect.epoch, partial(self._keep, effect.kept), lambda made: done(made is not None))
            case Install():
                self._change(effect.epoch, self._install, lambda made: done(made is not None))
            case Mirrored():
                self._has_bulk = True
                done(None)
            case _:
                assert_never(effect)

    def _replace(self, effect: Replace) -> int:
        work = partial(self.values.replace, spans=effect.spans, pairs=effect.pairs)
        changed = self._store.transact(work)
        self.engine.copied(changed)
        return len(changed)

    def _keep(self, kept: tuple[Kept, ...]) -> bool:
        self.engine.keep(kept)
        return True

    def _install(self) -> bool:
        self.engine.install(self._replica.config.term)
        return True

    def _change(self, epoch: int, work: Callable[[], object], done: Done) -> None:
        """Not in another epoch: there this replica may execute transactions itself, and its values must stay."""
        if self._is_new and self._replica.config.epoch == epoch:
            result = self._pace.timed(work)
            self._store.when_durable(partial(done, result))
        else:
            done(None)


def fitting(kept: list[Kept]) -> KeptPage:
    """One page of them, at least one, and whether there are more."""
    size = 0
    for count, each in enumerate(kept):
        if count and (count == MAX_PAGE_ROWS or size >= MAX_PAGE_BYTES):
            return KeptPage(kept=tuple(kept[:count]), more=True)
        size += each.commit.command.size if each.commit.command is not None else 0
    return KeptPage(kept=tuple(kept), more=False)
