"""The audit log: every operator's act and every refusal, as lines of JSON in a file of bounded size.

Lines are written and synced by a thread that lives as long as there are some, so a slow disk delays the log and not
the event loop. What does not reach the file is counted, and the next line that does says how many are missing.
"""

import errno
import logging
import os
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from epoxy.node.process.config import Settings
from epoxy.protocol.access.tokens import TOKEN_MARK

log = logging.getLogger(__name__)

AUDIT_FILE = "audit.jsonl"
"""In the data directory, unless `access.audit_file` says otherwise."""

MAX_WAITING = 1_000
"""Lines that wait for the disk: with the longest texts a megabyte."""

MAX_TEXT = 256
"""Of each text in a line: a client chooses some of them."""

TOKEN = re.compile(rf"{TOKEN_MARK}[\w-]+")
"""A client may say its token where a name belongs: `redis://TOKEN@host` does."""

REFUSALS = 60
REFUSALS_S = 60.0
"""Refusals that are written in that time; more are counted. A flood of them fills 20 MB a day."""

CLOSE_S = 2.0
"""How long a node that stops waits for the last lines."""

AuditOutcome = Literal["done", "failed", "unknown", "refused"]


class AuditLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`name`: of the grant, or what the client said it was; `act`: the route or command; `target`: what it was about.
    `suppressed`: refusals that were counted and not written before this line, `lost`: lines that found no place."""

    at: str
    act: str
    outcome: str
    name: str
    address: str
    target: str = ""
    detail: str = ""
    suppressed: int = 0
    lost: int = 0


class LineBudget:
    """So many lines in so many seconds; what is beyond is counted."""

    def __init__(self, lines: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._lines = lines
        self._seconds = seconds
        self._now = now
        self._since = now()
        self._taken = 0
        self._beyond = 0

    def take(self) -> bool:
        now = self._now()
        if now - self._since >= self._seconds:
            self._since, self._taken = now, 0
        self._taken += 1
        if self._taken > self._lines:
            self._beyond += 1
            return False
        return True

    def beyond(self) -> int:
        """How many found no place since this was asked last."""
        beyond, self._beyond = self._beyond, 0
        return beyond


class AuditLog:
    """`counts`: acts by outcome, written or not. `lost`: lines that are missing in the file, because it could not be
    written, or not fast enough."""

    def __init__(
        self,
        path: Path | None = None,
        max_bytes: int = 64 << 20,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Without a path acts are counted and not written. The file before the one that is written is kept, so twice
        `max_bytes` is used at most; the default has room for 300,000 acts."""
        self.path = path
        self.counts: Counter[str] = Counter()
        self.lost = 0
        self._max_bytes = max_bytes
        self._wall = wall
        self._refusals = LineBudget(REFUSALS, REFUSALS_S, now)
        self._lock = threading.Lock()
        self._waiting: deque[AuditLine] = deque()
        self._writer: threading.Thread | None = None
        self._unreported = 0
        self._failing = False

    def record(
        self,
        act: str,
        *,
        name: str,
        address: str,
        target: str = "",
        outcome: AuditOutcome = "done",
        detail: str = "",
    ) -> None:
        """Note one act. Returns at once; an act is never refused because it cannot be noted."""
        self.counts[outcome] += 1
        if self.path is None or (outcome == "refused" and not self._refusals.take()):
            return
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                self._miss(1)
                return
            line = AuditLine(
                at=datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds"),
                act=clipped(act),
                outcome=outcome,
                name=clipped(name),
                address=clipped(address),
                target=clipped(target),
                detail=clipped(detail),
                suppressed=self._refusals.beyond(),
            )
            self._waiting.append(line)
            if self._writer is None:
                self._begin_writing()

    def _begin_writing(self) -> None:
        writer = threading.Thread(target=self._write_all, name="epoxy-audit", daemon=True)
        try:
            writer.start()
        except RuntimeError:  # no further thread is allowed; the next line tries again
            return
        self._writer = writer

    def close(self) -> None:
        """Wait for the last lines, but not for a disk that hangs."""
        writer = self._writer
        if writer is not None:
            writer.join(CLOSE_S)

    # In the thread.

    def _write_all(self) -> None:
        while True:
            with self._lock:
                lines, missing = list(self._waiting), self._unreported
                self._waiting.clear()
                if not lines:
                    self._writer = None
                    return
            lines[0] = msgspec.structs.replace(lines[0], lost=missing)
            try:
                self._append(b"".join([msgspec.json.encode(line) + b"\n" for line in lines]))
            except OSError as error:
                with self._lock:
                    self._miss(len(lines))
                if not self._failing:
                    log.error("the audit log cannot be written", extra={"file": str(self.path), "reason": str(error)})
                self._failing = True
            else:
                with self._lock:
                    self._unreported -= missing
                self._failing = False

    def _append(self, data: bytes) -> None:
        """Opened anew each time, so that the file may be moved away by other tools."""
        assert self.path is not None
        with suppress(FileNotFoundError):
            if os.stat(self.path).st_size + len(data) > self._max_bytes:
                os.replace(self.path, before(self.path))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(descriptor).st_size
        try:
            if os.write(descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):  # No half line, to which the next one would be joined.
                os.ftruncate(descriptor, size)
            raise
        finally:
            os.close(descriptor)

    def _miss(self, lines: int) -> None:
        self.lost += lines
        self._unreported += lines


def audit_of(settings: Settings) -> AuditLog:
    """A file that cannot be written is said at the start, and not with the first act that is missing in it."""
    path = settings.access.audit_file or settings.node.data_dir / AUDIT_FILE
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        log.error("the audit log cannot be written", extra={"file": str(path), "reason": "no such folder, or no right"})
    return AuditLog(path, settings.access.audit_mib << 20)


def before(path: Path) -> Path:
    """The file that was full."""
    return path.with_name(path.name + ".1")


def clipped(text: str) -> str:
    """No longer than a line can bear, without tokens, and valid UTF-8 whatever the client sent."""
    text = TOKEN.sub(f"{TOKEN_MARK}...", text)
    kept = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
    return kept.encode("utf-8", "replace").decode()
