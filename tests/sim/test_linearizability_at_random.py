"""The checker against an oracle that tries every order, on histories drawn at random."""

import random
from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy_sim.history import (
    Absent,
    Add,
    Delete,
    Failed,
    Found,
    Immutable,
    Kind,
    Lost,
    Mismatch,
    Missing,
    NotAnInteger,
    Operation,
    Outcome,
    Put,
    Read,
    Reserve,
    Same,
    Unknown,
    Won,
)
from epoxy_sim.linearizability import Linearizable, check
from tests.sim.histories import A, B, C, Row, State, draw_kind, explains, history, judge, oracle, retold, rule

# Histories drawn at random: executed in sequence, with intervals spread around the moment of execution.


NUMBER = b"1"


VALUES = st.sampled_from([A, B, NUMBER])


EXPECTED = st.none() | st.integers(0, 3)


KINDS: st.SearchStrategy[Kind] = st.one_of(
    st.builds(Reserve, value=VALUES),
    st.builds(Put, value=VALUES, if_version=EXPECTED, returning=st.booleans()),
    st.builds(Delete, if_version=EXPECTED, returning=st.booleans()),
    st.builds(Add, amount=st.sampled_from([1, 2]), if_version=EXPECTED, returning=st.booleans()),
    st.builds(Read),
)


VERSIONS = st.integers(0, 3)


OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    *(st.builds(told, version=VERSIONS) for told in (Won, Same, Mismatch, Immutable, Missing, NotAnInteger, Absent)),
    st.builds(Won, version=VERSIONS, value=st.sampled_from([b"1", b"2", b"3"])),
    st.builds(Won, version=VERSIONS, previous=st.builds(Found, value=VALUES, version=VERSIONS, mutable=st.just(True))),
    st.builds(Lost, value=VALUES, version=VERSIONS, mutable=st.booleans()),
    st.builds(Found, value=VALUES, version=VERSIONS, mutable=st.booleans()),
    st.just(Failed()),
    st.just(Unknown()),
)


FATES = st.sampled_from(["told"] * 6 + ["unknown", "pending", "never", "failed"])


class Step(msgspec.Struct, frozen=True):
    """One operation of an execution: `never` and `failed` have no effect, `unknown` and `pending` have theirs."""

    kind: Kind
    fate: str
    before: int
    after: int


def steps(most: int) -> st.SearchStrategy[list[Step]]:
    spread = st.integers(0, 35)
    return st.lists(st.builds(Step, kind=KINDS, fate=FATES, before=spread, after=spread), max_size=most)


def executed(plan: Sequence[Step]) -> list[Operation]:
    rows: list[Row] = []
    state: State = (0, None, True)
    for moment, step in enumerate(plan, start=4):
        invoked, returned = 10 * moment - step.before, 10 * moment + step.after
        after, truth = rule(state, step.kind)
        if step.fate in ("told", "unknown", "pending"):
            state = after
        outcome = {"told": truth, "failed": Failed()}.get(step.fate, Unknown())
        rows.append((step.kind, invoked, None if step.fate == "pending" else returned, outcome))
    return history(*rows)


@given(steps(30))
def test_what_was_executed_in_sequence_is_accepted(plan: list[Step]) -> None:
    operations = executed(plan)
    for verdict in check(operations):
        assert isinstance(verdict, Linearizable), verdict.explain()
        assert explains(operations, verdict.order)


@given(st.data())
@settings(max_examples=300)
def test_the_oracle_agrees_on_spoiled_executions(data: st.DataObject) -> None:
    operations = executed(data.draw(steps(6).filter(bool)))
    index = data.draw(st.integers(0, len(operations) - 1))
    operations[index] = retold(operations[index], data.draw(OUTCOMES))
    assert isinstance(judge(operations), Linearizable) == oracle(operations)


@given(st.lists(st.tuples(KINDS, st.integers(0, 5), st.integers(5, 12), OUTCOMES), min_size=1, max_size=5))
@settings(max_examples=300)
def test_the_oracle_agrees_on_arbitrary_answers(rows: list[Row]) -> None:
    operations = history(*rows)
    assert isinstance(judge(operations), Linearizable) == oracle(operations)


def draw_plan(dice: random.Random, size: int, fates: Sequence[str]) -> list[Step]:
    return [
        Step(
            draw_kind(dice, b"%d" % i, dice.randrange(i + 1)),
            dice.choice(fates),
            dice.randrange(36),
            dice.randrange(36),
        )
        for i in range(size)
    ]


def gap(dice: random.Random) -> list[Operation]:
    """A few answers with versions between them that only writes of unknown outcome can have made."""
    rows: list[Row] = []
    for _ in range(dice.randrange(1, 5)):
        value, expected = dice.choice([A, B, C]), dice.choice([None, None, 0, 1, 2])
        kinds: list[Kind] = [
            Put(value=value, if_version=expected),
            Delete(if_version=expected),
            Reserve(value=value),
            Put(value=NUMBER, if_version=expected),
            Add(amount=dice.choice([1, 2]), if_version=expected),
        ]
        rows.append((dice.choices(kinds, [4, 2, 1, 1, 2])[0], dice.randrange(20), None, Unknown()))
    for _ in range(dice.randrange(1, 4)):
        value, version, invoked = dice.choice([A, B]), dice.randrange(1, 4), dice.randrange(5, 25)
        asked: list[tuple[Kind, Outcome]] = [
            (Read(), Found(value=value, version=version, mutable=dice.random() < 0.9)),
            (Read(), Absent(version=version - dice.randrange(2))),
            (Put(value=value), Won(version=version)),
            (Put(value=value, if_version=version), Mismatch(version=0)),
            (Add(amount=1), Won(version=version, value=b"%d" % dice.randrange(1, 4))),
            (Add(amount=1), NotAnInteger(version=version)),
            (Reserve(value=value), Same(version=version)),
        ]
        kind, outcome = dice.choice(asked)
        rows.append((kind, invoked, invoked + dice.randrange(10), outcome))
    return history(*rows)


def test_the_oracle_agrees_where_unknown_writes_fill_gaps() -> None:
    """The third fact of the search matters only here, and such histories are rare by chance."""
    dice, refused = random.Random(5), 0
    for _ in range(500):
        operations = gap(dice)
        accepted = isinstance(judge(operations), Linearizable)
        refused += not accepted
        assert accepted == oracle(operations)
    assert 100 < refused < 400


def test_a_swapped_value_is_mostly_noticed() -> None:
    dice, spoiled, refused = random.Random(11), 0, 0
    for _ in range(500):
        operations = executed(draw_plan(dice, 6, ["told"] * 5 + ["unknown"]))
        reads = [i for i, operation in enumerate(operations) if isinstance(operation.outcome, Found)]
        if not reads:
            continue
        index = dice.choice(reads)
        seen = operations[index].outcome
        assert isinstance(seen, Found)
        other = b"%d" % (int(seen.value) + dice.choice([-9, 9]))
        operations[index] = retold(operations[index], Found(value=other, version=seen.version, mutable=seen.mutable))
        spoiled += 1
        accepted = isinstance(judge(operations), Linearizable)
        refused += not accepted
        assert accepted == oracle(operations)
    assert spoiled > 200
    assert refused > 0.9 * spoiled
