"""The embedded store alone, with real syncs: commits a second, reads a second, start, memory, empty and with many keys
stored; and what a sync costs with other engines.

    python -m benchmarks.store [--folder DIR] [--seconds 5] [--keys 1000000]

A writer does what a replica does for one fresh key: five reads that find nothing, three rows, one of them stamped; and
waits for the sync before the next one. The keys fall between those that are stored. Run it on the disk you want to know
about.
"""

import argparse
import asyncio
import gc
import os
import resource
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lmdb

from benchmarks.preload import key_of, preload
from epoxy.codec.tuple import pack, pack_bytes
from epoxy.model.errors import StoreFailed
from epoxy.ports import Transaction
from epoxy.store.embedded.log import LogPosition, WriteAheadLog
from epoxy.store.embedded.store import LOG_BYTES, EmbeddedStore
from epoxy.store.keyspace import KV, LAYOUT

VALUE = bytes(range(100))
WRITERS = (1, 16, 64, 256)
ROOT = pack((LAYOUT, 1, KV))
LAST = b"\xff"
COMPARED_ROUNDS = 200
SETTLE_S = 3


def opened(folder: Path) -> EmbeddedStore:
    def give_up(error: StoreFailed) -> None:
        raise SystemExit(str(error))

    loop = asyncio.get_running_loop()
    return EmbeddedStore(folder, post=loop.call_soon_threadsafe, schedule=loop.call_soon, on_failure=give_up)


class Load:
    """Writers in a closed loop, each with one commit under way."""

    def __init__(self, store: EmbeddedStore, seconds: float) -> None:
        self._store = store
        self._until = time.perf_counter() + seconds
        self._running = 0
        self._ended = asyncio.get_running_loop().create_future()
        self.latencies: list[float] = []
        self.busy = 0.0

    async def run(self, writers: int) -> None:
        self._running = writers
        for _ in range(writers):
            self._write()
        await self._ended

    def _write(self) -> None:
        key = ROOT + pack_bytes(b"key:" + os.urandom(8).hex().encode())
        started = time.perf_counter()
        self._store.transact(lambda tx: write_key(tx, key))
        self.busy += time.perf_counter() - started
        self._store.when_durable(lambda: self._written(started))

    def _written(self, started: float) -> None:
        now = time.perf_counter()
        self.latencies.append(now - started)
        if now < self._until:
            # A tick of its own, as a request would have.
            asyncio.get_running_loop().call_soon(self._write)
            return
        self._running -= 1
        if not self._running:
            self._ended.set_result(None)


def write_key(tx: Transaction, key: bytes) -> None:
    for field in (b"\x14", b"\x15\x01", b"\x15\x02", b"\x15\x03", b"\x15\x04"):
        tx.get(key + field)
    tx.set(key + b"\x14", VALUE)
    tx.set(key + b"\x15\x02", VALUE)
    tx.set_stamped(b"\x15\x02\x15\x01\x15\x02\x33", b"\x00\x00", key + VALUE)


async def commits(folder: Path, seconds: float) -> None:
    for writers in WRITERS:
        store = opened(folder)
        cpu = time.process_time()
        load = Load(store, seconds)
        await load.run(writers)
        cpu = time.process_time() - cpu
        count = len(load.latencies)
        load.latencies.sort()
        print(
            f"{writers:4} writers  {count / seconds:8.0f} commits/s  p50 {load.latencies[count // 2] * 1e3:6.2f} ms  "
            f"p99 {load.latencies[count * 99 // 100] * 1e3:6.2f} ms  max {load.latencies[-1] * 1e3:6.1f} ms  "
            f"on the loop {load.busy / count * 1e6:5.1f} us  CPU {cpu / count * 1e6:5.1f} us each"
        )
        store.close()


