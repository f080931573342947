"""A writing process whose power is cut again and again: `python -m tests.store.power_cuts --cuts 1000 [--seed N]`.

The child of `crash.py`, with its data directory, under a shim that notes every change of the disk and every sync
(`power/shim.c`), and that kills it at a random one of them. The parent then makes the directory what a power cut may
have left: what was not synced is torn at sectors, reordered and lost, names included. The next child starts on that.
What was acknowledged must be there, whole and in order; `crash.py` judges.
"""

import argparse
import asyncio
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from epoxy.model.errors import StoreError
from epoxy.store.embedded import files
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.files import SystemFiles
from epoxy.store.embedded.log import LOG_SUFFIX
from tests.store import crash, native
from tests.store.crash import NUMBER_BYTES, Violation
from tests.store.power.replay import NoteKind, Replay, notes

SOURCE = Path(__file__).parent / "power" / "shim.c"
SHIM = "EPOXY_POWER_SHIM"
"""Set in the process that runs under the shim, to its path."""

REPLICA = 1
MOST_NOTES = 400
"""A start makes about thirty, a commit three, a checkpoint some fifty."""

FIRST_CUTS, FIRST_NOTES = 3, 60
"""The first lives of a directory are so short: it is being made, or has just been."""

CUTS_OF_A_FOLDER = 25
"""The judge looks at everything each time, so a folder must not grow for ever."""

LONGEST_LIFE_S = 60
"""A child that has made too few changes by then hangs."""

FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
"""Real syncs are not needed: the journal says what they would have kept."""


def build(folder: Path) -> Path:
    """The shim, as a library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("power cuts need a C compiler (cc or gcc) for their shim, and there is none here")
    library = folder / "power.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", library, SOURCE, "-lpthread"],
        check=True,
    )
    return library


# Planted faults: what the child does wrong.


def early_acknowledgement() -> crash.Acknowledge:
    return crash.at_once


def no_sync_of_names() -> crash.Acknowledge:
    """A new segment of the log has a name that is not synced."""
    real = SystemFiles.sync_folder

    def forgetful(disk: SystemFiles, folder: Path) -> None:
        if folder.name != "log":
            real(disk, folder)

    patch.object(SystemFiles, "sync_folder", forgetful).start()
    return crash.when_durable


def no_sync_of_frames() -> crash.Acknowledge:
    """The log is written without O_DSYNC."""
    real = SystemFiles.create

    def unsynced(disk: SystemFiles, path: Path) -> int:
        os.close(real(disk, path))
        return os.open(path, os.O_RDWR)

    patch.object(SystemFiles, "create", unsynced).start()
    return crash.when_durable


def log_goes_first() -> crash.Acknowledge:
    """A segment is removed before its rows are in the tree."""
    real = SystemFiles.rename

    def forgetful(disk: SystemFiles, path: Path, to: Path) -> None:
        real(disk, path, to)
        for name in sorted(disk.names(to.parent))[:-1]:
            if to.suffix == LOG_SUFFIX and name.endswith(LOG_SUFFIX):
                disk.remove(to.parent / name)

    patch.object(SystemFiles, "rename", forgetful).start()
    return crash.when_durable


def no_draft_of_the_tree() -> crash.Acknowledge:
    """LMDB's file has its name before its first pages are synced."""
    patch.object(files, "make_tree_file", lambda _: None).start()
    return crash.when_durable


PLANTED: dict[str, Callable[[], crash.Acknowledge]] = {
    "acknowledges-early": early_acknowledgement,
    "names-not-synced": no_sync_of_names,
    "frames-not-synced": no_sync_of_frames,
    "log-goes-first": log_goes_first,
    "tree-named-first": no_draft_of_the_tree,
}


# Lives


async def live(disk: Path, pipe: int, acknowledge: crash.Acknowledge) -> None:
    with DataDir.open(disk / "data", replica=REPLICA, name="power cuts"):
        await crash.Child(disk / "data", pipe, acknowledge).run()


