"""The file system of one simulated process: `Files` of the embedded store, over a volume."""

import errno
from collections.abc import Callable
from pathlib import Path

import lmdb

from epoxy.store.embedded.files import TREE_FILE
from epoxy_sim.disk.ordered_map import MapEnvironment, OrderedMap
from epoxy_sim.disk.volume import SimFile, SimFolder, SimNode, Volume

ROOM_BYTES = 1 << 40


class PowerCut(BaseException):
    """The machine is off. No code of the store may catch this."""


class SimFiles:
    """`error`: what the next write or sync fails with, if it does. `fuse`: after so many changes of the disk the power
    is cut, in the middle of the next: it is done, and not synced."""

    def __init__(self, volume: Volume, error: Callable[[], OSError | None]) -> None:
        self.fuse: int | None = None
        self._disk = volume
        self._error = error
        self._open: dict[int, SimNode] = {}
        self._opened = 2
        self._off = False

    def end(self) -> None:
        """The process is gone, and changes nothing more."""
        self._off = True

    @property
    def _volume(self) -> Volume:
        if self._off:
            raise PowerCut
        return self._disk

    # Files

    def create(self, path: Path) -> int:
        node = self._volume.find(path)
        if node is None:
            node = SimFile()
            self._volume.folder(path.parent).add(path.name, node)
        elif isinstance(node, SimFile):
            node.resize(0)
        self._burn()
        return self._descriptor(node)

    def write(self, file: int, data: bytes, offset: int) -> int:
        self._may_fail()
        node = self._file(file)
        node.write(offset, data)
        self._burn()
        if not self._volume.lying:
            node.sync_range(offset, len(data))
        return len(data)

    def allocate(self, file: int, offset: int, size: int) -> None:
        self._may_fail()
        node = self._file(file)
        node.resize(max(len(node.now), offset + size))
        self._burn()

    def sync(self, file: int) -> None:
        self._may_fail()
        self._burn()
        if not self._volume.lying:
            self._file(file).sync()

    def close(self, file: int) -> None:
        node = self._open.pop(file)
        if not self._off:
            self._disk.locked.discard(id(node))

    def read(self, path: Path) -> bytes:
        return bytes(self._volume.file(path).now)

    def read_synced(self, path: Path) -> bytes:
        file = self._volume.file(path)
        self._burn()
        if not self._volume.lying:
            file.sync()
        return bytes(file.now)

    def size(self, path: Path) -> int:
        node = self._volume.find(path)
        return len(node.now) if isinstance(node, SimFile) else 0

    # Names

    def exists(self, path: Path) -> bool:
        return self._volume.find(path) is not None

    def is_folder(self, path: Path) -> bool:
        return isinstance(self._volume.find(path), SimFolder)

    def names(self, folder: Path) -> list[str]:
        return sorted(self._volume.folder(folder).now)

    def make_folder(self, path: Path, mode: int = 0o700) -> None:  # noqa: ARG002 (one user)
        if self._volume.find(path) is None:
            self._volume.folder(path.parent).add(path.name, SimFolder())
            self._burn()

    def rename(self, path: Path, to: Path) -> None:
        assert path.parent == to.parent, "a rename within a folder is atomic"
        self._volume.folder(path.parent).change(removed=path.name, added=to.name)
        self._burn()

    def remove(self, path: Path) -> None:
        self._volume.folder(path.parent).change(removed=path.name)
        self._burn()

    def remove_folder(self, path: Path) -> None:
        for name in self.names(path):
            self.remove(path / name)
        self.remove(path)

    def sync_folder(self, folder: Path) -> None:
        self._may_fail()
        node = self._volume.folder(folder)
        self._burn()
        if not self._volume.lying:
            node.sync()

    # The rest

    def lock(self, path: Path) -> int | None:
        node = self._volume.find(path)
        if node is None:
            node = SimFile()
            self._volume.folder(path.parent).add(path.name, node)
        if id(node) in self._volume.locked:
            return None
        self._volume.locked.add(id(node))
        return self._descriptor(node)

    def overwrite(self, file: int, data: bytes) -> None:
        node = self._file(file)
        node.resize(0)
        node.write(0, data)

    def free_bytes(self, folder: Path) -> int:  # noqa: ARG002 (one disk)
        return ROOM_BYTES

    def read_ahead(self, path: Path) -> None:
        """All of it is in memory."""

    def open_environment(self, folder: Path) -> MapEnvironment:
        path = folder / TREE_FILE
        node = self._volume.find(path)
        if node is None:
            node = OrderedMap()
            self._volume.folder(folder).add(TREE_FILE, node)
            self._burn()
        assert isinstance(node, OrderedMap)
        return MapEnvironment(str(folder), node, self._commit)

    def frame_writer(self) -> None:
        """Frames take their virtual time in the executor."""

    def _commit(self, commit: Callable[[bool], None]) -> None:
        try:
            self._may_fail()
        except OSError as error:
            raise lmdb.Error(str(error)) from error
        self._burn()
        commit(self._volume.lying)
        self._burn()

    def _descriptor(self, node: SimNode) -> int:
        self._opened += 1
        self._open[self._opened] = node
        return self._opened

    def _file(self, file: int) -> SimFile:
        node = self._open.get(file) if not self._off else None
        if not isinstance(node, SimFile):
            raise OSError(errno.EBADF, "Bad file descriptor")
        return node

    def _may_fail(self) -> None:
        error = self._error()
        if error is not None:
            raise error

    def _burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.end()
                raise PowerCut
