"""The control socket of a running demo, in a folder of the user. A demo runs if its socket answers: the file that a
killed demo leaves behind proves nothing."""

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

from epoxy.cli.demo.race import Race
from epoxy.model.errors import InvalidRequest, Unavailable

MAX_ORDER_BYTES = 8192
"""An order is a verb, a few names of regions and perhaps that of a key, of 1,024 bytes: each up to six as JSON."""

ANSWER_S = 180.0
"""Adding a region takes the longest: it gives up after 60 seconds of starting and 90 of copying."""

LOOK_S = 5.0
"""For a demo to report its folder. One that is too busy to answer is not taken for the one that is meant."""

READ_S = 2.0
"""For a client to send its order. Orders are served one at a time, so a slow client must not block the others."""


GATEWAY = "gateway"
"""In place of the number of a node: the one that speaks with other regions."""


class DemoOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`verb` is a sub-command; `others` limits a cut or a heal to the links to these regions. `added_ms`: by which a
    link is slowed. `name`: what is raced for; empty: a fresh name. `node`: one of the region's, by its number, or its
    gateway; empty: all of them."""

    verb: str
    region: str = ""
    node: str = ""
    others: tuple[str, ...] = ()
    added_ms: float = 0.0
    name: str = ""

    @property
    def place(self) -> str:
        """As it is typed."""
        return f"{self.region} {self.node}".rstrip()


class DemoReply(Struct, frozen=True, kw_only=True):
    """`lines` as text, `demo` as JSON. `done` False: refused, for the reason in `lines`. `race`: how one went."""

    done: bool
    lines: list[str]
    demo: dict[str, Any]
    race: Race | None = None


class ControlSocket:
    """The demo's end."""

    def __init__(self, port_base: int) -> None:
        self._path = socket_of(port_base)
        self._path.unlink(missing_ok=True)  # left by a demo that was killed: its ports were free
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self._path))
        self._socket.listen()

    def serve(self, perform: Callable[[DemoOrder], DemoReply], wait_s: float) -> None:
        """Serves at most one order, if one arrives within `wait_s`."""
        self._socket.settimeout(wait_s)
        try:
            peer, _ = self._socket.accept()
        except TimeoutError:
            return
        with peer, contextlib.suppress(OSError):  # the client may be gone
            peer.settimeout(READ_S)
            peer.sendall(msgspec.json.encode(perform(read_order(peer))))

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


def read_order(peer: socket.socket) -> DemoOrder:
    raw = b""
    while not raw.endswith(b"\n") and len(raw) < MAX_ORDER_BYTES:
        piece = peer.recv(MAX_ORDER_BYTES)
        if not piece:
            break
        raw += piece
    try:
        return msgspec.json.decode(raw, type=DemoOrder)
    except msgspec.MsgspecError:
        return DemoOrder(verb="unreadable")


def ask(path: Path, order: DemoOrder, wait_s: float = ANSWER_S) -> DemoReply | None:
    """None: the demo has ended."""
    line = msgspec.json.encode(order) + b"\n"
    if len(line) > MAX_ORDER_BYTES:
        raise InvalidRequest(f"an order has at most {MAX_ORDER_BYTES} bytes, not {len(line)}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(wait_s)
        try:
            peer.connect(str(path))
            peer.sendall(line)
            raw = b"".join(iter(lambda: peer.recv(1 << 16), b""))
        except TimeoutError:
            raise Unavailable(f"the demo at {path} does not answer") from None
        except OSError:
            return None
    try:
        return msgspec.json.decode(raw, type=DemoReply)
    except msgspec.MsgspecError:
        return None


def find(*, folder: Path | None, port_base: int | None) -> Path:
    """The socket of the demo with this folder or port; without either, of the only one that runs."""
    asked = [path for path in sockets() if port_base is None or path.stem == str(port_base)]
    meant = [path for path in asked if is_meant(path, folder)]
    if not meant:
        where = f" in {folder}" if folder is not None else f" at --port-base {port_base}" if port_base else ""
        raise InvalidRequest(f"no demo is running{where}; `epoxy demo` starts one")
    if len(meant) > 1:
        bases = ", ".join(path.stem for path in meant)
        raise InvalidRequest(f"{len(meant)} demos are running; choose one with --port-base ({bases})")
    return meant[0]


def is_meant(path: Path, folder: Path | None) -> bool:
    try:
        told = ask(path, DemoOrder(verb="ps"), LOOK_S)
    except Unavailable:
        return folder is None
    return told is not None and (folder is None or told.demo.get("dir") == str(folder.absolute()))


def sockets() -> Iterator[Path]:
    yield from sorted(folder_of_user().glob("*.sock"))


def socket_of(port_base: int) -> Path:
    return folder_of_user() / f"{port_base}.sock"


def folder_of_user() -> Path:
    """The folder above is writable for other users, so this one is checked before it is trusted."""
    folder = Path(tempfile.gettempdir()) / f"epoxy-demo-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InvalidRequest(f"{folder} must be a folder that only you can use; remove it")
    return folder
