"""Planted faults of a datacenter whose nodes share a database. Each breaks one rule of docs/testing.md by name."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from epoxy.codec.tuple import strinc
from epoxy.datacenter.gateway_handover import GatewayHandover
from epoxy.datacenter.ports import Answered
from epoxy.datacenter.routes import Routes
from epoxy.node.keys.replica import Replica
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, ShardTable, Verdict
from epoxy.store.shared.ownership import Departure, Ownership
from epoxy.store.shared.pending_batch import PendingBatch
from epoxy.store.shared.row_shards import RowShards
from epoxy.store.shared.rows import SharedRows
from epoxy.store.shared.store import Asked, SharedStore
from epoxy_sim.datacenter.machine import NodeLife, NodeMachine
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase, Sent
from epoxy_sim.patching import Mutant, Mutants, nothing

MUTANTS: Mutants[Mutant] = Mutants(Mutant)
mutant, also = MUTANTS.mutant, MUTANTS.also

NEWEST = 1 << 60
"""An epoch above all others."""

commit, fence, flush = DatabaseTables.commit, DatabaseTables.fence, DatabaseTables.flush
take, renew = DatabaseTables.take, DatabaseTables.renew
when_durable, sent, flushed = SharedStore.when_durable, SharedStore._sent, SharedStore._flushed
opened, rebuild = NodeLife._opened, NodeMachine.rebuild
gave = Ownership._gave
rest = GatewayHandover._rest


# Only the owner makes durable, and says what it has made durable.


@mutant(DatabaseTables, "commit", "no-batch-fence", "a batch takes effect although its session is fenced")
def commit_always(tables: DatabaseTables, batch: GroupCommit) -> ExecutedBatch:
    session = tables.sessions[batch.session]
    was_fenced, session.fenced = session.fenced, False
    executed = commit(tables, batch)
    session.fenced = was_fenced
    return executed


@mutant(SharedStore, "when_durable", "reads-not-fenced", "what is only read is told without a fence")
def tell_reads(store: SharedStore, done: Callable[[], None], *, urgent: bool = True) -> None:
    if store._dead is None and not store._rows.batches:
        done()
    else:
        when_durable(store, done)


@mutant(SharedStore, "when_durable", "answers-before-commit", "an answer does not wait for its batch")
def tell_at_once(store: SharedStore, done: Callable[[], None], *, urgent: bool = True) -> None:
    done()


@mutant(MemoryDatabase, "flush", "unknown-is-done", "a flush whose connection was lost is taken for done")
def take_for_done(database: MemoryDatabase, session: int, config_epoch: int, done: Callable[[Reached], None]) -> None:
    def lost() -> None:
        done(Reached(Verdict.DONE, number=NEWEST))

    database.carry(Sent("flush", lambda: database.tables.flush(session, config_epoch), done, lost))


# Executed is not durable.


@mutant(SharedStore, "_sent", "settled-at-execute", "a batch that is executed is taken for durable, without a flush")
def settle_at_once(store: SharedStore, batch: PendingBatch, executed: ExecutedBatch) -> None:
    sent(store, batch, executed)
    if store._rows.batches and store._rows.batches[0].is_executed:
        reached = Reached(Verdict.DONE, store.newest_stamp(), store.position(), store.stamped_bytes(), NEWEST)
        was_flushing = store._flushing
        flushed(store, reached, [], is_whole=True)
        store._flushing = store._flushing or was_flushing


@mutant(SharedStore, "_flushed", "earlier-flush-counts", "a flush counts for batches that were executed after it began")
def settle_all(store: SharedStore, reached: Reached, asked: list[Asked], *, is_whole: bool) -> None:
    flushed(store, replace(reached, number=NEWEST), asked, is_whole=is_whole)


@mutant(DatabaseTables, "reached_with", "batch-told-unflushed", "a batch is answered as durable, and is not flushed")
def reach_unflushed(tables: DatabaseTables, batch: GroupCommit) -> Reached:
    unflushed = list(tables.unflushed)
    reached = flush(tables, batch.session, batch.config_epoch)
    tables.unflushed = unflushed
    return reached


mutant(SharedStore, "_lose_after", "lost-batches-left", "batches that a crash has undone are not executed again")(
    nothing
)


@mutant(RowShards, "changelog_after", "changelog-unflushed", "readers of the changelog are shown what is not durable")
def changelog_end(layout: RowShards, commit: int) -> bytes:
    return strinc(layout._changelog)


@mutant(DatabaseTables, "take", "take-unflushed", "leases and take-overs do not wait for the disk")
def take_unflushed(tables: DatabaseTables, session: int, shards: Sequence[int], dead: Sequence[int]) -> Sequence[int]:
    unflushed = list(tables.unflushed)
    taken = take(tables, session, shards, dead)
    tables.unflushed = unflushed
    return taken


@also("take-unflushed", DatabaseTables, "renew")
def renew_unflushed(tables: DatabaseTables, session: int, lease_ms: float) -> ShardTable:
    unflushed = list(tables.unflushed)
    table = renew(tables, session, lease_ms)
    tables.unflushed = unflushed
    return table


# Memory ends with the session.


@mutant(SharedRows, "forget", "memory-kept", "a node that was fenced goes on with the rows that it had in memory")
def keep_rows(rows: SharedRows, reason: str) -> None:
    rows._dead = reason


@also("memory-kept", NodeMachine, "rebuild")
def rebuild_with_rows(machine: NodeMachine, why: str) -> None:
    store = machine.life.store if machine.life is not None else None
    machine.__dict__["kept"] = store._rows._cache if store is not None else None
    rebuild(machine, why)


@also("memory-kept", NodeLife, "_opened")
def open_with_rows(life: NodeLife) -> None:
    opened(life)
    kept = life.machine.__dict__.get("kept")
    if life.store is not None and kept is not None:
        life.store._rows._cache = kept


# One order of commits, each once.


@mutant(MemoryDatabase, "commit", "two-sequences", "stamps are drawn before the transaction that writes them")
def draw_first(database: MemoryDatabase, batch: GroupCommit, done: Callable[[ExecutedBatch], None]) -> None:
    tables: Any = database.tables
    drawn: dict[tuple[int, int], int] = tables.__dict__.setdefault("drawn", {})
    if (batch.session, batch.number) not in drawn:
        drawn[batch.session, batch.number] = tables.sequence
        tables.sequence += len(batch.stamped)

    def commit_as_drawn() -> ExecutedBatch:
        newest, tables.sequence = tables.sequence, drawn[batch.session, batch.number]
        executed: ExecutedBatch = tables.commit(batch)
        tables.sequence = max(newest, tables.sequence)
        return executed

    database.carry(Sent("commit", commit_as_drawn, done, lambda: done(ExecutedBatch(Verdict.UNKNOWN))))


@mutant(DatabaseTables, "commit", "batch-without-number", "a batch that is sent again is applied again")
def commit_again(tables: DatabaseTables, batch: GroupCommit) -> ExecutedBatch:
    session = tables.sessions.get(batch.session)
    if session is not None and not session.fenced:
        session.batch = batch.number - 1
    return commit(tables, batch)


# Shards change hands.


@mutant(DatabaseTables, "take", "takes-without-fencing", "shards of a dead session are taken, and it is not fenced")
def take_only(tables: DatabaseTables, session: int, shards: Sequence[int], dead: Sequence[int]) -> Sequence[int]:
    if tables._is_fenced(session):
        return ()
    over = [each for each in dead if each in tables.sessions and tables.sessions[each].lease_end_ms < tables._now_ms()]
    taken = [shard for shard in shards if tables.owner(shard) in (0, *over)]
    for shard in taken:
        tables._set_owner(shard, session)
    return taken


@mutant(SharedRows, "disown", "rows-kept", "a shard that comes back is served with the rows that it had when it went")
def keep_cached(rows: SharedRows, shards: Sequence[int]) -> None:
    rows.owned.difference_update(shards)
    rows._note_writable()


mutant(Replica, "forget_states", "states-kept", "as rows-kept, with the states that the replica has cached")(nothing)


@mutant(Ownership, "_hand_over", "hand-over-early", "a shard is handed over before its last batch is durable")
def hand_over_at_once(ownership: Ownership, shard: int, to: int) -> None:
    ownership.owned.discard(shard)
    ownership.leaving.add(shard)
    ownership.quiesce(shard, lambda _: None)
    ownership._quiesced(shard, to, True)


@mutant(DatabaseTables, "give", "give-without-epoch", "a late hand-over takes away a shard that has come back")
def give_any_epoch(tables: DatabaseTables, session: int, shard: int, epoch: int, to: int) -> bool:
    row = tables.shards[shard]
    if tables._is_fenced(session) or (to and tables._is_fenced(to)) or row.owner != session:
        return False
    tables._set_owner(shard, to)
    return True


@mutant(Ownership, "_gave", "unanswered-is-undone", "a shard is served again whose hand-over has no answer")
def serve_again(ownership: Ownership, departure: Departure, to: int, is_done: bool | None) -> None:
    gave(ownership, departure, to, is_done)
    if not is_done and departure in ownership._departures:
        ownership._departures.remove(departure)
        ownership.leaving.discard(departure.shard)
        ownership._preparing.add(departure.shard)
        ownership.taken([departure.shard], lambda: ownership._prepared([departure.shard]))


mutant(Replica, "retire", "replaced-and-active", "flows of a node that became the gateway go on in what it was before")(
    nothing
)


# The gateway leaves.


@mutant(
    GatewayHandover, "pause_others", "ends-before-others-rest", "a gateway ends with requests of other nodes under way"
)
def pause_none(handover: GatewayHandover, then: Callable[[], None]) -> None:
    then()


@mutant(GatewayHandover, "_rest", "rests-at-once", "a node says that it rests while requests are under way")
def rest_at_once(handover: GatewayHandover, answered: Answered, deadline_ms: float) -> None:
    rest(handover, answered, 0.0)


mutant(Routes, "pause", "begins-more", "a node that rests goes on with new requests")(nothing)


# Configurations.


@mutant(DatabaseTables, "commit", "no-config-fence", "what was voted under an old configuration becomes durable")
def commit_any_epoch(tables: DatabaseTables, batch: GroupCommit) -> ExecutedBatch:
    return commit(tables, replace(batch, config_epoch=NEWEST))


@also("no-config-fence", DatabaseTables, "fence")
def fence_any_epoch(tables: DatabaseTables, session: int, config_epoch: int) -> Verdict:
    return fence(tables, session, NEWEST)


@also("no-config-fence", DatabaseTables, "flush")
def flush_any_epoch(tables: DatabaseTables, session: int, config_epoch: int) -> Reached:
    return flush(tables, session, NEWEST)