async def start_and_reads(folder: Path, count: int) -> None:
    started = time.perf_counter()
    store = opened(folder)
    print(f"start with {count} keys  {(time.perf_counter() - started) * 1e3:.0f} ms")
    # The log's tail goes to the tree first; a start does not wait for that.
    await asyncio.sleep(SETTLE_S)
    keys = [ROOT + pack_bytes(key_of(number * 7919 % count, count)) + b"\x14" for number in range(200_000)]
    for name, suffix in (("found", b""), ("absent", b"x")):
        wanted = [key + suffix for key in keys]
        started = time.perf_counter()
        for key in wanted:
            store.durable().get(key)
        print(f"durable().get, {name}  {len(wanted) / (time.perf_counter() - started):.0f}/s")
    times = []
    for number in range(2000):
        started = time.perf_counter()
        store.durable().range(keys[number], LAST, limit=100)
        times.append(time.perf_counter() - started)
    print(f"durable().range, 100 rows  {statistics.median(times) * 1e6:.0f} us")
    store.close()


def compare(folder: Path) -> None:
    """The same rows made durable by what we might have used instead: milliseconds for a sync that carries so many
    transactions. Rounds of the three alternate, and the median counts."""
    (folder / "log").mkdir(parents=True)
    log = WriteAheadLog(folder / "log", LogPosition(), LOG_BYTES)
    environment = lmdb.open(str(folder / "lmdb"), map_size=1 << 34)
    database = sqlite3.connect(folder / "sqlite", isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("create table rows (key blob primary key, value blob) without rowid")

    def to_lmdb(rows: dict[bytes, bytes]) -> None:
        with environment.begin(write=True) as transaction:
            transaction.cursor().putmulti(rows.items())

    def to_sqlite(rows: dict[bytes, bytes]) -> None:
        database.execute("begin")
        database.executemany("replace into rows values (?, ?)", rows.items())
        database.execute("commit")

    ways: dict[str, Callable[[dict[bytes, bytes]], object]] = {
        "log": lambda rows: log.write(log.frame(0, dict(rows))),
        "LMDB": to_lmdb,
        "SQLite": to_sqlite,
    }
    for way in ways.values():
        for _ in range(100):
            way(some_rows(1000))
    for transactions in WRITERS:
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(COMPARED_ROUNDS):
            for name, way in ways.items():
                rows = some_rows(3 * transactions)
                started = time.perf_counter()
                way(rows)
                times[name].append(time.perf_counter() - started)
        medians = "  ".join(f"{name} {statistics.median(taken) * 1e3:.2f} ms" for name, taken in times.items())
        print(f"a sync of {transactions:3} transactions  {medians}")
    log.close()
    environment.close()
    database.close()


def some_rows(count: int) -> dict[bytes, bytes]:
    return {os.urandom(12).hex().encode(): VALUE for _ in range(count)}


def memory() -> str:
    """What the process itself holds; LMDB's mapped pages belong to the system."""
    pages = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    own, mapped = (int(pages[name].split()[0]) // 1024 for name in ("RssAnon", "RssFile"))
    return f"{own} MB of its own, {mapped} MB mapped, {peak} MB at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--keys", type=int, default=1_000_000)
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)
    gc.freeze()
    home = Path(tempfile.mkdtemp(prefix="epoxy-bench-", dir=options.folder))
    try:
        (home / "empty").mkdir()
        compare(home / "compared")
        shutil.rmtree(home / "compared")
        print(f"memory at the start  {memory()}")
        asyncio.run(commits(home / "empty", options.seconds))
        print(f"memory after commits  {memory()}")
        preload(home / "full", 1, options.keys)
        size = sum(file.stat().st_blocks * 512 for file in (home / "full").rglob("*"))
        print(f"disk with {options.keys} keys  {size >> 20} MB, {size // options.keys} bytes for each")
        asyncio.run(start_and_reads(home / "full", options.keys))
        print(f"memory after reads  {memory()}")
        asyncio.run(commits(home / "full", options.seconds))
        print(f"memory after commits  {memory()}")
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
