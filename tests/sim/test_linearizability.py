"""The checker against literal histories, good and bad, and against long ones."""

import random

import msgspec
import pytest

from epoxy_sim.history import (
    Absent,
    Delete,
    Failed,
    Found,
    Immutable,
    Mismatch,
    Missing,
    Operation,
    Put,
    Read,
    Reserve,
    Same,
    Unknown,
)
from epoxy_sim.linearizability import Linearizable, NotLinearizable, Undecided, check
from epoxy_sim.register import Register
from tests.sim.histories import (
    A,
    B,
    C,
    Row,
    State,
    draw_kind,
    explains,
    history,
    judge,
    lost,
    oracle,
    read,
    retold,
    rule,
    told,
    won,
)

PUT_A, PUT_B, PUT_C = Put(value=A), Put(value=B), Put(value=C)


TAKE_A, TAKE_B = Reserve(value=A), Reserve(value=B)


GOOD: dict[str, list[Row]] = {
    "nothing but a read": [read(0, 1, None, 0)],
    "write then read": [won(PUT_A, 0, 1, 1), read(2, 3, A, 1)],
    "a read beside a write sees the old": [won(PUT_A, 0, 9, 1), read(1, 8, None, 0)],
    "a read beside a write sees the new": [won(PUT_A, 0, 9, 1), read(1, 8, A, 1)],
    "reads beside a write see old, then new": [won(PUT_A, 0, 9, 1), read(1, 2, None, 0), read(3, 4, A, 1)],
    "equal times overlap": [won(PUT_A, 0, 5, 1), read(5, 6, None, 0)],
    "two writes, made against the order of invocation": [won(PUT_A, 0, 9, 2), won(PUT_B, 1, 8, 1), read(10, 11, A, 2)],
    "one winner, one loser": [won(TAKE_A, 0, 9, 1), told(TAKE_B, 0, 9, lost(A, 1))],
    "an equal value that is not mine": [won(TAKE_A, 0, 9, 1), told(TAKE_A, 0, 9, Same(version=1))],
    "reserve meets a mutable value": [won(PUT_A, 0, 1, 1), told(TAKE_B, 2, 3, lost(A, 1, mutable=True))],
    "reserve meets an equal mutable value": [
        won(PUT_A, 0, 1, 1),
        told(TAKE_A, 2, 3, Same(version=1)),
        read(4, 5, A, 1),
    ],
    "put and delete meet an immutable key": [
        won(TAKE_A, 0, 1, 1),
        told(PUT_B, 2, 3, Immutable(version=1)),
        told(Put(value=B, if_version=7), 2, 3, Immutable(version=1)),
        told(Delete(), 2, 3, Immutable(version=1)),
        read(4, 5, A, 1, mutable=False),
    ],
    "compare-and-set over the expected version": [won(PUT_A, 0, 1, 1), won(Put(value=B, if_version=1), 2, 3, 2)],
    "compare-and-set creates": [won(Put(value=A, if_version=0), 0, 1, 1), read(2, 3, A, 1)],
    "two compare-and-sets, one succeeds": [
        won(Put(value=A, if_version=0), 0, 9, 1),
        told(Put(value=B, if_version=0), 0, 9, Mismatch(version=1)),
    ],
    "a mismatch may report a version that lags": [
        won(PUT_A, 0, 1, 1),
        won(PUT_B, 2, 3, 2),
        told(Put(value=C, if_version=5), 4, 5, Mismatch(version=1)),
    ],
    "a mismatch on a key that became immutable": [
        won(TAKE_A, 0, 1, 1),
        told(Put(value=B, if_version=0), 2, 3, Mismatch(version=0)),
    ],
    "a delete with the wrong version": [won(PUT_A, 0, 1, 1), told(Delete(if_version=2), 2, 3, Mismatch(version=1))],
    "a delete with the right version": [won(PUT_A, 0, 1, 1), won(Delete(if_version=1), 2, 3, 2), read(4, 5, None, 2)],
    "delete of nothing": [told(Delete(), 0, 1, Missing(version=0)), read(2, 3, None, 0)],
    "delete twice": [won(PUT_A, 0, 1, 1), won(Delete(), 2, 3, 2), told(Delete(), 4, 5, Missing(version=2))],
    "a tombstone has a version": [won(PUT_A, 0, 1, 1), won(Delete(), 2, 3, 2), read(4, 5, None, 2)],
    "put over a tombstone": [won(PUT_A, 0, 1, 1), won(Delete(), 2, 3, 2), won(Put(value=B, if_version=2), 4, 5, 3)],
    "reserve after delete": [
        won(PUT_A, 0, 1, 1),
        won(Delete(), 2, 3, 2),
        won(TAKE_B, 4, 5, 3),
        read(6, 7, B, 3, mutable=False),
        told(PUT_C, 8, 9, Immutable(version=3)),
    ],
    "an unknown write shows later": [told(PUT_A, 0, 1, Unknown()), read(2, 3, None, 0), read(4, 5, A, 1)],
    "an unknown write never shows": [told(PUT_A, 0, 1, Unknown()), read(2, 3, None, 0), won(PUT_B, 4, 5, 1)],
    "a pending write shows": [told(PUT_A, 0, None, Unknown()), read(2, 3, A, 1)],
    "unknown writes fill a gap": [
        told(PUT_A, 0, 1, Unknown()),
        told(PUT_B, 0, 1, Unknown()),
        told(PUT_C, 0, 1, Unknown()),
        read(2, 3, B, 3),
    ],
    "an unknown delete explains the tombstone": [
        won(PUT_A, 0, 1, 1),
        told(Delete(), 2, 3, Unknown()),
        read(9, 10, None, 2),
    ],
    "an unknown delete lets a reserve win": [
        won(PUT_A, 0, 1, 1),
        told(Delete(), 0, None, Unknown()),
        won(TAKE_B, 2, 3, 3),
    ],
    "an unknown reserve explains the loser": [told(TAKE_A, 0, 1, Unknown()), told(TAKE_B, 2, 3, lost(A, 1))],
    "an unknown compare-and-set shows at its version": [
        told(Put(value=B, if_version=1), 0, 1, Unknown()),
        won(PUT_A, 2, 3, 1),
        read(4, 5, B, 2),
    ],
    "an unknown write explains a mismatch": [
        told(PUT_A, 0, 1, Unknown()),
        told(Put(value=B, if_version=0), 2, 3, Mismatch(version=1)),
    ],
    "equal values written twice": [
        told(PUT_A, 0, 1, Unknown()),
        told(PUT_A, 0, 1, Unknown()),
        won(PUT_B, 2, 3, 2),
        read(4, 5, A, 3),
    ],
    "only the compare-and-set can have made the first version": [
        told(PUT_A, 0, 1, Unknown()),
        told(Put(value=B, if_version=0), 0, 1, Unknown()),
        won(PUT_C, 2, 3, 3),
    ],
    "an unknown delete fills a gap on a key that was read as absent": [
        read(0, 1, None, 0),
        won(PUT_A, 2, 3, 1),
        told(Delete(), 4, 5, Unknown()),
        won(PUT_B, 6, 7, 3),
    ],
    "an unseen use of a value that is seen elsewhere": [
        told(PUT_A, 0, 1, Unknown()),
        told(PUT_A, 0, 1, Unknown()),
        read(2, 3, A, 1),
        won(PUT_B, 4, 5, 3),
    ],
    "a definite failure has no effect": [told(PUT_A, 0, 1, Failed()), read(2, 3, None, 0)],
    "an unknown read says nothing": [told(Read(), 0, None, Unknown()), won(PUT_A, 1, 2, 1)],
    "an optimistic read is not judged here": [
        won(PUT_A, 0, 1, 1),
        told(Read(linearizable=False), 2, 3, Absent(version=0)),
    ],
}


