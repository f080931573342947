"""Notices that files were replaced or rewritten, by looking at them once in a while."""

from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[int, int, int, int] | None
"""Of one file, in one state. None: it is not there."""


class FileWatch:
    """A change counts when two looks in a row find the same: a file that is being written is not read halfway."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._known = self._seen = self._look()

    def has_changed(self) -> bool:
        """True once for each change."""
        before, self._seen = self._seen, self._look()
        if self._seen != before or self._seen == self._known:
            return False
        self._known = self._seen
        return True

    def _look(self) -> tuple[Stamp, ...]:
        return tuple([stamp_of(path) for path in self._paths])


def stamp_of(path: Path) -> Stamp:
    """A new file has another inode, a rewritten one another time; a link is followed, as for a mounted secret."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
