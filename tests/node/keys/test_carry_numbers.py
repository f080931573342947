"""Each Carry is taken at most once, in whatever order they come."""

from itertools import permutations
from random import Random

from epoxy.model.messages import Carry
from epoxy.model.records import ProposalId
from epoxy.model.writes import Write
from epoxy.node.keys.carry_numbers import MAX_SENDERS, WINDOW, CarryNumbers
from epoxy.protocol.keys.carrying import packed
from epoxy.protocol.keys.operations import PendingWrite

HOME = 2
WRITES = (
    packed(PendingWrite(write=Write(key=b"k", value=b"x", mutable=True), proposal_id=ProposalId(HOME, 1), floor=0)),
)


class Seeded:
    def __init__(self) -> None:
        self._dice = Random(1)

    def uniform(self) -> float:
        return self._dice.random()

    def nonce(self) -> int:
        return self._dice.getrandbits(64)


def numbers() -> CarryNumbers:
    return CarryNumbers(Seeded())


def carry(number: int, receiver: int, sender: int = 7) -> Carry:
    return Carry(key=b"k", epoch=1, sender=sender, receiver=receiver, number=number, writes=WRITES)


def takes(here: CarryNumbers, number: int, sender: int = 7) -> bool:
    request = carry(number, here.life, sender)
    return here.is_for_me(HOME, request) and here.is_new(HOME, request)


def test_numbers_rise() -> None:
    here = numbers()
    assert [here.next() for _ in range(3)] == [1, 2, 3]


def test_each_is_taken_once_in_any_order() -> None:
    for order in permutations((1, 2, 3, 5)):
        here = numbers()
        assert all(takes(here, number) for number in order)
        assert not any(takes(here, number) for number in order)
        assert takes(here, 4), "not sent here before"


def test_one_older_than_the_window_may_have_been_taken() -> None:
    here = numbers()
    assert takes(here, WINDOW + 5)
    assert takes(here, 6)
    assert not takes(here, 6)
    assert not takes(here, 5)
    assert takes(here, 3 * WINDOW)
    assert not takes(here, WINDOW + 5)


def test_senders_have_numbers_of_their_own() -> None:
    here = numbers()
    assert takes(here, 1, sender=7)
    assert takes(here, 1, sender=8)
    assert not takes(here, 1, sender=7)


def test_only_this_life_takes_it() -> None:
    here = numbers()
    assert not here.is_for_me(HOME, carry(1, receiver=0))
    assert not here.is_for_me(HOME, carry(1, receiver=here.life + 1))


def test_with_too_many_senders_a_new_life_begins() -> None:
    here = numbers()
    first = here.life
    for sender in range(MAX_SENDERS):
        assert takes(here, 1, sender=sender)
    again = carry(1, first, sender=MAX_SENDERS)
    assert not here.is_for_me(HOME, again)
    assert here.life != first
    assert not here.is_for_me(HOME, carry(1, first, sender=0)), "its number is forgotten"


def test_the_life_of_another_replica_is_as_it_told_last() -> None:
    here = numbers()
    assert here.life_of(3, 1) == 0
    here.met(3, 1, 99)
    assert here.life_of(3, 1) == here.life_of(3, 2) == 99
    here.met(3, 1, 100)
    assert here.life_of(3, 1) == here.life_of(3, 2) == 100


def test_processes_of_one_datacenter_have_lives_of_their_own() -> None:
    here = numbers()
    here.met(3, 1, 99)
    here.met(3, 2, 100)
    here.met(3, 1, 99)
    assert (here.life_of(3, 1), here.life_of(3, 2)) == (99, 100)
