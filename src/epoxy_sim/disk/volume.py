"""A file system that knows what is synced, and what a power cut may do to the rest.

A file has the contents that were synced last, and the writes since. A folder has the names that were synced last, and
the changes since. A power cut keeps any of those: of a write each sector for itself, of a change of names all or
nothing (a rename is one change). So what was not synced may be torn, reordered and lost.

The simulator runs the store over it; `tests/store/power_cuts.py` replays into it what a real process wrote.
"""

from itertools import pairwise
from pathlib import PurePath
from random import Random
from typing import NamedTuple

from epoxy_sim.disk.ordered_map import OrderedMap

SECTOR_BYTES = 512
"""What a disk writes as one."""


class Write(NamedTuple):
    offset: int
    data: bytes


class Resize(NamedTuple):
    size: int


class SimFile:
    def __init__(self) -> None:
        self.now = bytearray()
        self.synced = bytearray()
        self.unsynced: list[Write | Resize] = []

    def write(self, offset: int, data: bytes) -> None:
        put(self.now, offset, data)
        self.unsynced.append(Write(offset, data))

    def resize(self, size: int) -> None:
        set_size(self.now, size)
        self.unsynced.append(Resize(size))

    def sync(self) -> None:
        if self.unsynced:
            self.synced = bytearray(self.now)
            self.unsynced.clear()

    def sync_range(self, offset: int, size: int) -> None:
        """As a write with O_DSYNC: everything that was written to this range is durable now."""
        later: list[Write | Resize] = []
        for change in self.unsynced:
            if isinstance(change, Resize) or overlap(change, offset, size):
                apply(self.synced, change)
            else:
                later.append(change)
        self.unsynced = later

    def cut_power(self, keep: float, dice: Random) -> None:
        for change in self.unsynced:
            for part in sectors(change):
                if dice.random() < keep:
                    apply(self.synced, part)
        self.unsynced.clear()
        self.now = bytearray(self.synced)

    def image(self) -> "SimFile":
        """With what is not synced: a snapshot of a running machine has the page cache, too."""
        copy = SimFile()
        copy.now, copy.synced = bytearray(self.now), bytearray(self.now)
        return copy


class Change(NamedTuple):
    """Of names, in one folder."""

    removed: str | None
    added: str | None
    node: "SimNode | None"


class SimFolder:
    def __init__(self) -> None:
        self.now: dict[str, SimNode] = {}
        self.synced: dict[str, SimNode] = {}
        self.unsynced: list[Change] = []

    def change(self, *, removed: str | None = None, added: str | None = None) -> None:
        """Remove a name, or give another one to what has it."""
        assert removed is not None
        self._note(Change(removed, added, self.now[removed] if added is not None else None))

    def add(self, name: str, node: "SimNode") -> None:
        self._note(Change(None, name, node))

    def sync(self) -> None:
        self.synced = dict(self.now)
        self.unsynced.clear()

    def cut_power(self, keep: float, dice: Random) -> None:
        for change in self.unsynced:
            if dice.random() < keep:
                rename(self.synced, change)
        self.unsynced.clear()
        self.now = dict(self.synced)
        for node in self.now.values():
            node.cut_power(keep, dice)

    def image(self) -> "SimFolder":
        copy = SimFolder()
        copy.now = {name: node.image() for name, node in self.now.items()}
        copy.sync()
        return copy

    def _note(self, change: Change) -> None:
        rename(self.now, change)
        self.unsynced.append(change)


SimNode = SimFile | SimFolder | OrderedMap


class Volume:
    """While it is `lying` it reports syncs and does none."""

    def __init__(self, root: SimFolder | None = None) -> None:
        self.root = root or SimFolder()
        self.lying = False
        self.locked: set[int] = set()
        """Nodes by their identity. Locks end with the process."""

    def find(self, path: PurePath) -> SimNode | None:
        node: SimNode = self.root
        for name in path.parts[1:]:
            found = node.now.get(name) if isinstance(node, SimFolder) else None
            if found is None:
                return None
            node = found
        return node

    def folder(self, path: PurePath) -> SimFolder:
        node = self.find(path)
        if not isinstance(node, SimFolder):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return node

    def file(self, path: PurePath) -> SimFile:
        node = self.find(path)
        if not isinstance(node, SimFile):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return node

    def cut_power(self, keep: float, dice: Random) -> None:
        """Of everything that is not synced, about the share `keep` survives."""
        self.root.cut_power(keep, dice)
        self.lying = False
        self.locked.clear()

    def image(self) -> "Volume":
        return Volume(self.root.image())


def overlap(change: Write, offset: int, size: int) -> bool:
    return change.offset < offset + size and offset < change.offset + len(change.data)


def put(contents: bytearray, offset: int, data: bytes) -> None:
    if offset > len(contents):
        contents.extend(bytes(offset - len(contents)))
    contents[offset : offset + len(data)] = data


def set_size(contents: bytearray, size: int) -> None:
    del contents[size:]
    contents.extend(bytes(size - len(contents)))


def apply(contents: bytearray, change: Write | Resize) -> None:
    if isinstance(change, Resize):
        set_size(contents, change.size)
    else:
        put(contents, change.offset, change.data)


def sectors(change: Write | Resize) -> list[Write | Resize]:
    """What of a change may survive without the rest."""
    if isinstance(change, Resize):
        return [change]
    begin, end = change.offset, change.offset + len(change.data)
    bounds = [begin, *range(begin - begin % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES), end]
    return [Write(start, change.data[start - begin : stop - begin]) for start, stop in pairwise(bounds)]


def rename(names: dict[str, SimNode], change: Change) -> None:
    if change.removed is not None:
        names.pop(change.removed, None)
    if change.added is not None and change.node is not None:
        names[change.added] = change.node
