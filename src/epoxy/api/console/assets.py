"""The files of the console as a node serves them: read when first asked for, compressed once, named by their content.

Every path is looked up in the list of files made at the start, so that no request can name another file of the machine.
"""

import gzip
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from epoxy.api.console import sources

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"

CONTENT_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".mjs": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".txt": b"text/plain; charset=utf-8",
    ".py": b"text/x-python; charset=utf-8",
    ".wasm": b"application/wasm",
    ".zip": b"application/zip",
}
"""What is not listed here is not served."""

PACKED = ".gz"
"""A file that is shipped compressed is served under its name without this."""

WORTH_PACKING_BYTES = 1 << 20
"""Longer files are shipped compressed, or served as they are: compressing them here would hold up the event loop."""

ALREADY_PACKED = frozenset((".png", ".zip"))


MADE: Mapping[str, Callable[[], bytes]] = {sources.ARCHIVE: sources.archive}
"""What is not a file, and made when it is first asked for."""


class Asset(Struct, frozen=True, kw_only=True):
    """`packed`: with gzip, or empty if that is not worth it; `plain`: empty if it is shipped compressed alone."""

    content_type: bytes
    plain: bytes
    packed: bytes
    etag: bytes


class Assets:
    """Those below `folder`. The names are read once; contents are kept from their first use on."""

    def __init__(self, folder: Path = STATIC, made: Mapping[str, Callable[[], bytes]] = MADE) -> None:
        self._files = {
            path.relative_to(folder).as_posix().removesuffix(PACKED): path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and Path(path.name.removesuffix(PACKED)).suffix in CONTENT_TYPES
        }
        self._made = made
        self._read: dict[str, Asset] = {}

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def get(self, name: str) -> Asset | None:
        known = self._read.get(name)
        if known is None and (path := self._files.get(name)) is not None:
            known = self._read[name] = asset_of(name, path.read_bytes(), is_packed=path.suffix == PACKED)
        if known is None and (make := self._made.get(name)) is not None:
            known = self._read[name] = asset_of(name, make())
        return known


def asset_of(name: str, data: bytes, *, is_packed: bool = False) -> Asset:
    suffix = Path(name).suffix
    plain, packed = (b"", data) if is_packed else (data, packed_if_shorter(data, suffix))
    etag = b'"%b"' % hashlib.sha256(data).hexdigest()[:32].encode()
    return Asset(content_type=CONTENT_TYPES[suffix], plain=plain, packed=packed, etag=etag)


def packed_if_shorter(data: bytes, suffix: str) -> bytes:
    if suffix in ALREADY_PACKED or len(data) > WORTH_PACKING_BYTES:
        return b""
    packed = gzip.compress(data, mtime=0)
    return packed if len(packed) < len(data) else b""
