"""The simulated file system answers as the real one does, and fails when it is told to."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import lmdb
import pytest

from epoxy.store.embedded.files import SYSTEM_FILES, Files, write_whole
from epoxy_sim.disk.sim_files import PowerCut, SimFiles
from epoxy_sim.disk.volume import Volume

NAMES = ["a", "b", "folder/c", "folder/d"]


def simulated(volume: Volume | None = None) -> SimFiles:
    return SimFiles(volume or Volume(), lambda: None)


def play(files: Files, root: Path, dice: Random) -> list[object]:
    """Files made, written, renamed and removed at random, and what there was to see."""
    seen: list[object] = []
    files.make_folder(root / "folder")

    def write(path: Path) -> None:
        file = files.create(path)
        files.allocate(file, 0, dice.randrange(1, 2000))
        for _ in range(3):
            seen.append(files.write(file, dice.randbytes(dice.randrange(1, 700)), dice.randrange(1500)))
        files.sync(file)
        files.close(file)

    def rename(path: Path) -> None:
        files.rename(path, path.parent / dice.choice("abcd"))

    def lock(path: Path) -> None:
        held = files.lock(path)
        assert held is not None
        seen.append(files.lock(path))
        files.overwrite(held, b"held")
        files.close(held)

    steps: list[Callable[[Path], object]] = [write, rename, lock, files.read, files.read_synced, files.size]
    steps += [files.remove, lambda path: write_whole(files, path, b"whole")]
    for _ in range(40):
        step, path = dice.choice(steps), root / dice.choice(NAMES)
        if files.exists(path) or step in (write, steps[-1]):
            seen.append(step(path))
        seen += [files.names(root), files.names(root / "folder"), [files.is_folder(root / name) for name in NAMES]]
        files.sync_folder(root)
    files.remove_folder(root / "folder")
    return [*seen, files.exists(root / "folder")]


@pytest.mark.parametrize("seed", range(3))
def test_it_answers_as_the_real_one_does(seed: int, tmp_path: Path) -> None:
    assert play(simulated(), Path("/"), Random(seed)) == play(SYSTEM_FILES, tmp_path, Random(seed))


@pytest.mark.parametrize("path", ["/none/file", "/none"])
def test_what_is_not_there_cannot_be_read(path: str) -> None:
    with pytest.raises(FileNotFoundError):
        simulated().read(Path(path))
    with pytest.raises(FileNotFoundError):
        simulated().names(Path(path))


def test_a_disk_fails_when_it_is_told_to() -> None:
    errors: list[OSError] = []
    files = SimFiles(Volume(), lambda: errors.pop() if errors else None)
    file = files.create(Path("/file"))
    environment = files.open_environment(Path("/"))
    for step in (
        lambda: files.write(file, b"x", 0),
        lambda: files.allocate(file, 0, 1),
        lambda: files.sync(file),
        lambda: files.sync_folder(Path("/")),
    ):
        errors.append(OSError(28, "full"))
        with pytest.raises(OSError, match="full"):
            step()
    errors.append(OSError(28, "full"))
    with pytest.raises(lmdb.Error), environment.begin(write=True) as transaction:
        transaction.put(b"a", b"1")
    assert environment.begin().get(b"a") is None


@pytest.mark.parametrize("changes", range(9))
def test_the_power_is_cut_after_so_many_changes(changes: int) -> None:
    """The change that it is cut in is done, and not synced; after it the process does nothing more."""
    volume = Volume()
    files = simulated(volume)
    files.fuse = changes

    def write_many() -> None:
        for number in range(9):
            write_whole(files, Path("/file"), b"%d" % number)

    with pytest.raises(PowerCut):
        write_many()
    with pytest.raises(PowerCut):
        files.make_folder(Path("/more"))
    volume.cut_power(0.0, Random(0))
    whole = changes // 5  # Made, written, synced, renamed, and its folder synced.
    found = simulated(volume)
    assert found.names(Path("/")) == (["file"] if whole else [])
    if whole:
        assert found.read(Path("/file")) == b"%d" % (whole - 1)


def test_syncs_of_a_lying_disk_do_nothing() -> None:
    volume = Volume()
    files = simulated(volume)
    write_whole(files, Path("/file"), b"1")
    volume.lying = True
    write_whole(files, Path("/file"), b"2")
    with files.open_environment(Path("/")).begin(write=True) as transaction:
        transaction.put(b"a", b"1")
    files.sync_folder(Path("/"))
    assert files.read(Path("/file")) == b"2"
    volume.cut_power(0.0, Random(0))
    found = simulated(volume)
    assert found.names(Path("/")) == ["file"]
    assert found.read(Path("/file")) == b"1"


def test_a_locked_folder_is_free_after_a_power_cut() -> None:
    volume = Volume()
    assert simulated(volume).lock(Path("/")) is not None
    assert simulated(volume).lock(Path("/")) is None
    volume.cut_power(0.0, Random(0))
    assert simulated(volume).lock(Path("/")) is not None
