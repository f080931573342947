"""The store with one rule broken, by name. Some rules are a call of the disk: then the disk is what leaves it out."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from epoxy.store.conflicts import Values
from epoxy.store.embedded import checksums, recovery, scrub
from epoxy.store.embedded.files import LOG_FOLDER, Files, TreeTransaction, write_all
from epoxy.store.embedded.log import END, FORMAT, FRAME_HEADER, FRAME_HEADER_BYTES, LogPosition, Segment
from epoxy.store.embedded.recovery import Frame, SegmentData
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.embedded.tree import Tree
from epoxy_sim.disk.sim_files import SimFiles
from epoxy_sim.patching import Mutant, Mutants, Patch, always, never, nothing

MUTANTS: Mutants[Mutant] = Mutants(Mutant)
mutant = MUTANTS.mutant

position = EmbeddedStore.position
when_durable = EmbeddedStore.when_durable
sync_folder = SimFiles.sync_folder
read_segment = recovery.read_segment
write_frame = Segment.write
apply = Tree.apply
judged = scrub.judged


@mutant(EmbeddedStore, "when_durable", "acknowledges-early", "acknowledges before the sync")
def acknowledge_at_once(_: EmbeddedStore, done: Callable[[], None], *, urgent: bool = True) -> None:
    done()


@mutant(EmbeddedStore, "when_durable", "delayed-counts", "a commit whose sync is delayed counts as durable")
def acknowledge_delayed(store: EmbeddedStore, done: Callable[[], None], *, urgent: bool = True) -> None:
    if store._due <= store._synced:
        done()
    else:
        when_durable(store, done, urgent=urgent)


@mutant(EmbeddedStore, "position", "position-early", "counts commits that are not synced")
def position_of_next(store: EmbeddedStore) -> int:
    return position(store) + bool(store.pending)


@mutant(SimFiles, "sync_folder", "names-not-synced", "a new segment's name is not synced")
def forget_names(files: SimFiles, folder: Path) -> None:
    if folder.name != LOG_FOLDER:
        sync_folder(files, folder)


mutant(SimFiles, "sync", "length-not-synced", "a segment is named before its length is synced", since=1200)(nothing)


@mutant(EmbeddedStore, "_checkpoint", "log-goes-first", "a checkpoint drops the log before the tree has its rows")
def drop_first(store: EmbeddedStore, effects: Values, reached: LogPosition) -> None:
    store._log.drop(reached.generation)
    store._tree.apply(effects, reached)


@mutant(Tree, "apply", "position-goes-first", "the tree says that it has rows before it has them")
def note_first(tree: Tree, effects: Values, reached: LogPosition) -> None:
    apply(tree, {}, reached)
    apply(tree, effects, reached)


@mutant(checksums, "unseal", "row-unchecked", "the checksum of a row is not looked at")
def believe(_: bytes, row: bytes) -> bytes:
    return row[checksums.CHECKSUM_BYTES :]


@mutant(scrub, "judged", "scrub-unchecking", "a scrub counts rows and does not look at them")
def count_rows(transaction: TreeTransaction, after: bytes) -> Iterator[tuple[bytes, int, bool]]:
    return ((row, size, True) for row, size, _ in judged(transaction, after))


mutant(recovery, "was_cut", "torn-is-damaged", "a frame that a crash cut is taken for a damaged one")(never)
mutant(
    recovery,
    "was_cut",
    "damaged-is-torn",
    "a damaged last frame is taken for one that a crash cut",
    Patch(recovery, "next_frame", nothing),
)(always)


@mutant(recovery, "frame_at", "frame-unchecked", "the checksum of a frame covers its header alone")
def any_frame(segment: SegmentData, offset: int) -> Frame | None:
    end = recovery.body_end(segment, offset)
    if end is None or end > len(segment.data):
        return None
    _, length, number, _ = FRAME_HEADER.unpack_from(segment.data, offset)
    begin = offset + FRAME_HEADER_BYTES
    payload = recovery.unmarked(segment.data[begin:end], begin)[:length]
    return Frame(number=number, payload=payload, end=end + len(END))


class PaddedFiles:
    """A file that ends early reads as if zeros followed."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def read_synced(self, path: Path) -> bytes:
        return self._files.read_synced(path).ljust(1 << 16, b"\x00")


@mutant(recovery, "read_segment", "length-unchecked", "a segment may be shorter than its header says", since=100)
def read_any_length(path: Path, files: Files, log_format: int = FORMAT) -> SegmentData:
    padded: Any = PaddedFiles(files)
    return read_segment(path, padded, log_format)


@mutant(Segment, "_grow", "length-promised-first", "a segment's header says how long it is before it is")
def promise_first(segment: Segment, end: int) -> None:
    size = 2 * end - segment.header.allocated
    segment.header = type(segment.header)(
        generation=segment.header.generation,
        first_frame=segment.header.first_frame,
        salt=segment.header.salt,
        allocated=segment.header.allocated + size,
    )
    write_all(segment._files, segment._file, segment.header.encode(), 0)
    segment._files.allocate(segment._file, 0, segment.header.allocated)
    segment._files.sync(segment._file)


@mutant(SimFiles, "read_synced", "cached-counts", "a frame that is only in the page cache counts as durable")
def read_cached(files: SimFiles, path: Path) -> bytes:
    return files.read(path)


@mutant(Segment, "write", "failed-sync-counts", "a write that fails is taken for one that did not")
def go_on(segment: Segment, frame: bytes) -> int:
    try:
        return write_frame(segment, frame)
    except OSError:
        segment.broken = False
        return len(frame)
