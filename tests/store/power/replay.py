"""From the journal of `shim.c` to the folder that a power cut leaves."""

import os
import shutil
import struct
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path, PurePath
from typing import NamedTuple

from epoxy_sim.disk.volume import SimFile, SimFolder, Volume

HEAD = struct.Struct("<BQQI")
LENGTH = struct.Struct("<Q")
UNSEEN = "lock.mdb"
"""LMDB's lock file: its contents do not outlive a process, and the journal has none of them."""


class NoteKind(IntEnum):
    """As in `shim.c`."""

    CREATE = 1
    RESIZE = 2
    WRITE = 3
    SYNC = 4
    SYNC_RANGE = 5
    SYNC_FOLDER = 6
    RENAME = 7
    REMOVE = 8
    FOLDER = 9
    TOLD = 10


class Note(NamedTuple):
    kind: NoteKind
    inode: int
    offset: int
    data: bytes


def notes(journal: bytes) -> Iterator[Note]:
    """All whole ones: the process may have been killed while it wrote the last."""
    at = 0
    while at + HEAD.size <= len(journal):
        kind, inode, offset, length = HEAD.unpack_from(journal, at)
        at += HEAD.size
        if at + length > len(journal):
            return
        yield Note(NoteKind(kind), inode, offset, journal[at : at + length])
        at += length


class Replay:
    """A real folder as a volume on which all is synced, and the changes of a journal."""

    def __init__(self, folder: Path) -> None:
        self.volume = Volume()
        self._folder = folder
        self._files: dict[int, SimFile] = {}
        self._read(folder, self.volume.root)
        self.volume.root.sync()

    def _read(self, folder: Path, into: SimFolder) -> None:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.is_dir():
                node: SimFile | SimFolder = SimFolder()
                self._read(Path(entry.path), node)  # type: ignore[arg-type]
            elif entry.name == UNSEEN:
                continue
            else:
                node = self._files[entry.inode()] = SimFile()
                node.now = bytearray(Path(entry.path).read_bytes())
                node.synced = bytearray(node.now)
            into.add(entry.name, node)
        into.sync()

    def apply(self, note: Note) -> None:
        match note.kind:
            case NoteKind.WRITE:
                self._files[note.inode].write(note.offset, note.data)
            case NoteKind.SYNC_RANGE:
                self._files[note.inode].sync_range(note.offset, LENGTH.unpack(note.data)[0])
            case NoteKind.SYNC:
                self._files[note.inode].sync()
            case NoteKind.RESIZE:
                self._files[note.inode].resize(note.offset)
            case NoteKind.TOLD:
                pass
            case _:
                self._apply_to_names(note)

    def _apply_to_names(self, note: Note) -> None:
        first, _, second = note.data.partition(b"\0")
        path = self._path(first)
        if note.kind is NoteKind.SYNC_FOLDER:
            self.volume.folder(path).sync()
            return
        folder = self.volume.folder(path.parent)
        match note.kind:
            case NoteKind.CREATE:
                self._create(folder, path.name, note)
            case NoteKind.RENAME:
                to = self._path(second)
                assert to.parent == path.parent, "a rename within a folder is atomic"
                folder.change(removed=path.name, added=to.name)
            case NoteKind.REMOVE:
                folder.change(removed=path.name)
            case _:
                assert note.kind is NoteKind.FOLDER
                folder.add(path.name, SimFolder())

    def _create(self, folder: SimFolder, name: str, note: Note) -> None:
        node = folder.now.get(name)
        if node is None:
            node = SimFile()
            folder.add(name, node)
        elif note.offset:
            assert isinstance(node, SimFile)
            node.resize(0)
        assert isinstance(node, SimFile)
        self._files[note.inode] = node

    def _path(self, text: bytes) -> PurePath:
        return PurePath("/") / PurePath(text.decode()).relative_to(self._folder)

    def write(self) -> None:
        """Make the real folder what the volume is now."""
        shutil.rmtree(self._folder)
        write_folder(self.volume.root, self._folder)


def write_folder(folder: SimFolder, path: Path) -> None:
    path.mkdir()
    for name, node in folder.now.items():
        if isinstance(node, SimFolder):
            write_folder(node, path / name)
        elif isinstance(node, SimFile):
            (path / name).write_bytes(node.now)
