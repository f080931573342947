"""Where a running demo takes orders: one socket for each, in a folder that belongs to the user. That it answers shows
that the demo runs, so nothing is left to believe when one was killed."""

import contextlib
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from epoxy.model.errors import InvalidRequest, Unavailable

MAX_ORDER_BYTES = 4096
"""An order is two or three words."""

ANSWER_S = 180.0
"""To add a region takes the longest: it gives up after 60 seconds of starting and 90 of learning."""

LOOK_S = 5.0
"""For a demo to say which one it is. One that is too busy to answer is not the one that is meant."""

READ_S = 2.0
"""For a process on this machine to send two words. The desk serves one at a time, so nobody may hold it up."""


class DemoOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`verb` is one of the sub-commands; `others` narrows a cut or a heal to the links to those."""

    verb: str
    region: str = ""
    others: tuple[str, ...] = ()


class DemoReply(Struct, frozen=True, kw_only=True):
    """`lines` for people, `demo` for programs; `done` False: refused, and the lines say why."""

    done: bool
    lines: list[str]
    demo: dict[str, Any]


class ControlSocket:
    """The demo's side."""

    def __init__(self, port_base: int) -> None:
        self._path = folder_of_user() / f"{port_base}.sock"
        self._path.unlink(missing_ok=True)  # of a demo that was killed: the ports were free
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self._path))
        self._socket.listen()

    def serve(self, perform: Callable[[DemoOrder], DemoReply], wait_s: float) -> None:
        """At most one order, if one comes in time."""
        self._socket.settimeout(wait_s)
        try:
            visitor, _ = self._socket.accept()
        except TimeoutError:
            return
        with visitor, contextlib.suppress(OSError):  # who has left need not be told
            visitor.settimeout(READ_S)
            visitor.sendall(msgspec.json.encode(perform(read_order(visitor))))

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


def read_order(visitor: socket.socket) -> DemoOrder:
    raw = b""
    while not raw.endswith(b"\n") and len(raw) < MAX_ORDER_BYTES:
        piece = visitor.recv(MAX_ORDER_BYTES)
        if not piece:
            break
        raw += piece
    try:
        return msgspec.json.decode(raw, type=DemoOrder)
    except msgspec.MsgspecError:
        return DemoOrder(verb="unreadable")


def ask(path: Path, order: DemoOrder, wait_s: float = ANSWER_S) -> DemoReply | None:
    """None: nobody is there any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.settimeout(wait_s)
        try:
            visitor.connect(str(path))
            visitor.sendall(msgspec.json.encode(order) + b"\n")
            raw = b"".join(iter(lambda: visitor.recv(1 << 16), b""))
        except TimeoutError:
            raise Unavailable(f"the demo at {path} does not answer") from None
        except OSError:
            return None
    try:
        return msgspec.json.decode(raw, type=DemoReply)
    except msgspec.MsgspecError:
        return None


def find(*, folder: Path | None, port_base: int | None) -> Path:
    """The one demo of this user that is meant."""
    asked = [path for path in sockets() if port_base is None or path.stem == str(port_base)]
    meant = [path for path in asked if is_meant(path, folder)]
    if not meant:
        where = f" in {folder}" if folder is not None else f" at --port-base {port_base}" if port_base else ""
        raise InvalidRequest(f"no demo is running{where}; `epoxy demo` starts one")
    if len(meant) > 1:
        bases = ", ".join(path.stem for path in meant)
        raise InvalidRequest(f"{len(meant)} demos are running; say which with --port-base ({bases})")
    return meant[0]


def is_meant(path: Path, folder: Path | None) -> bool:
    try:
        told = ask(path, DemoOrder(verb="ps"), LOOK_S)
    except Unavailable:
        return folder is None
    return told is not None and (folder is None or told.demo.get("dir") == str(folder.absolute()))


def sockets() -> Iterator[Path]:
    yield from sorted(folder_of_user().glob("*.sock"))


def folder_of_user() -> Path:
    """In a folder that others may write to, so it is looked at before it is trusted."""
    folder = Path(tempfile.gettempdir()) / f"epoxy-demo-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InvalidRequest(f"{folder} must be a folder of your own that nobody else may use; remove it")
    return folder
