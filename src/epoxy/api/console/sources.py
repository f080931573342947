"""The sources that the playground runs in a browser, as one archive: those of this very installation.

Packages are found by name and not imported: a node does not load the simulator. Files are stored as they are, because
compressing them would hold up the event loop; reading them takes some milliseconds, once.
"""

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

ARCHIVE = "playground/epoxy.zip"

PATTERNS = {
    "epoxy": (
        "__init__.py",
        "ports.py",
        "model/*.py",
        "codec/*.py",
        "protocol/*.py",
        "protocol/keys/*.py",
        "protocol/members/*.py",
        "protocol/placement/*.py",
        "protocol/txn/*.py",
        "runtime/*.py",
        "store/**/*.py",
        "node/*.py",
        "node/backup/*.py",
        "node/keys/*.py",
        "node/members/*.py",
        "node/scrub/*.py",
    ),
    "epoxy_sim": (
        "*.py",
        "disk/*.py",
        "keys/**/*.py",
        "members/**/*.py",
        "playground/*.py",
    ),
    "sortedcontainers": ("*.py",),
}
"""What the engine of single keys and its simulator import, by room."""

MAX_ARCHIVE_BYTES = 4 << 20
"""Twice what it has today. It is kept in memory once it was asked for."""

SAME_DATE = (1980, 1, 1, 0, 0, 0)
"""The same sources make the same archive, with the same tag, on every node."""


class NoArchive(Exception):
    """A package is not installed with its sources, or there is more of them than there should be."""


def files() -> Iterator[tuple[str, Path]]:
    """Each file with its name in the archive."""
    for package, patterns in PATTERNS.items():
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise NoArchive(f"this node is installed without the sources of {package}")
        folder = Path(found.origin).parent
        paths = {path for pattern in patterns for path in folder.glob(pattern)}
        for path in sorted(paths):
            yield f"{package}/{path.relative_to(folder).as_posix()}", path


def archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as opened:
        for name, path in files():
            opened.writestr(zipfile.ZipInfo(name, SAME_DATE), path.read_bytes())
            if made.tell() > MAX_ARCHIVE_BYTES:
                raise NoArchive("the sources of this node have outgrown their limit")
    return made.getvalue()
