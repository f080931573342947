"""Logs: one line for each unusual event, none on the hot path. Text on a terminal, JSON otherwise."""

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

import msgspec

LOGGER = logging.getLogger("epoxy")

TRACEBACKS = 5
TRACEBACKS_S = 60.0
"""Tracebacks of one kind in that time: enough to see that it recurs, and 15 MB a day at most."""

PROGRESS_S = 5.0
"""Between two lines about long work."""

MAX_KINDS = 1000
"""Kinds that are counted. There are a few dozen: as many as places that log a failure."""

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class HumanFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        facts = " ".join(f"{name}={value}" for name, value in facts_of(record).items())
        line = f"{at} {record.levelname.lower():7} {record.getMessage()}"
        error = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{line}  {facts}{error}" if facts else line + error


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"at": at, "level": record.levelname.lower(), "event": record.getMessage()}
        line = {**line, **facts_of(record), **line}  # in this order, and no `extra` overwrites these
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        try:
            return msgspec.json.encode(line, enc_hook=str).decode()
        except UnicodeEncodeError:  # a path that is not UTF-8
            return json.dumps(line, default=str)


class LimitTracebacks(logging.Filter):
    """Lets a few tracebacks of one kind pass, then only counts them: a client that triggers a bug again and again must
    not fill the disk. A kind is the event and the type of the exception."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.exc_info or record.exc_info[0] is None:
            return True
        kind, now = (record.msg, record.exc_info[0].__name__), self._now()
        since, seen = self._kinds.get(kind, (now, 0))
        if now - since >= TRACEBACKS_S:
            if seen > TRACEBACKS:
                record.suppressed = seen - TRACEBACKS
            since, seen = now, 0
        if len(self._kinds) >= MAX_KINDS:
            self._kinds.clear()
        self._kinds[kind] = since, seen + 1
        return seen < TRACEBACKS


class ProgressLog:
    """Of long work: a line when it begins, one every few seconds, and one at its end."""

    def __init__(self, event: str, now: Callable[[], float] = time.monotonic) -> None:
        self._event = event
        self._now = now
        self._last_s: float | None = None

    def __call__(self, done: int, total: int) -> None:
        now_s = self._now()
        if self._last_s is None or now_s - self._last_s >= PROGRESS_S or done == total:
            self._last_s = now_s
            LOGGER.info(self._event, extra={"done": done, "of": total})


def facts_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields given as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in STANDARD}


def set_up(level: str = "info", stream: TextIO | None = None) -> None:
    stream = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HumanFormatter() if stream.isatty() else JsonFormatter())
    handler.addFilter(LimitTracebacks())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False
