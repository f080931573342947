"""A writing process, killed with SIGKILL again and again: `python -m tests.store.crash --kills 1000 [--seed N]`.

The child commits numbered transactions on a real event loop with real threads and a real disk, and writes a number into
a pipe once it is durable. The parent kills it at a random moment, often during its start, and sometimes opens the store
itself to look. What is there must be the transactions 1 to n without a gap, each one whole, and n no smaller than
any number that came through the pipe.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from epoxy.model.errors import StoreFailed
from epoxy.ports import Snapshot, Transaction
from epoxy.store.buffer import scan
from epoxy.store.embedded.store import PAUSE_MS, EmbeddedStore
from tests.store import native

LOG_BYTES = 1 << 16
"""Small, so that a checkpoint is nearly always under way."""

WRITERS = 16
NUMBER_BYTES = 8
LONGEST_LIFE_MS = 60
LOOKS = 0.5
"""How often the parent opens the store between two children. If it does not, the next child starts from the crash."""

KILLS_OF_A_FOLDER = 100
"""The judge looks at everything each time, so a folder must not grow for ever."""

Acknowledge = Callable[[EmbeddedStore, Callable[[], None]], None]


def when_durable(store: EmbeddedStore, done: Callable[[], None]) -> None:
    store.when_durable(done)


def at_once(_: EmbeddedStore, done: Callable[[], None]) -> None:
    """The planted fault."""
    done()


class Violation(Exception):
    pass


def write_number(tx: Transaction, number: int) -> None:
    """Rows in three places, one of them with a key that the tree has to cut; the value grows now and then."""
    name = b"%012d" % number
    tx.set(b"a/" + name, name * (1 + number % 50))
    tx.set(b"long" * 150 + name, name)
    tx.clear(b"long" * 150 + b"%012d" % (number - 100))
    tx.add(b"count", 1)
    tx.set_stamped(b"log/", b"", name)


class Child:
    """Writers without end."""

    def __init__(self, folder: Path, pipe: int, acknowledge: Acknowledge) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._pipe = pipe
        self._acknowledge = acknowledge
        self._store = EmbeddedStore(
            folder,
            post=loop.call_soon_threadsafe,
            schedule=loop.call_soon,
            pause=partial(loop.call_later, PAUSE_MS / 1000),
            readers=loop,
            on_failure=give_up,
            log_bytes=LOG_BYTES,
        )
        self._number = last_number(self._store.durable())

    async def run(self) -> None:
        for _ in range(WRITERS):
            self._write()
        await self._loop.create_future()

    def _write(self) -> None:
        self._number += 1
        number = self._number
        self._store.transact(lambda tx: write_number(tx, number))
        self._acknowledge(self._store, lambda: self._written(number))

    def _written(self, number: int) -> None:
        os.write(self._pipe, number.to_bytes(NUMBER_BYTES, "big"))
        self._loop.call_soon(self._write)


async def live(folder: Path, pipe: int, acknowledge: Acknowledge) -> None:
    await Child(folder, pipe, acknowledge).run()


def give_up(error: StoreFailed) -> None:
    print(error, file=sys.stderr)
    os._exit(1)


def last_number(view: Snapshot) -> int:
    return max((int(key[2:]) for key, _ in view.range(b"a/", b"a0", limit=1, reverse=True)), default=0)


def one_life(folder: Path, life_ms: float, acknowledge: Acknowledge) -> int:
    """Let a child write for so long; the highest number it acknowledged, or 0."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            sys.setswitchinterval(0.0005)
            asyncio.run(live(folder, writing, acknowledge))
        except BaseException as error:
            print(f"the child: {error!r}", file=sys.stderr)
        os._exit(1)
    os.close(writing)
    time.sleep(life_ms / 1000)
    os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        heard = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        raise Violation("the child ended by itself")
    whole = len(heard) - len(heard) % NUMBER_BYTES
    numbers = (int.from_bytes(heard[at : at + NUMBER_BYTES], "big") for at in range(0, whole, NUMBER_BYTES))
    return max(numbers, default=0)


def judge(folder: Path, acknowledged: int) -> int:
    """Look at everything, and return the last number that is there."""
    store = EmbeddedStore(folder, post=ignore, schedule=ignore, on_failure=give_up, log_bytes=LOG_BYTES)
    view = store.durable()
    last = last_number(view)
    names = [b"%012d" % number for number in range(1, last + 1)]
    if last < acknowledged:
        raise Violation(f"{acknowledged} was acknowledged, {last} is the last there")
    if list(scan(view, b"a/", b"a0", 1000, False)) != [
        (b"a/" + name, name * (1 + number % 50)) for number, name in enumerate(names, start=1)
    ]:
        raise Violation("not all the rows of 1 to the last")
    if [value for _, value in scan(view, b"log/", b"log0", 1000, False)] != names:
        raise Violation("the stamped rows are not those of 1 to the last, in order")
    if [value for _, value in scan(view, b"long", b"lonh", 1000, True)] != names[-100:][::-1]:
        raise Violation("the long keys are not those of the last hundred")
    if int.from_bytes(view.get(b"count") or b"", "little") != last:
        raise Violation("a transaction was counted twice or not at all")
    store.close()
    return last


def ignore(_: Callable[[], None]) -> None:
    """The one who looks need not hear of the checkpoint that follows a start."""


def torment(kills: int, seed: int, acknowledge: Acknowledge = when_durable, folder: Path | None = None) -> int:
    """Kill so many children; how many transactions outlived them."""
    dice = random.Random(seed)
    return sum(
        one_folder(min(KILLS_OF_A_FOLDER, kills - done), dice, acknowledge, folder)
        for done in range(0, kills, KILLS_OF_A_FOLDER)
    )


def one_folder(kills: int, dice: random.Random, acknowledge: Acknowledge, folder: Path | None) -> int:
    home = Path(tempfile.mkdtemp(prefix="epoxy-crash-", dir=folder))
    try:
        acknowledged = 0
        for _ in range(kills):
            acknowledged = max(acknowledged, one_life(home, dice.uniform(0, LONGEST_LIFE_MS), acknowledge))
            if dice.random() < LOOKS:
                judge(home, acknowledged)
        return judge(home, acknowledged)
    finally:
        shutil.rmtree(home)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--folder", type=Path, help="on the disk to try (default: the system's temporary folder)")
    parser.add_argument("--plant", action="store_true", help="acknowledge before the sync: this must be found")
    parser.add_argument("--native", action="store_true", help="write frames as a compiled wheel does, without one")
    options = parser.parse_args()
    if options.native:
        native.install(Path(tempfile.mkdtemp(prefix="epoxy-native-")))
    started = time.monotonic()
    try:
        held = torment(options.kills, options.seed, at_once if options.plant else when_durable, options.folder)
    except Violation as violation:
        sys.exit(f"violated: {violation} (seed {options.seed}; the moments of the kills are the machine's)")
    seconds = time.monotonic() - started
    print(f"held: {options.kills} kills, {held} transactions, {seconds:.0f} s, seed {options.seed}")


if __name__ == "__main__":
    main()
