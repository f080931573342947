"""Runs the flows that make this replica hold all that a backup must have (`protocol/members/gather.py`)."""

import tempfile
from collections.abc import Callable
from functools import partial
from typing import IO, assert_never

import msgspec

from epoxy.model.errors import RottenRow
from epoxy.model.members import ActorRow, Frontier, Stretch
from epoxy.node.backup.source import SLICE
from epoxy.node.members.member import Membership
from epoxy.ports import Store
from epoxy.protocol.members import gather
from epoxy.protocol.members.effects import BackupEffect, CollectActors, Execute, HostEffect, SummariseRows
from epoxy.protocol.members.gather import GatherOutcome
from epoxy.runtime.flow import Done, FlowRunner
from epoxy.store.row_pages import HeldSpace

SHARE = 0.2
"""Of this replica's time, while it compares its keys with others'."""

EXECUTED_MS, LOOK_MS = 30_000.0, 20.0
"""How long transactions may take to be executed here, and how often that is checked."""

IN_MEMORY = 4 << 20
"""Bytes of actors' rows of other datacenters that are held in memory. More are spooled to a temporary file."""

rows_encoder = msgspec.msgpack.Encoder()
rows_decoder = msgspec.msgpack.Decoder(tuple[ActorRow, ...])


class ActorSpool:
    """Rows of actors of other datacenters, page by page, until they are written to the backup."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._pages: dict[int, list[tuple[int, int]]] = {}

    def add(self, source: int, rows: tuple[ActorRow, ...], *, begins: bool) -> None:
        if begins:
            self._pages[source] = []
        if not rows:
            return
        data = rows_encoder.encode(rows)
        if self._file is None:
            self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (closed with the backup)
        place = self._file.seek(0, 2)
        self._file.write(data)
        self._pages[source].append((place, len(data)))

    def drop(self, source: int) -> None:
        """What was collected of it is not complete."""
        self._pages.pop(source, None)

    @property
    def sources(self) -> tuple[int, ...]:
        return tuple(sorted(self._pages))

    def pages(self, source: int) -> int:
        return len(self._pages[source])

    def page(self, source: int, number: int) -> tuple[ActorRow, ...]:
        assert self._file is not None
        place, size = self._pages[source][number]
        self._file.seek(place)
        return rows_decoder.decode(self._file.read(size))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Summary:
    """Of what is held here beyond a key, as it grows."""

    def __init__(self, after: bytes | None, wanted: int) -> None:
        self.after = after
        self.wanted = self.left = wanted
        self.told: list[Stretch] = []
        self.is_whole = False
        self.done: Done | None = None


class Gathering:
    """`actors`, then `keys`, then `transactions`; each calls back once, unless `stop` is called before."""

    def __init__(self, member: Membership, store: Store) -> None:
        self._member = member
        self._store = store
        self.clock = member.clock
        self.failures = member.failures
        self.send = member.send
        self._held = HeldSpace(member.replica.me)
        self._cpu_ms = member.backup_source.cpu_ms
        self._summary: Summary | None = None
        self.spool = ActorSpool()
        self.compared = 0
        """Keys, so far."""
        self._runner: FlowRunner[tuple[int, ...]] | FlowRunner[GatherOutcome] | FlowRunner[str] | None = None
        self._refused: Callable[[GatherOutcome], None] = lambda _: None
        """What waits for the keys."""
        self._stopped = False

    def actors(self, done: Callable[[tuple[int, ...]], None]) -> None:
        """`done` gets the members whose rows could not be had."""
        others = tuple(each for each in self._member.replica.config.replica_ids if each != self._member.replica.me)

        def collected(missing: tuple[int, ...]) -> None:
            for source in missing:
                self.spool.drop(source)
            done(missing)

        flow = gather.gather_actors(self._member.replica.me)
        self._run(FlowRunner(self, "backup", flow, lambda _: others, collected))

    def keys(self, done: Callable[[GatherOutcome], None]) -> None:
        flow = gather.gather_keys(self._member.replica.me)
        self._refused = done
        self._run(FlowRunner(self, "backup", flow, lambda reason: GatherOutcome(reason=reason), done))

    def transactions(self, done: Callable[[str], None]) -> None:
        """`done` gets why it failed, or an empty text."""
        flow = gather.gather_transactions(self._member.replica.config, self._member.replica.me)
        self._run(FlowRunner(self, "backup", flow, lambda reason: reason, done))

    def _give_up(self, reason: str) -> None:
        self.stop()
        self._refused(GatherOutcome(reason=reason))

    def _run(self, runner: FlowRunner[tuple[int, ...]] | FlowRunner[GatherOutcome] | FlowRunner[str]) -> None:
        self._runner = runner
        runner.start()

    def stop(self) -> None:
        self._stopped = True
        if self._runner is not None:
            self._runner.stop()

    # Effects

    def perform(self, effect: HostEffect, done: Done) -> None:
        if isinstance(effect, BackupEffect):
            self._perform_here(effect, done)
        else:
            self._member.perform(effect, done)

    def _perform_here(self, effect: BackupEffect, done: Done) -> None:
        match effect:
            case SummariseRows():
                self._summarise(effect, done)
            case CollectActors():
                self.spool.add(effect.source, effect.rows, begins=effect.begins)
                done(None)
            case Execute():
                self._execute(Frontier(term=effect.term, slots=effect.slots), done)
            case _:
                assert_never(effect)

    def _summarise(self, effect: SummariseRows, done: Done) -> None:
        """The next stretches, which were begun while the ones before were compared elsewhere: an older summary of this
        replica is as good, since what it has learned meanwhile is only sent again."""
        summary = self._summary
        if summary is None or summary.after != effect.after:
            summary = self._begin_summary(effect.after, effect.stretches)
        summary.done = done
        self._deliver(summary)

    def _begin_summary(self, after: bytes | None, stretches: int) -> "Summary":
        self._summary = summary = Summary(after, stretches)
        self._summarise_some(summary)
        return summary

    def _summarise_some(self, summary: "Summary") -> None:
        """A slice in each turn of the event loop, and a rest after it."""
        if self._stopped or summary is not self._summary:
            return
        begun_ms = self._cpu_ms()
        after = summary.told[-1].until if summary.told else summary.after
        try:
            some = self._held.stretches(self._store.newest(), after, min(SLICE, summary.left))
        except RottenRow as error:
            self._give_up(f"{error}; it is repaired from the other members: try again")
            return
        self.compared += sum([stretch.count for stretch in some])
        summary.told += some
        summary.left -= SLICE
        rest_ms = (self._cpu_ms() - begun_ms) * (1 / SHARE - 1)
        if some[-1].until is None or summary.left <= 0:
            summary.is_whole = True
            self.clock.call_later(rest_ms, partial(self._deliver, summary))
        else:
            self.clock.call_later(rest_ms, partial(self._summarise_some, summary))

    def _deliver(self, summary: "Summary") -> None:
        done = summary.done
        if summary is not self._summary or not summary.is_whole or done is None or self._stopped:
            return
        self._summary = None
        until = summary.told[-1].until
        if until is not None:
            self._begin_summary(until, summary.wanted)
        done(tuple(summary.told))

    def _execute(self, frontier: Frontier, done: Done) -> None:
        engine = self._member.txn_sync.engine if self._member.txn_sync is not None else None
        deadline_ms = self.clock.now_ms() + EXECUTED_MS

        def look() -> None:
            if self._stopped:
                return
            if engine is None or engine.has_executed(frontier):
                done(True)
            elif self.clock.now_ms() >= deadline_ms:
                done(False)
            else:
                engine.note(frontier)
                self.clock.call_later(LOOK_MS, look)

        look()
