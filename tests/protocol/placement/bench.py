"""A store with envoys in it, transactions that count their reads, and dice that can be told what to throw."""

from collections.abc import Callable, Sequence
from random import Random

from epoxy.codec.tuple import strinc
from epoxy.ports import KeyValue, Snapshot, Transaction
from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool, EnvoyRegistration
from epoxy.store.memory import MemoryStore

POOL = EnvoyPool("prod", "web")
NOW_MS = 1_000_000


class Counting:
    """A transaction, and the reads made through it or through its snapshot."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.reads: list[bytes] = []
        self.conflicts: list[tuple[bytes, bytes]] = []

    @property
    def snapshot(self) -> Snapshot:
        return self

    def get(self, key: bytes) -> bytes | None:
        self.reads.append(key)
        return self.transaction.snapshot.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        self.reads.append(begin)
        return self.transaction.snapshot.range(begin, end, limit=limit, reverse=reverse)

    def set(self, key: bytes, value: bytes) -> None:
        self.transaction.set(key, value)

    def clear(self, key: bytes) -> None:
        self.transaction.clear(key)

    def clear_range(self, begin: bytes, end: bytes) -> None:
        self.transaction.clear_range(begin, end)

    def add(self, key: bytes, delta: int) -> None:
        self.transaction.add(key, delta)

    def set_stamped(self, prefix: bytes, suffix: bytes, value: bytes) -> None:
        self.transaction.set_stamped(prefix, suffix, value)

    def add_read_conflict(self, begin: bytes, end: bytes) -> None:
        self.conflicts.append((begin, end))
        self.transaction.add_read_conflict(begin, end)

    def commit(self) -> None:
        self.transaction.commit()


class Dice:
    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)

    def uniform(self) -> float:
        return self.random.random()

    def nonce(self) -> int:
        return self.random.getrandbits(64)


class Clock:
    """Virtual time: what is due runs when it is moved on."""

    def __init__(self) -> None:
        self.time_ms = 500.0
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.made = 0

    def now_ms(self) -> float:
        return self.time_ms

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> "Handle":
        self.made += 1
        entry = (self.time_ms + delay_ms, self.made, then)
        self.timers.append(entry)
        return Handle(self, entry)

    def advance(self, ms: float) -> None:
        end_ms = self.time_ms + ms
        while due := sorted(timer for timer in self.timers if timer[0] <= end_ms):
            self.timers.remove(due[0])
            self.time_ms = max(self.time_ms, due[0][0])
            due[0][2]()
        self.time_ms = end_ms


class Handle:
    def __init__(self, clock: Clock, entry: tuple[float, int, Callable[[], None]]) -> None:
        self.clock = clock
        self.entry = entry

    def cancel(self) -> None:
        if self.entry in self.clock.timers:
            self.clock.timers.remove(self.entry)


class Loaded:
    """Dice that show what they are told, one after the other."""

    def __init__(self, *, nonces: Sequence[int] = (), uniforms: Sequence[float] = ()) -> None:
        self.nonces = list(nonces)
        self.uniforms = list(uniforms)

    def uniform(self) -> float:
        return self.uniforms.pop(0)

    def nonce(self) -> int:
        return self.nonces.pop(0)


def hello(
    key: str, *, pool: str = "web", version: int = 1, weight: int = 1, capacity: int = 0, incarnation: str = ""
) -> EnvoyRegistration:
    return EnvoyRegistration(
        namespace="prod",
        pool=pool,
        envoy_key=key,
        version=version,
        weight=weight,
        capacity=capacity,
        incarnation=incarnation,
    )


def envoy(key: str) -> EnvoyId:
    return EnvoyId("prod", key)


def connect(store: MemoryStore, said: EnvoyRegistration, *, now_ms: int = NOW_MS, v: int = 8) -> envoys.Connected:
    return store.transact(lambda tx: envoys.connect(tx, said, now_ms, v))


def crowd(n: int, *, v: int = 8, now_ms: int = NOW_MS) -> MemoryStore:
    store = MemoryStore()
    for i in range(n):
        connect(store, hello(f"envoy-{i}"), now_ms=now_ms, v=v)
    return store


def ring(view: Snapshot, pool: EnvoyPool = POOL) -> list[tuple[int, str]]:
    """Version and envoy of every row on the ring."""
    prefix = rows.pool_rows(rows.HASH, pool)
    found = view.range(prefix, strinc(prefix), limit=1_000_000)
    return [(rows.version_of(row, prefix), rows.last_name(row, prefix)) for row, _ in found]


def pings(view: Snapshot, pool: EnvoyPool = POOL) -> list[str]:
    prefix = rows.pool_rows(rows.PINGS, pool)
    return [rows.last_name(row, prefix) for row, _ in view.range(prefix, strinc(prefix), limit=1_000_000)]


def total(view: Snapshot, field: bytes, version: int = 1, pool: EnvoyPool = POOL) -> int:
    return rows.as_number(view.get(rows.total_rows(pool, version) + field))


def set_slots(store: MemoryStore, key: str, slots: int) -> None:
    store.transact(lambda tx: envoys.add_slots(tx, envoy(key), slots))
