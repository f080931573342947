"""What creates, touches and expiries make of a key, and that the checker holds replicas to it."""

import pytest

from epoxy_sim.history import Add, Delete, Immutable, Kind, Lost, Mismatch, Missing, Outcome, Put, Touch, Unknown, Won
from epoxy_sim.linearizability import Linearizable, NotLinearizable, check
from epoxy_sim.register import EndsAt, Register, answer
from tests.sim.histories import history, read

HELD = Register(version=3, value=b"a", expiry=(1000, 2))


@pytest.mark.parametrize(
    ("kind", "value", "expiry"),
    [
        (Put(value=b"b"), b"b", None),
        (Put(value=b"b", ttl_ms=500), b"b", (500, 4)),
        (Put(value=b"b", keep_expiry=True), b"b", (1000, 2)),
        (Touch(ttl_ms=500), b"a", (500, 4)),
        (Touch(), b"a", None),
        (Delete(), None, None),
    ],
)
def test_expiries_are_given_kept_and_ended(kind: Kind, value: bytes | None, expiry: EndsAt | None) -> None:
    after, outcome = answer(HELD, kind)
    assert after == Register(version=4, value=value, expiry=expiry)
    assert outcome == Won(version=4)


def test_a_number_keeps_the_expiry_it_was_made_with() -> None:
    first, _ = answer(Register(), Add(amount=1, ttl_ms=60))
    assert first.expiry == (60, 1)
    second, _ = answer(first, Add(amount=1, ttl_ms=60))
    assert (second.value, second.expiry) == (b"2", (60, 1))


@pytest.mark.parametrize(
    ("register", "kind", "outcome"),
    [
        (HELD, Put(value=b"b", if_absent=True), Lost(value=b"a", version=3, mutable=True)),
        (Register(version=2), Touch(ttl_ms=5), Missing(version=2)),
        (HELD, Touch(ttl_ms=5, if_version=2), Mismatch(version=3)),
        (Register(version=1, value=b"a", mutable=False), Touch(), Immutable(version=1)),
        (
            Register(version=1, value=b"a", mutable=False),
            Put(value=b"b", if_absent=True),
            Lost(value=b"a", version=1, mutable=False),
        ),
    ],
)
def test_refusals_change_nothing(register: Register, kind: Kind, outcome: Outcome) -> None:
    assert answer(register, kind) == (register, outcome)


def test_an_end_explains_what_no_client_did() -> None:
    """From the moment on at which it is due."""
    put, gone = (Put(value=b"a", ttl_ms=5), 1, 2, Won(version=1)), read(5, 6, None, 2)
    assert isinstance(check(history(put, gone, (Delete(if_version=1), 4, None, Unknown())))[0], Linearizable)
    assert isinstance(check(history(put, gone, (Delete(if_version=1), 7, None, Unknown())))[0], NotLinearizable)
    assert isinstance(check(history(put, gone))[0], NotLinearizable)


def test_an_order_must_explain_the_expiries_that_replicas_hold() -> None:
    operations = history(
        (Put(value=b"a", ttl_ms=5), 1, 2, Won(version=1)), (Put(value=b"b", keep_expiry=True), 3, 4, Won(version=2))
    )
    assert isinstance(check(operations, expiries={b"k": {1: (5, 1), 2: (5, 1)}})[0], Linearizable)
    assert isinstance(check(operations, expiries={b"k": {2: (5, 2)}})[0], NotLinearizable)
    assert isinstance(check(operations, expiries={b"k": {2: None}})[0], NotLinearizable)


def test_unknown_writes_with_other_expiries_are_not_alike() -> None:
    """Either may have taken effect: what a replica holds tells which."""
    unknown = [(Touch(ttl_ms=ttl_ms), 3, None, Unknown()) for ttl_ms in (7, 8)]
    operations = history((Put(value=b"a"), 1, 2, Won(version=1)), *unknown, read(5, 6, b"a", 2))
    assert isinstance(check(operations, expiries={b"k": {2: (8, 2)}})[0], Linearizable)
    assert isinstance(check(operations, expiries={b"k": {2: (9, 2)}})[0], NotLinearizable)
