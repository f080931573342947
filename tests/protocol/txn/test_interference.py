"""The index of commands by key: what interferes with a command, and is not among its dependencies yet."""

import pytest

from epoxy.model.instances import NOTHING, Command, Deps, InstanceId
from epoxy.model.transactions import Get, Put, Txn
from epoxy.protocol.txn.interference import Interference
from tests.protocol.txn.cluster import read, write

ME = InstanceId(3, 1)


def both(*, writes: bytes, reads: bytes) -> Command:
    return Command(txns=(Txn(then=(Put(key=writes, value=b"v"), Get(key=reads))),))


def test_interference_by_key_and_floor() -> None:
    index = Interference()
    for slot in (1, 3, 2, 2):
        index.add(InstanceId(1, slot), write())
    index.add(InstanceId(2, 1), read())
    all_of_them = {InstanceId(1, 1), InstanceId(1, 2), InstanceId(1, 3), InstanceId(2, 1)}
    assert index.outside(ME, write(), NOTHING) == all_of_them
    assert index.outside(ME, read(), NOTHING) == all_of_them - {InstanceId(2, 1)}
    assert index.outside(ME, write(), Deps(upto=(InstanceId(1, 2),))) == {InstanceId(1, 3), InstanceId(2, 1)}
    assert index.outside(ME, write(b"other"), NOTHING) == frozenset()
    index.remove(InstanceId(1, 3), write())
    assert index.outside(ME, write(), Deps(upto=(InstanceId(1, 2),))) == {InstanceId(2, 1)}


@pytest.mark.parametrize(
    ("command", "interferes"),
    [
        (both(writes=b"x", reads=b"w"), True),
        (both(writes=b"r", reads=b"x"), True),
        (both(writes=b"x", reads=b"r"), False),
        (both(writes=b"w", reads=b"x"), True),
    ],
    ids=["reads what it writes", "writes what it reads", "reads what it reads", "writes what it writes"],
)
def test_one_of_two_must_write_the_shared_key(command: Command, interferes: bool) -> None:
    index = Interference()
    index.add(InstanceId(1, 1), both(writes=b"w", reads=b"r"))
    assert index.outside(ME, command, NOTHING) == ({InstanceId(1, 1)} if interferes else frozenset())


def test_a_command_does_not_interfere_with_itself_nor_with_what_is_named() -> None:
    index = Interference()
    for instance_id in (ME, InstanceId(1, 4)):
        index.add(instance_id, write())
    assert index.outside(ME, write(), NOTHING) == {InstanceId(1, 4)}
    assert index.outside(ME, write(), Deps(also=(InstanceId(1, 4),))) == frozenset()


def test_what_is_removed_leaves_nothing_behind() -> None:
    index = Interference()
    for slot in (1, 2):
        index.add(InstanceId(1, slot), write())
    index.remove(InstanceId(1, 9), write())
    assert index.outside(ME, write(), NOTHING) == {InstanceId(1, 1), InstanceId(1, 2)}
    for slot in (2, 1):
        index.remove(InstanceId(1, slot), write())
    assert index.outside(ME, write(), NOTHING) == frozenset()
    assert (index._writers, index._readers) == ({}, {})
