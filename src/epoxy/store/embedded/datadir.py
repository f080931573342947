"""A data directory belongs to one replica, is in one format, and is used by one process at a time.

format      {"format": 5, "replica": id, "cluster": id}, written when the directory is made, as the last thing; the
            cluster's id is empty unless it was made from a backup; 6 in place of 5: marked, see `DataDir.mark`
lock        the name of the process that uses the directory; locked, as is the directory itself: without this file a
            second process is refused all the same, and versions before format 5 lock the file alone
restoring   a directory that is being made from a backup: `bulk.py`
log, tree   the embedded store: made before `format`, so a directory that has `format` alone has lost them
migrating, previous, discarded      of a directory that was migrated from format 4: `migration.py`
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from epoxy.model.cluster import cluster_name
from epoxy.model.errors import StoreRefused
from epoxy.model.versions import DIRECTORY_FORMAT, EARLY_DIRECTORY
from epoxy.store.embedded.files import (
    FORMAT_FILE,
    LOG_FOLDER,
    SYSTEM_FILES,
    TREE_FILE,
    TREE_FOLDER,
    Files,
    sync_parents,
    write_whole,
)
from epoxy.store.embedded.log import LOG_SUFFIX
from epoxy.store.embedded.migration import FROM_FORMAT, Tell, build, can_go_back, go_back, settle
from epoxy.store.embedded.space import not_opened
from epoxy.store.embedded.store import open_folder

FORMAT = DIRECTORY_FORMAT
FIRST_LOG_BYTES = 1 << 12
"""Of the segment that is made with the directory: it gets no frames, for the first start begins another."""
FORMAT_DRAFT, LOCK_FILE, RESTORING = "format.next", "lock", "restoring"


class Description(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`cluster`: the id of a cluster that was made from a backup. It keeps its nodes apart from those of the cluster
    that the backup is of, and from nodes whose directories are empty."""

    format: int
    replica: int
    cluster: str = ""


