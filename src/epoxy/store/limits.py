"""Limits of a transaction, for every driver. A larger one is refused before anything is written."""

from epoxy.model.records import MAX_KEY_BYTES, MAX_VALUE_BYTES

MAX_ROW_KEY_BYTES = 2 * MAX_KEY_BYTES + 64
"""A client's key in tuple encoding: a zero byte takes two, and the prefixes around it stay far below 64."""

MAX_ROW_VALUE_BYTES = MAX_VALUE_BYTES + 4096
"""A record is a client's value with its names and numbers; the largest, a changelog entry, repeats the key (1 KiB)."""

MAX_TRANSACTION_BYTES = 16 * MAX_ROW_VALUE_BYTES
"""One message writes the value at most twice. Sixteen leaves room for a learner's page, and bounds what one fsync
carries: 16 MiB take a slow disk (100 MB/s) a sixth of a second."""

MAX_ATTEMPTS = 16
"""Each failed attempt means that another transaction committed meanwhile. Sixteen in a row is a livelock."""

MAX_STAMPED = 1 << 16
"""Two of a stamp's ten bytes number the rows of one transaction."""

FIRST_RESERVED_KEY = b"\xff"
"""Keys from here on belong to the store itself. No tuple starts with this byte."""
