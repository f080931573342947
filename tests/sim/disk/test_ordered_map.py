"""The ordered map does what LMDB does."""

from pathlib import Path
from random import Random

import lmdb
import pytest

from epoxy.store.embedded.files import TreeCursor, TreeEnvironment
from epoxy_sim.disk.ordered_map import MapEnvironment, OrderedMap, Rows

KEYS = [b"%d" % number for number in range(30)] + [b"k" * 511]


def simulated(file: OrderedMap | None = None) -> MapEnvironment:
    return MapEnvironment("/tree", file or OrderedMap(), lambda commit: commit(False))


def looks(cursor: TreeCursor, key: bytes) -> list[object]:
    """What a cursor says on its way from a key."""
    seen: list[object] = [cursor.set_range(key), cursor.key(), cursor.prev(), cursor.key()]
    cursor.set_range(key)
    seen.append([row for _, row in zip(range(3), cursor.iternext(), strict=False)])
    cursor.set_range(key)
    seen.append([row for _, row in zip(range(3), cursor.iterprev(), strict=False)])
    seen += [cursor.last(), cursor.key()]
    return seen


def play(environment: TreeEnvironment, dice: Random) -> list[object]:
    """A history of transactions, some of them abandoned, and what they saw."""
    seen: list[object] = []
    held = []
    for _ in range(60):
        try:
            with environment.begin(write=True) as transaction:
                for _ in range(dice.randrange(5)):
                    transaction.put(dice.choice(KEYS), b"v%d" % dice.randrange(100))
                transaction.cursor().putmulti([(dice.choice(KEYS), b"m") for _ in range(dice.randrange(3))])
                seen.append(transaction.delete(dice.choice(KEYS)))
                seen.append(transaction.get(dice.choice(KEYS)))
                seen.append(looks(transaction.cursor(), dice.choice(KEYS)))
                if dice.random() < 0.3:
                    raise ValueError
        except ValueError:
            pass
        if dice.random() < 0.2:
            held.append(environment.begin())
        seen.append(list(environment.begin().cursor().iternext()))
    seen += [list(view.cursor().iterprev()) for view in held]
    return seen


@pytest.mark.parametrize("seed", range(5))
def test_it_answers_as_lmdb_does(seed: int, tmp_path: Path) -> None:
    real = lmdb.open(str(tmp_path), max_readers=200)
    assert play(simulated(), Random(seed)) == play(real, Random(seed))
    real.close()


@pytest.mark.parametrize("key", [b"", b"k" * 512])
def test_keys_have_lmdbs_limits(key: bytes) -> None:
    with pytest.raises(lmdb.BadValsizeError):
        simulated().begin().get(key)


def test_a_commit_that_cannot_be_synced_did_not_happen() -> None:
    file = OrderedMap()

    def fail(_: object) -> None:
        raise lmdb.Error("planted")

    with pytest.raises(lmdb.Error), MapEnvironment("/tree", file, fail).begin(write=True) as transaction:
        transaction.put(b"a", b"1")
    assert file.rows.values == {}


def test_a_power_cut_takes_back_the_last_commits_of_a_lying_disk_alone() -> None:
    found = set()
    for seed in range(50):
        file = OrderedMap(Rows([b"0"], {b"0": b""}))
        for number in range(1, 4):
            key = b"%d" % number
            file.commit(Rows([key], {key: b""}), lying=number > 1)
        file.cut_power(0.5, Random(seed))
        found.add(file.rows.keys[0])
    assert found == {b"1", b"2", b"3"}