class DataDir:
    """Holds the locks. They are released when the process ends, in whatever way."""

    def __init__(
        self, path: Path, locks: tuple[int, ...], found: Description, *, is_new: bool = False, files: Files
    ) -> None:
        self.path = path
        self.is_new = is_new
        self.cluster = found.cluster
        self._found = found
        self._locks = locks
        self._files = files

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        replica: int,
        name: str,
        cluster: str = "",
        make: bool = True,
        files: Files = SYSTEM_FILES,
        tell: Tell | None = None,
    ) -> Self:
        """Lock the directory for this replica, and make it, for this cluster, if there is none. A process that finds it
        locked reports `name`. Without `make`, a directory without rows is refused: a first member of a cluster that was
        made from a backup would vote without them. A directory of the format before this one is migrated, and `tell`
        is called with how far it is."""
        try:
            make_folder(path, files)
            locks = take_locks(path, name, files)
        except OSError as error:
            raise not_opened(error, f"data directory {path}", path, files) from error
        try:
            wanted = Description(format=FORMAT, replica=replica, cluster=cluster)
            found, is_new = describe(path, wanted, files, make, tell or ignore)
        except OSError as error:
            release(locks, files)
            raise not_opened(error, f"data directory {path}", path, files) from error
        except BaseException:
            release(locks, files)
            raise
        return cls(path, locks, found, is_new=is_new, files=files)

    @property
    def is_marked(self) -> bool:
        """Whether a process that may have sent Accepts before its own votes were durable has not ended in order."""
        return self._found.format == EARLY_DIRECTORY

    def mark(self) -> bool:
        """Before this process sends the first such Accept: durable when this returns. False: the disk refused it."""
        try:
            self._describe(replace(self._found, format=EARLY_DIRECTORY))
        except OSError:
            return False
        return True

    def unmark(self) -> None:
        """The store is closed, all its votes are durable, and no other replica has votes that are not known here."""
        if self.is_marked:
            self._describe(replace(self._found, format=FORMAT))

    def _describe(self, found: Description) -> None:
        write_whole(self._files, self.path / FORMAT_FILE, json.encode(found))
        self._found = found

    def close(self) -> None:
        release(self._locks, self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def make_parents(path: Path, files: Files) -> None:
    """The folder, with those above it."""
    for missing in reversed([folder for folder in (path, *path.parents) if not files.exists(folder)]):
        files.make_folder(missing, 0o700 if missing == path else 0o777)
        files.sync_folder(missing.parent)


def make_folder(path: Path, files: Files) -> None:
    """Refuse a folder that holds something else before anything is put into it."""
    make_parents(path, files)
    if not files.is_folder(path):
        raise StoreRefused(f"data directory {path}: not a directory")
    # A crash while the directory is made leaves at most these.
    others = set(files.names(path)) - {LOCK_FILE, FORMAT_DRAFT, LOG_FOLDER, TREE_FOLDER}
    if RESTORING in others and FORMAT_FILE not in others:
        raise StoreRefused(f"data directory {path}: `epoxy restore` was interrupted here; run it again")
    if others and FORMAT_FILE not in others:
        raise StoreRefused(f"data directory {path}: not empty, and not made by Epoxy (it has no file `{FORMAT_FILE}`)")


def take_locks(path: Path, name: str, files: Files) -> tuple[int, ...]:
    taken: list[int] = []
    try:
        for each in (path, path / LOCK_FILE):
            lock = files.lock(each)
            if lock is None:
                raise StoreRefused(f"data directory {path}: in use by {holder(path, files)}")
            taken.append(lock)
        files.overwrite(taken[-1], f"{name} (pid {os.getpid()})\n".encode())
    except BaseException:
        release(taken, files)
        raise
    return tuple(taken)


def holder(path: Path, files: Files) -> str:
    """As the process that holds the lock wrote it; the file may have been removed since."""
    file = path / LOCK_FILE
    written = files.read(file).decode(errors="replace").strip() if files.exists(file) else ""
    return written or "another process"


def release(locks: Iterable[int], files: Files) -> None:
    for lock in locks:
        files.close(lock)


def describe(path: Path, wanted: Description, files: Files, make: bool, tell: Tell) -> tuple[Description, bool]:
    """Check the description, or write it into a directory that has none: True."""
    file = path / FORMAT_FILE
    if not files.exists(file):
        if not make:
            raise StoreRefused(empty_words(path, wanted.cluster))
        sync_parents(files, path)
        make_store(path, files)
        write_whole(files, file, json.encode(wanted))
        return wanted, True
    found = read_description(file, files)
    check_description(path, found, wanted)
    if found.format == FROM_FORMAT:
        check_store(path, files)
        found = migrate(path, found, files, tell)
    settle(path, files)
    check_store(path, files)
    return found, False


def empty_words(path: Path, cluster: str) -> str:
    return (
        f"data directory {path}: empty, but a first member of cluster {cluster} begins with the rows of its backup: "
        "run `epoxy restore` here; if it had a disk and lost it, replace the member"
    )


def migrate(path: Path, found: Description, files: Files, tell: Tell) -> Description:
    build(path, files, tell)
    found = replace(found, format=FORMAT)
    write_whole(files, path / FORMAT_FILE, json.encode(found))
    return found


def return_to_previous(path: Path, files: Files = SYSTEM_FILES) -> None:
    """The directory as it was before its migration, for the version before this one."""
    with holding(path, "epoxy store back", files):
        if not can_go_back(path, files):
            raise StoreRefused(
                f"data directory {path}: no way back: it was not migrated from format {FROM_FORMAT}, or a node of this "
                "version has written to it since, and the old rows lack that. The version before this one can come "
                "back only as a replacement of this member, with an empty disk"
            )
        go_back(path, files)


@contextmanager
def holding(path: Path, name: str, files: Files = SYSTEM_FILES) -> Iterator[None]:
    """The locks of a directory that exists. Errors of the disk are refusals."""
    try:
        if not files.exists(path / FORMAT_FILE):
            raise StoreRefused(f"data directory {path}: not made by Epoxy (it has no file `{FORMAT_FILE}`)")
        locks = take_locks(path, name, files)
        try:
            yield
        finally:
            release(locks, files)
    except OSError as error:
        raise not_opened(error, f"data directory {path}", path, files) from error


def check_format(path: Path, found: int) -> None:
    """Both numbers are named, and what to do: the directory is left as it is."""
    if found > EARLY_DIRECTORY:
        raise StoreRefused(
            f"data directory {path}: format {found}, which is newer than this release knows: it reads format {FORMAT}; "
            "install the release that wrote it, or a later one"
        )
    if found not in (EARLY_DIRECTORY, FORMAT, FROM_FORMAT):
        raise StoreRefused(
            f"data directory {path}: format {found}; this release reads format {FORMAT}, and migrates {FROM_FORMAT}; "
            "an earlier release brings it there first"
        )


def check_description(path: Path, found: Description, wanted: Description) -> None:
    check_format(path, found.format)
    if found.replica != wanted.replica:
        raise StoreRefused(
            f"data directory {path}: belongs to replica {found.replica}, this is replica {wanted.replica}"
        )
    if wanted.cluster not in ("", found.cluster):
        raise StoreRefused(
            f"data directory {path}: belongs to {cluster_name(found.cluster)}, but cluster.id is {wanted.cluster}; "
            "a node that joins that cluster starts with an empty directory"
        )


def ignore(*_: object) -> None: ...


def make_store(path: Path, files: Files) -> None:
    """An empty one. A store with rows but without a description is refused: its replica is unknown."""
    tree, log, _, reached = open_folder(path, FIRST_LOG_BYTES, files)
    tree.close()
    log.close()
    if reached.frame:
        raise StoreRefused(f"data directory {path}: holds rows, but has no file `{FORMAT_FILE}`")


def check_store(path: Path, files: Files) -> None:
    """A replica that has voted and starts with an empty store could vote again."""
    for folder in (LOG_FOLDER, TREE_FOLDER):
        names = files.names(path / folder) if files.exists(path / folder) else []
        if not any(name == TREE_FILE or name.endswith(LOG_SUFFIX) for name in names):
            raise StoreRefused(
                f"data directory {path}: its `{folder}` is missing or empty; if that cannot be put back, "
                "this replica must come back under a new id"
            )


def read_description(file: Path, files: Files) -> Description:
    """Of a newer format only the number is read."""
    try:
        data = files.read(file)
        version = json.decode(data, type=dict[str, object]).get("format")
        if isinstance(version, int) and version > EARLY_DIRECTORY:
            return Description(format=version, replica=0)
        return json.decode(data, type=Description)
    except (DecodeError, ValidationError) as error:
        raise StoreRefused(f"data directory {file.parent}: the file `{file.name}` is damaged: {error}") from None