def one_life(disk: Path, journal: Path, count: int, planted: str | None) -> None:
    """A child that is killed at its n-th change of the disk."""
    pipe, other_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(pipe)
            shim = ctypes.CDLL(os.environ[SHIM])
            shim.power_begin.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_long]
            null = os.open(os.devnull, os.O_WRONLY)
            acknowledge = PLANTED[planted]() if planted else crash.when_durable
            sys.setswitchinterval(0.0005)
            signal.alarm(LONGEST_LIFE_S)
            assert shim.power_begin(bytes(disk), bytes(journal), null, count) == 0
            asyncio.run(live(disk, null, acknowledge))
        except BaseException as error:
            os.write(other_end, repr(error).encode())
        os._exit(1)
    os.close(other_end)
    with os.fdopen(pipe, "rb") as errors:
        reason = errors.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        raise Violation(f"the child ended by itself: {reason}")
    if os.WTERMSIG(status) != signal.SIGKILL:
        raise Violation(f"the child hung for {LONGEST_LIFE_S} s")


def one_cut(disk: Path, journal: Path, most: int, dice: random.Random, planted: str | None) -> int:
    """A life of up to so many notes, and what a power cut leaves of it. The highest number it acknowledged, or 0."""
    replay, told = Replay(disk), 0
    journal.unlink(missing_ok=True)
    one_life(disk, journal, int(most * dice.random() ** 2), planted)
    for note in notes(journal.read_bytes()):
        replay.apply(note)
        if note.kind is NoteKind.TOLD:
            told = max(told, int.from_bytes(note.data[:NUMBER_BYTES], "big"))
    replay.volume.cut_power(dice.choice((0.0, dice.random(), 1.0)), dice)
    replay.write()
    return told


def judge(disk: Path, acknowledged: int) -> int:
    try:
        with DataDir.open(disk / "data", replica=REPLICA, name="judge"):
            return crash.judge(disk / "data", acknowledged)
    except StoreError as error:
        raise Violation(f"{acknowledged} was acknowledged, and the store is refused: {error}") from error


def torment(
    cuts: int, seed: int, planted: str | None = None, folder: Path | None = None, each: int = CUTS_OF_A_FOLDER
) -> int:
    """Cut the power so often, `each` times in one data directory; how many transactions outlived that."""
    dice = random.Random(seed)
    return sum(one_folder(min(each, cuts - done), dice, planted, folder) for done in range(0, cuts, each))


def one_folder(cuts: int, dice: random.Random, planted: str | None, folder: Path | None) -> int:
    home = Path(tempfile.mkdtemp(prefix="epoxy-power-", dir=folder or FAST))
    disk = home / "disk"
    disk.mkdir()
    try:
        acknowledged = 0
        for number in range(cuts):
            most = FIRST_NOTES if number < FIRST_CUTS else MOST_NOTES
            acknowledged = max(acknowledged, one_cut(disk, home / "journal", most, dice, planted))
            if dice.random() < crash.LOOKS:
                judge(disk, acknowledged)
        return judge(disk, acknowledged)
    finally:
        shutil.rmtree(home)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--each", type=int, default=CUTS_OF_A_FOLDER, help="so many of them in one data directory")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--folder", type=Path, help="where the directory is made (default: in memory, if it can be)")
    parser.add_argument("--plant", choices=sorted(PLANTED), help="a fault of the store: it must be found")
    parser.add_argument("--native", action="store_true", help="write frames as a compiled wheel does, without one")
    options = parser.parse_args()
    if SHIM not in os.environ:
        run_under_shim()
    if options.native:
        native.install(Path(os.environ[SHIM]).parent)
    started = time.monotonic()
    try:
        held = torment(options.cuts, options.seed, options.plant, options.folder, options.each)
    except Violation as violation:
        sys.exit(f"violated: {violation} (seed {options.seed}; how threads take turns is the machine's)")
    seconds = time.monotonic() - started
    print(f"held: {options.cuts} power cuts, {held} transactions, {seconds:.0f} s, seed {options.seed}")


def run_under_shim() -> None:
    """This command again, with the shim in front of the C library."""
    with tempfile.TemporaryDirectory(prefix="epoxy-shim-") as folder:
        library = build(Path(folder))
        environment = {**os.environ, SHIM: str(library), "LD_PRELOAD": str(library)}
        command = [sys.executable, "-m", "tests.store.power_cuts", *sys.argv[1:]]
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
