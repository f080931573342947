"""Planted faults of a datacenter whose nodes share a database. Each breaks one rule of docs/testing.md by name."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from epoxy.node.keys.replica import Replica
from epoxy.store.postgres.database import GroupCommit, Reached, Verdict
from epoxy.store.postgres.ownership import Departure, Ownership
from epoxy.store.postgres.pending_batch import PendingBatch
from epoxy.store.postgres.rows import SharedRows
from epoxy.store.postgres.store import PostgresStore
from epoxy_sim.datacenter.machine import NodeLife, NodeMachine
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase, Sent
from epoxy_sim.patching import Mutant, Mutants, nothing

MUTANTS: Mutants[Mutant] = Mutants(Mutant)
mutant, also = MUTANTS.mutant, MUTANTS.also

NEWEST = 1 << 60
"""An epoch above all others."""

commit, fence = DatabaseTables.commit, DatabaseTables.fence
when_durable, sent = PostgresStore.when_durable, PostgresStore._sent
opened, rebuild = NodeLife._opened, NodeMachine.rebuild
gave = Ownership._gave


# Only the owner makes durable, and says what it has made durable.


@mutant(DatabaseTables, "commit", "no-batch-fence", "a batch takes effect although its session is fenced")
def commit_always(tables: DatabaseTables, batch: GroupCommit) -> Reached:
    session = tables.sessions[batch.session]
    was_fenced, session.fenced = session.fenced, False
    reached = commit(tables, batch)
    session.fenced = was_fenced
    return reached


@mutant(PostgresStore, "when_durable", "reads-not-fenced", "what is only read is told without a fence")
def tell_reads(store: PostgresStore, done: Callable[[], None]) -> None:
    if store._dead is None and not store._rows.batches:
        done()
    else:
        when_durable(store, done)


@mutant(PostgresStore, "when_durable", "answers-before-commit", "an answer does not wait for its batch")
def tell_at_once(store: PostgresStore, done: Callable[[], None]) -> None:
    done()


@mutant(PostgresStore, "_sent", "unknown-is-done", "a batch whose connection was lost is taken for durable")
def take_for_done(store: PostgresStore, made: GroupCommit, batch: PendingBatch, reached: Reached) -> None:
    if reached.verdict is Verdict.UNKNOWN:
        reached = Reached(Verdict.DONE, store.newest_stamp(), store.position())
    sent(store, made, batch, reached)


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
def draw_first(database: MemoryDatabase, batch: GroupCommit, done: Callable[[Reached], None]) -> None:
    tables: Any = database.tables
    drawn: dict[tuple[int, int], int] = tables.__dict__.setdefault("drawn", {})
    if (batch.session, batch.number) not in drawn:
        drawn[batch.session, batch.number] = tables.sequence
        tables.sequence += len(batch.stamped)

    def commit_as_drawn() -> Reached:
        newest, tables.sequence = tables.sequence, drawn[batch.session, batch.number]
        reached: Reached = tables.commit(batch)
        tables.sequence = max(newest, tables.sequence)
        return reached

    database.carry(Sent("commit", commit_as_drawn, done, lambda: done(Reached(Verdict.UNKNOWN))))


@mutant(DatabaseTables, "commit", "batch-without-number", "a batch that is sent again is applied again")
def commit_again(tables: DatabaseTables, batch: GroupCommit) -> Reached:
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


# Configurations.


@mutant(DatabaseTables, "commit", "no-config-fence", "what was voted under an old configuration becomes durable")
def commit_any_epoch(tables: DatabaseTables, batch: GroupCommit) -> Reached:
    return commit(tables, replace(batch, config_epoch=NEWEST))


@also("no-config-fence", DatabaseTables, "fence")
def fence_any_epoch(tables: DatabaseTables, session: int, config_epoch: int) -> Verdict:
    return fence(tables, session, NEWEST)