BAD: dict[str, list[Row]] = {
    "stale read": [won(PUT_A, 0, 1, 1), won(PUT_B, 2, 3, 2), read(4, 5, A, 1)],
    "stale read of nothing": [won(PUT_A, 0, 1, 1), read(2, 3, None, 0)],
    "lost update": [
        won(PUT_A, 0, 1, 1),
        won(Put(value=B, if_version=1), 2, 9, 2),
        won(Put(value=C, if_version=1), 2, 9, 2),
    ],
    "an acknowledged write is gone": [won(PUT_A, 0, 1, 1), won(PUT_B, 2, 3, 1)],
    "two winners": [won(TAKE_A, 0, 9, 1), won(TAKE_B, 0, 9, 1)],
    "two winners of different versions": [won(TAKE_A, 0, 9, 1), won(TAKE_B, 0, 9, 2)],
    "two winners with one value": [won(TAKE_A, 0, 9, 1), won(TAKE_A, 0, 9, 1)],
    "the winner lost": [won(TAKE_A, 0, 9, 1), told(TAKE_B, 0, 9, lost(C, 1))],
    "lost to nobody": [told(TAKE_A, 0, 1, lost(B, 1))],
    "lost to nothing": [told(TAKE_A, 0, 1, lost(None, 0, mutable=True))],
    "lost to a value called mutable": [won(TAKE_A, 0, 1, 1), told(TAKE_B, 2, 3, lost(A, 1, mutable=True))],
    "lost to an equal value": [won(TAKE_A, 0, 1, 1), told(TAKE_A, 2, 3, lost(A, 1))],
    "same as nothing": [told(TAKE_A, 0, 1, Same(version=0))],
    "same as another value": [won(TAKE_A, 0, 1, 1), told(TAKE_B, 2, 3, Same(version=1))],
    "same at another version": [won(TAKE_A, 0, 1, 1), told(TAKE_A, 2, 3, Same(version=2))],
    "the loser answered before the winner began": [told(TAKE_B, 0, 1, lost(A, 1)), won(TAKE_A, 2, 3, 1)],
    "value resurrected": [won(PUT_A, 0, 1, 1), won(Delete(), 2, 3, 2), read(4, 5, A, 1)],
    "value resurrected at a new version": [won(PUT_A, 0, 1, 1), won(Delete(), 2, 3, 2), read(4, 5, A, 3)],
    "version skipped": [won(PUT_A, 0, 1, 1), won(PUT_B, 2, 3, 3)],
    "first version skipped": [won(PUT_A, 0, 1, 2)],
    "version zero was won": [won(PUT_A, 0, 1, 0)],
    "reads flip": [
        won(PUT_A, 0, 1, 1),
        won(PUT_B, 2, 30, 2),
        read(3, 4, A, 1),
        read(5, 6, B, 2),
        read(7, 8, A, 1),
    ],
    "reads flip beside an unknown write": [told(PUT_A, 0, 1, Unknown()), read(2, 3, A, 1), read(4, 5, None, 0)],
    "the value of another version": [won(PUT_A, 0, 1, 1), won(PUT_B, 2, 3, 2), read(4, 5, A, 2)],
    "one version, two values": [
        told(PUT_A, 0, None, Unknown()),
        told(PUT_B, 0, None, Unknown()),
        read(1, 9, A, 1),
        read(1, 9, B, 1),
    ],
    "a read from the future": [read(0, 1, A, 1), won(PUT_A, 2, 3, 1)],
    "a read of what nobody wrote": [read(0, 1, A, 1)],
    "a read of a failed write": [told(PUT_A, 0, 1, Failed()), read(2, 3, A, 1)],
    "a put read as immutable": [won(PUT_A, 0, 1, 1), read(2, 3, A, 1, mutable=False)],
    "a reserve read as mutable": [won(TAKE_A, 0, 1, 1), read(2, 3, A, 1)],
    "an unknown write shows twice": [
        told(PUT_A, 0, 1, Unknown()),
        read(2, 3, A, 1),
        won(PUT_B, 4, 5, 2),
        read(6, 7, A, 3),
    ],
    "an unknown write shows before its invocation": [read(0, 1, A, 1), told(PUT_A, 2, None, Unknown())],
    "too few unknown writes for the gap": [
        told(PUT_A, 0, 1, Unknown()),
        told(PUT_B, 0, 1, Unknown()),
        read(2, 3, A, 3),
    ],
    "an unknown compare-and-set at the wrong version": [
        told(Put(value=A, if_version=1), 0, 1, Unknown()),
        read(2, 3, A, 1),
    ],
    "an unknown reserve over a live value": [won(PUT_A, 0, 1, 1), told(TAKE_B, 2, 3, Unknown()), read(4, 5, B, 2)],
    "an unknown delete of nothing": [told(Delete(), 0, 1, Unknown()), read(2, 3, None, 1)],
    "an unknown put over an immutable key": [won(TAKE_A, 0, 1, 1), told(PUT_B, 0, 1, Unknown()), read(2, 3, B, 2)],
    "immutable key overwritten": [won(TAKE_A, 0, 1, 1), won(PUT_B, 2, 3, 2)],
    "immutable key deleted": [won(TAKE_A, 0, 1, 1), won(Delete(), 2, 3, 2)],
    "immutable without a reserve": [won(PUT_A, 0, 1, 1), told(PUT_B, 2, 3, Immutable(version=1))],
    "delete refused as immutable without a reserve": [won(PUT_A, 0, 1, 1), told(Delete(), 2, 3, Immutable(version=1))],
    "reserve won over a live value": [won(PUT_A, 0, 1, 1), won(TAKE_B, 2, 3, 2)],
    "reserve over a tombstone restarts the versions": [
        won(PUT_A, 0, 1, 1),
        won(Delete(), 2, 3, 2),
        won(TAKE_B, 4, 5, 1),
    ],
    "a tombstone without a version": [won(PUT_A, 0, 1, 1), won(Delete(), 2, 3, 2), read(4, 5, None, 0)],
    "a mismatch that was a match": [
        won(PUT_A, 0, 1, 1),
        told(Put(value=B, if_version=1), 2, 3, Mismatch(version=0)),
    ],
    "a mismatch on the very version of an immutable key": [
        won(TAKE_A, 0, 1, 1),
        told(Put(value=B, if_version=1), 2, 3, Mismatch(version=0)),
    ],
    "a mismatch without an expectation": [told(PUT_A, 0, 1, Mismatch(version=1))],
    "a delete mismatch that was a match": [
        won(PUT_A, 0, 1, 1),
        told(Delete(if_version=1), 2, 3, Mismatch(version=0)),
    ],
    "compare-and-set won over another version": [won(PUT_A, 0, 1, 1), won(Put(value=B, if_version=0), 2, 3, 2)],
    "conditional delete won over another version": [won(PUT_A, 0, 1, 1), won(Delete(if_version=0), 2, 3, 2)],
    "missing although there": [won(PUT_A, 0, 1, 1), told(Delete(), 2, 3, Missing(version=1))],
    "missing at another version": [told(Delete(), 0, 1, Missing(version=1))],
    "delete of nothing was made": [won(Delete(), 0, 1, 1)],
    "an answer that does not fit the question": [told(PUT_A, 0, 1, Found(value=A, version=0, mutable=True))],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_is_explained(name: str) -> None:
    operations = history(*GOOD[name])
    verdict = judge(operations)
    assert isinstance(verdict, Linearizable), verdict.explain()
    assert explains(operations, verdict.order)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_refused(name: str) -> None:
    verdict = judge(history(*BAD[name]))
    assert isinstance(verdict, NotLinearizable)
    assert verdict.stuck


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_the_oracle_agrees_on_the_literal_histories(name: str) -> None:
    assert oracle(history(*(GOOD | BAD)[name])) == (name in GOOD)


# Size, limits and words.


def busy(dice: random.Random, size: int, clients: int, unknown_share: float) -> list[Operation]:
    """Clients that each wait for an answer before they ask again, on one key, executed at a moment within each call."""
    free = [0] * clients
    calls = []
    for i in range(size):
        client = min(range(clients), key=lambda client: free[client])
        invoked = free[client] + dice.randrange(1, 5)
        moment = invoked + dice.randrange(1, 50)
        free[client] = moment + dice.randrange(1, 50)
        calls.append((moment, invoked, free[client], dice.random() < unknown_share, b"%d" % (i * 10_000)))
    rows: list[Row] = []
    state: State = (0, None, True)
    for _, invoked, returned, unknown, value in sorted(calls):
        kind = draw_kind(dice, value, state[0])
        after, truth = rule(state, kind)
        if not unknown or dice.random() < 0.5:
            state = after
        rows.append((kind, invoked, returned, Unknown() if unknown else truth))
    return history(*rows)


@pytest.mark.parametrize("unknown_share", [0.0, 0.1, 0.5])
def test_a_long_busy_history_stays_cheap(unknown_share: float) -> None:
    operations = busy(random.Random(3), 1000, 8, unknown_share)
    verdict = judge(operations)
    assert isinstance(verdict, Linearizable), verdict.explain()
    assert verdict.explored < len(operations)
    assert explains(operations, verdict.order)


@pytest.mark.parametrize("unknown_share", [0.0, 0.1, 0.5])
def test_a_long_history_with_one_lie_is_refused_cheaply(unknown_share: float) -> None:
    operations = busy(random.Random(3), 1000, 8, unknown_share)
    index = max(i for i, operation in enumerate(operations) if isinstance(operation.outcome, Found))
    seen = operations[index].outcome
    assert isinstance(seen, Found)
    operations[index] = retold(operations[index], Found(value=b"lie", version=seen.version, mutable=True))
    verdict = judge(operations)
    if unknown_share == 0.5:
        assert isinstance(verdict, Undecided), "too much to guess, but never taken for good"
        return
    assert isinstance(verdict, NotLinearizable)
    assert verdict.explored < 20 * len(operations)


def test_the_limit_is_never_taken_for_good() -> None:
    operations = history(won(PUT_A, 0, 1, 1), read(2, 3, A, 1))
    assert check(operations, limit=1) == [Undecided(key=b"k", explored=1)]
    assert "undecided after 1 " in check(operations, limit=1)[0].explain()
    assert isinstance(check(operations, limit=2)[0], Linearizable)


def test_keys_are_judged_apart() -> None:
    first = history(*GOOD["write then read"])
    second = [msgspec.structs.replace(operation, key=b"other") for operation in history(*BAD["stale read"])]
    interleaved = [*first[:1], *second, *first[1:]]
    verdicts = check(interleaved)
    assert [(type(verdict), verdict.key) for verdict in verdicts] == [
        (Linearizable, b"k"),
        (NotLinearizable, b"other"),
    ]
    assert check([]) == []


def test_the_order_in_which_a_history_is_recorded_does_not_matter() -> None:
    for rows in GOOD.values():
        assert isinstance(judge(history(*reversed(rows))), Linearizable)
    for rows in BAD.values():
        assert isinstance(judge(history(*reversed(rows))), NotLinearizable)


def test_a_refusal_says_what_was_expected() -> None:
    verdict = judge(history(*BAD["stale read"], told(PUT_C, 0, None, Unknown())))
    assert isinstance(verdict, NotLinearizable)
    assert [operation.id for operation in verdict.prefix] == [1, 2]
    assert [operation.id for operation in verdict.stuck] == [3]
    assert verdict.register == Register(version=2, value=B, mutable=True)
    assert verdict.explain() == "\n".join(
        [
            "key b'k' is NOT linearizable (3 configurations explored)",
            "longest explained prefix:",
            "  #1 c1 put b'a' [0, 1] -> won version=1",
            "  #2 c2 put b'b' [2, 3] -> won version=2",
            "the register then: version 2, b'b' mutable",
            "none of these can follow:",
            "  #3 c3 read linearizable=True [4, 5] -> found b'a' version=1 mutable=True",
            "    the register would say: found b'b' version=2 mutable=True",
            "of unknown outcome and unused:",
            "  #4 c4 put b'c' [0, ...] -> unknown",
        ]
    )


def test_a_long_prefix_is_cut() -> None:
    writes = [won(PUT_A, 2 * i, 2 * i + 1, i + 1) for i in range(40)]
    explanation = judge(history(*writes, read(100, 101, B, 40))).explain()
    assert "(28 earlier ones)" in explanation
    assert explanation.count("won version=") == 12


def test_an_order_is_told_too() -> None:
    explanation = judge(history(*GOOD["write then read"])).explain()
    assert explanation.splitlines()[1:] == [
        "  #1 c1 put b'a' [0, 1] -> won version=1",
        "  #2 c2 read linearizable=True [2, 3] -> found b'a' version=1 mutable=True",
    ]
