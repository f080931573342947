"""Fills a node's store while the node is down: `python -m benchmarks.suite.loader DATA_DIR KEYS`.

The pattern is a key that the node committed itself, with the mark in its name and in its value: every row it left is
written again for each number, through the store's own transactions. So what is loaded is what commits would have left,
whatever the layout is. Keys come in ascending order, which packs a tree as tightly as it gets.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.store import opened
from benchmarks.suite.job import DIGITS, MARK
from epoxy.codec.tuple import STAMP_BYTES
from epoxy.ports import Snapshot, Transaction

PAGE = 1000
"""Rows of one look, and keys of one transaction: large enough to forget what a transaction costs."""

USER_BYTES = 2
"""Behind the stamp of a changelog's row."""


class Row(Struct, frozen=True):
    """Cut at the mark. Without a mark in its key, a row is stamped: the store numbers it."""

    key: Sequence[bytes]
    value: Sequence[bytes]

    def write(self, tx: Transaction, digits: bytes) -> None:
        if len(self.key) > 1:
            tx.set(digits.join(self.key), digits.join(self.value))
        else:
            key, end = self.key[0], STAMP_BYTES + USER_BYTES
            tx.set_stamped(key[:-end], key[-USER_BYTES:], digits.join(self.value))


def pattern(view: Snapshot) -> list[Row]:
    """LookupError: nothing was committed with the mark in it."""
    rows = [Row(key.split(MARK), value.split(MARK)) for key, value in everything(view) if MARK in key + value]
    if not rows:
        raise LookupError("the store holds no pattern")
    return rows


def everything(view: Snapshot) -> Iterator[tuple[bytes, bytes]]:
    begin = b"\x00"
    while rows := view.range(begin, b"\xff", limit=PAGE):
        yield from rows
        begin = rows[-1][0] + b"\x00"


async def fill(folder: Path, keys: int) -> None:
    store = opened(folder)
    try:
        rows = pattern(store.durable())
        for start in range(0, keys, PAGE):
            tx = store.begin()
            for number in range(start, min(start + PAGE, keys)):
                digits = DIGITS % number
                for row in rows:
                    row.write(tx, digits)
            tx.commit()
            synced = asyncio.get_running_loop().create_future()
            store.when_durable(lambda synced=synced: synced.set_result(None))  # type: ignore[misc]
            await synced
    finally:
        store.close()


def main() -> None:
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(0.0005)
    asyncio.run(fill(Path(sys.argv[1]), int(sys.argv[2])))


if __name__ == "__main__":
    main()
