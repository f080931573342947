"""Logs: one line for each unusual event, none on the hot path. For a person on a terminal, JSON otherwise."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import msgspec

LOGGER = logging.getLogger("epoxy")

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
        line = {**line, **facts_of(record), **line}  # in this order, and no fact takes the place of these
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        try:
            return msgspec.json.encode(line, enc_hook=str).decode()
        except UnicodeEncodeError:  # a path that is not UTF-8
            return json.dumps(line, default=str)


def facts_of(record: logging.LogRecord) -> dict[str, object]:
    """What was given as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in STANDARD}


def set_up(level: str = "info", stream: TextIO | None = None) -> None:
    stream = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HumanFormatter() if stream.isatty() else JsonFormatter())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False
