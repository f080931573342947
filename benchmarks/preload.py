"""Data directories of replicas that hold many keys already, made in a minute instead of an hour: rows are written into
the tree as checkpoints would have left them, with all nodes stopped.

    python -m benchmarks.preload DIR KEYS [--replica 1]

The keys are `key:` and sixteen hexadecimal digits, evenly spread. Other keys of that form fall between them, so what is
committed afterwards lands all over the tree, as it would in the life of a real replica.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import lmdb

from epoxy.codec import wire
from epoxy.codec.tuple import pack, pack_bytes
from epoxy.model.marks import OWNED
from epoxy.model.records import ChangelogEntry, CommittedRecord, Proposal, ProposalId
from epoxy.store.buffer import stamp
from epoxy.store.embedded.checksums import seal
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.files import MAP_BYTES
from epoxy.store.embedded.log import LogPosition, WriteAheadLog, segments
from epoxy.store.embedded.store import LOG_BYTES
from epoxy.store.embedded.tree import POSITION_ROW, encoder, put
from epoxy.store.keyspace import CHANGELOG, KV, LAYOUT, LEGACY_LAYOUT, USER_VERSION, VALUE, VERSIONSTAMP
from epoxy.store.txn_rows import VALUES

PASSES = 3
"""The keys are added in so many rounds through the tree, which leaves its pages as full as random keys do: about two
thirds. One round in order would leave them packed, and the first commits afterwards would split them all."""

ROWS_AT_ONCE = 200_000
"""In one transaction of LMDB: some 100 MB of changed pages."""

VALUE_BYTES = 16


def key_of(number: int, count: int) -> bytes:
    return b"key:%016x" % (number * ((1 << 64) // count))


def preload(folder: Path, replica: int, count: int, *, owned: bool = False) -> None:
    """Each key is committed once, and in the changelog. `owned`: it belongs to transactions, and has a value there."""
    with DataDir.open(folder, replica=replica, name="preload"):
        for _, path in segments(folder / "log"):
            path.unlink()
        fill(folder / "tree", replica, count, owned=owned)
        # A log that follows: its segment is named after the generation the tree says it contains.
        at = LogPosition(generation=1, frame=1, sequence=count)
        with lmdb.open(str(folder / "tree"), map_size=MAP_BYTES) as environment, environment.begin(write=True) as tx:
            put(tx, POSITION_ROW, encoder.encode(at))
        WriteAheadLog(folder / "log", at, LOG_BYTES).close()


def fill(tree: Path, replica: int, count: int, *, owned: bool) -> None:
    environment = lmdb.open(str(tree), map_size=MAP_BYTES, sync=False)
    held = proposal(OWNED if owned else bytes(VALUE_BYTES))
    for turn in range(PASSES):
        write(environment, committed_rows(replica, count, range(turn, count, PASSES), held))
    write(environment, changelog_rows(replica, count, held))
    if owned:
        root = pack((LEGACY_LAYOUT, replica, VALUES))
        write(environment, ((root + pack_bytes(key_of(i, count)), bytes(VALUE_BYTES)) for i in range(count)))
    environment.sync(True)
    environment.close()


def write(environment: "lmdb.Environment", rows: Iterator[tuple[bytes, bytes]]) -> None:
    while taken := list(islice(rows, ROWS_AT_ONCE)):
        with environment.begin(write=True) as transaction:
            transaction.cursor().putmulti([(key, seal(key, value)) for key, value in taken])


def committed_rows(replica: int, count: int, numbers: range, held: Proposal) -> Iterator[tuple[bytes, bytes]]:
    root = pack((LAYOUT, replica, KV))
    record = wire.encode_committed_record(CommittedRecord(committed=held))
    return ((root + pack_bytes(key_of(number, count)) + VALUE, record) for number in numbers)


def changelog_rows(replica: int, count: int, held: Proposal) -> Iterator[tuple[bytes, bytes]]:
    root = pack((LAYOUT, replica, CHANGELOG)) + VERSIONSTAMP
    first = key_of(0, count)
    entry = wire.encode_changelog_entry(ChangelogEntry(key=first, committed=held))
    head, tail = entry.split(first)
    return (
        (root + stamp(number + 1, 0) + USER_VERSION, head + key_of(number, count) + tail) for number in range(count)
    )


def proposal(value: bytes) -> Proposal:
    """The same at every replica, or they would find that they disagree."""
    return Proposal(value=value, version=1, mutable=False, proposal_id=ProposalId(1, 1 << 60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("keys", type=int)
    parser.add_argument("--replica", type=int, default=1)
    options = parser.parse_args()
    started = time.perf_counter()
    preload(options.folder, options.replica, options.keys)
    size = sum(file.stat().st_blocks * 512 for file in options.folder.rglob("*"))
    print(
        f"{options.keys} keys in {time.perf_counter() - started:.0f} s, "
        f"{size / options.keys:.0f} bytes on the disk for each"
    )


if __name__ == "__main__":
    main()
