"""What happens to a disk beside power cuts: bits and sectors change, files get shorter, tails read as zeros."""

from collections.abc import Callable
from random import Random

from epoxy.store.embedded.files import LOG_FOLDER, TREE_FILE, TREE_FOLDER
from epoxy.store.embedded.log import LOG_SUFFIX
from epoxy_sim.disk.ordered_map import OrderedMap, Rows
from epoxy_sim.disk.volume import SECTOR_BYTES, SimFile, SimFolder


def segments(data: SimFolder) -> list[SimFile]:
    """Of the log in a data directory, the oldest first."""
    log = data.now.get(LOG_FOLDER)
    names = sorted(log.now) if isinstance(log, SimFolder) else []
    found = [log.now[name] for name in names if isinstance(log, SimFolder) and name.endswith(LOG_SUFFIX)]
    return [node for node in found if isinstance(node, SimFile) and any(node.now)]


def written(segment: SimFile) -> int:
    """How far it has anything but zeros."""
    return len(segment.now.rstrip(b"\x00"))


def change(segment: SimFile, edit: Callable[[bytearray], None]) -> None:
    for contents in (segment.now, segment.synced):
        edit(contents)


def flip_bit(data: SimFolder, dice: Random) -> None:
    """One bit of a segment, as far as it is written; mostly of the newest."""
    segment = draw_segment(data, dice)
    place, bit = dice.randrange(written(segment)), 1 << dice.randrange(8)

    def edit(contents: bytearray) -> None:
        contents[place] ^= bit

    change(segment, edit)


def change_sector(data: SimFolder, dice: Random) -> None:
    """A sector of a segment holds something else."""
    segment = draw_segment(data, dice)
    begin = dice.randrange(written(segment)) // SECTOR_BYTES * SECTOR_BYTES
    other = dice.randbytes(SECTOR_BYTES)

    def edit(contents: bytearray) -> None:
        contents[begin : begin + SECTOR_BYTES] = other[: len(contents) - begin]

    change(segment, edit)


def zero_tail(data: SimFolder, dice: Random) -> None:
    """The last bytes that were written to the newest segment read as zeros."""
    segment = segments(data)[-1]
    end = written(segment)
    begin = max(0, end - dice.randint(1, end))

    def edit(contents: bytearray) -> None:
        contents[begin:end] = bytes(end - begin)

    change(segment, edit)


def shorten(data: SimFolder, dice: Random) -> None:
    """The newest segment ends earlier."""
    segment = segments(data)[-1]
    size = dice.randrange(len(segment.now))

    def edit(contents: bytearray) -> None:
        del contents[size:]

    change(segment, edit)


def rot_value(data: SimFolder, dice: Random) -> None:
    """One bit of a row in the tree, its checksum included."""
    file = tree_file(data)
    rows = file.rows.copy()
    key = dice.choice(rows.keys)
    value = bytearray(rows.values[key] or b"\x00")
    value[dice.randrange(len(value))] ^= 1 << dice.randrange(8)
    rows.values[key] = bytes(value)
    file.rows = rows


def rot_key(data: SimFolder, dice: Random) -> None:
    """One bit of a row's key, so that it stands for another."""
    file = tree_file(data)
    rows = file.rows.copy()
    key = dice.choice(rows.keys)
    changed = bytearray(key)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    value = rows.values[key]
    rows.delete(key)
    rows.put(bytes(changed), value)
    file.rows = rows


def tree_file(data: SimFolder) -> OrderedMap:
    tree = data.now.get(TREE_FOLDER)
    node = tree.now.get(TREE_FILE) if isinstance(tree, SimFolder) else None
    return node if isinstance(node, OrderedMap) else OrderedMap(Rows([b"none"], {b"none": b""}))


def draw_segment(data: SimFolder, dice: Random) -> SimFile:
    found = segments(data)
    return found[-1] if dice.random() < 0.7 else dice.choice(found)
