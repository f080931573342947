"""Planted faults are planted everywhere, and gone afterwards."""

from pathlib import Path

import pytest

from epoxy.model import ballot, cluster, quorum
from epoxy.model.ballot import Ballot
from epoxy.model.quorum import QuorumPolicy, Quorums
from epoxy.node.keys import replica
from epoxy.node.keys.replica import Replica
from epoxy.protocol.keys import acceptor, local, recovery
from epoxy.store.memory import MemoryStore
from epoxy_sim import patching
from epoxy_sim.keys.mutants import KeysMutant
from epoxy_sim.members import mutants as member_mutants
from epoxy_sim.members.mutants import MUTANTS
from epoxy_sim.patching import (
    BROKEN_RULES,
    Mutant,
    Mutants,
    Patch,
    always,
    applied,
    constant,
    holders,
    never,
    nothing,
    planted,
)


def always_two(replica_id: int, *_: Ballot) -> Ballot:
    return Ballot(2, replica_id)


def everybody(n: int, policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> Quorums:
    return Quorums(n=n, slow=n, fast=n, policy=policy)


def known_at_home() -> object:
    """Imported there by name."""
    return vars(local)["next_classic"]


SIMULATOR = Path(patching.__file__).parent

NEXT = Patch(ballot, "next_classic", always_two)
SIZES = Patch(quorum, "quorums", everybody)


def test_a_rule_is_broken_wherever_it_is_known_and_whole_again_afterwards() -> None:
    right = ballot.next_classic
    assert known_at_home() is right
    with applied((NEXT,)):
        assert ballot.next_classic is always_two
        assert known_at_home() is always_two
    assert ballot.next_classic is right
    assert known_at_home() is right


def test_callers_meet_the_broken_rule() -> None:
    with applied((SIZES,)):
        assert cluster.first_epoch((1, 2, 3)).quorums.slow == 3
    assert cluster.first_epoch((1, 2, 3)).quorums.slow == 2


def test_a_method_is_broken_in_its_class() -> None:
    store, told = MemoryStore(lambda _: None), list[str]()
    store.transact(lambda tx: tx.set(b"k", b"v"))

    def at_once(_: MemoryStore, __: object) -> None:
        told.append("at once")

    right = MemoryStore.when_durable
    with applied((Patch(MemoryStore, "when_durable", at_once),)):
        store.when_durable(lambda: None)
    store.when_durable(lambda: told.append("never"))
    assert told == ["at once"]
    assert MemoryStore.when_durable is right


def test_rules_are_whole_again_after_an_exception() -> None:
    rights = ballot.next_classic, quorum.quorums, known_at_home()
    with pytest.raises(ZeroDivisionError), applied((NEXT, SIZES)):
        raise ZeroDivisionError
    assert (ballot.next_classic, quorum.quorums, known_at_home()) == rights


def test_an_unknown_name_fails_loudly_and_leaves_nothing_broken() -> None:
    rights = ballot.next_classic, known_at_home()
    for wrong in (Patch(ballot, "no_such_rule", always_two), Patch(Replica, "no_such_method", always_two)):
        with pytest.raises(AttributeError, match="no_such"), applied((NEXT, wrong)):
            raise AssertionError("never reached")
    assert (ballot.next_classic, known_at_home()) == rights


def always_three(replica_id: int, *_: Ballot) -> Ballot:
    return Ballot(3, replica_id)


def test_of_two_patches_of_one_rule_the_last_counts_and_both_go() -> None:
    right = ballot.next_classic
    with applied((NEXT, Patch(ballot, "next_classic", always_three))):
        assert known_at_home() is always_three
    assert ballot.next_classic is right
    assert known_at_home() is right


def test_patches_nest() -> None:
    right = ballot.next_classic
    with applied((NEXT,)):
        with applied((Patch(ballot, "next_classic", always_three),)):
            assert known_at_home() is always_three
        assert known_at_home() is always_two
    assert known_at_home() is right


def test_nothing_planted_changes_nothing() -> None:
    before = dict(vars(acceptor))
    with planted(MUTANTS, None):
        assert vars(acceptor) == before


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_every_planted_fault_reaches_its_rule_and_goes_again(mutant: KeysMutant) -> None:
    """A mutant whose rule was renamed, or is held where nobody looks, would be no fault at all."""
    rules = [getattr(patch.owner, patch.name) for patch in mutant.patches]
    places = [holders(patch, rule) for patch, rule in zip(mutant.patches, rules, strict=True)]
    assert all(places)
    with planted(MUTANTS, mutant.name):
        for patch, held in zip(mutant.patches, places, strict=True):
            assert all(getattr(holder, name) is patch.broken for holder, name in held)
    for rule, held in zip(rules, places, strict=True):
        assert all(getattr(holder, name) is rule for holder, name in held)


def test_modules_of_broken_rules_keep_the_right_ones() -> None:
    held = holders(Patch(recovery, "choose", always_two), recovery.choose)
    assert (recovery, "choose") in held
    assert (member_mutants, "choose") not in held
    assert member_mutants.choose is recovery.choose


def test_every_module_with_broken_rules_is_known_by_its_name() -> None:
    modules = [path.relative_to(SIMULATOR) for path in SIMULATOR.rglob("*.py") if "@mutant(" in path.read_text()]
    assert modules
    assert all(path.stem.endswith(BROKEN_RULES) for path in modules)


def test_a_broken_rule_knows_what_it_replaces() -> None:
    known = Mutants(Mutant)

    @known.mutant(ballot, "next_classic", "one-ballot", "every ballot is the same", since=3)
    def two(replica_id: int, *_: Ballot) -> Ballot:
        return Ballot(2, replica_id)

    rule = Patch(ballot, "next_classic", two)
    assert known["one-ballot"] == Mutant(name="one-ballot", breaks="every ballot is the same", patches=(rule,), since=3)

    @known.also("one-ballot", Quorums, "f")
    def none_at_all(_: Quorums) -> int:
        return -1

    assert none_at_all(quorum.quorums(3)) == -1
    assert known["one-ballot"].since == 3
    with planted(known, "one-ballot"):
        assert known_at_home() is two
        assert quorum.quorums(3).f == -1
    assert quorum.quorums(3).f == 1


def test_a_table_may_begin_with_the_faults_of_another() -> None:
    first = Mutants(Mutant)
    first.mutant(acceptor, "commit", "a", "nothing is committed", NEXT)(nothing)
    both = Mutants(Mutant, first)
    both.mutant(acceptor, "step", "b", "nothing is answered")(nothing)
    assert (list(first), list(both)) == (["a"], ["a", "b"])
    assert first["a"].patches == (Patch(acceptor, "commit", nothing), NEXT)
    with pytest.raises(AssertionError, match="two faults are called a"):
        both.mutant(acceptor, "step", "a", "nothing is answered")(nothing)


def test_a_constant_rule_gives_one_answer_to_everything() -> None:
    assert [rule(1, 2, more=3) for rule in (nothing, never, always, constant(7))] == [None, False, True, 7]


def test_only_the_very_same_function_is_replaced() -> None:
    """A namesake elsewhere is another rule."""
    names = {name for _, name in holders(Patch(acceptor, "commit", always_two), acceptor.commit)}
    assert names == {"commit"}
    assert (replica, "Replica") not in holders(Patch(acceptor, "step", always_two), acceptor.step)
