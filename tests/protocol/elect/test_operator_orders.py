"""Orders of an operator: which are carried out, and that each is carried out once."""

import pytest
from msgspec.structs import replace

from epoxy.protocol.elect import operator_orders
from epoxy.protocol.elect.operator_orders import (
    FAILOVER,
    MAX_ORDERS,
    WINDOW_MS,
    Addressee,
    OperatorOrder,
    OrderDesk,
    proof_of,
)

SECRET, OLD = b"sixteen bytes or more", b"the one before, 16 bytes"
HERE = Addressee(cluster="c", agent="a", life="77")
NOW_MS = 1_800_000_000_000
ORDER = OperatorOrder(act=FAILOVER, target="b", time_ms=NOW_MS, nonce="n")


def give(
    desk: OrderDesk, order: OperatorOrder = ORDER, *, secret: bytes = SECRET, now_ms: int = NOW_MS, to: Addressee = HERE
) -> str | None:
    return desk.refusal(order, proof_of(secret, to, order), (SECRET, OLD), now_ms)


def test_an_order_is_carried_out_once() -> None:
    desk = OrderDesk(HERE)
    assert give(desk) is None
    assert give(desk) == "this order was given before"
    assert give(desk, replace(ORDER, nonce="m")) is None
    assert desk.refused == 1


def test_the_second_secret_is_accepted_too_and_a_third_is_not() -> None:
    assert give(OrderDesk(HERE), secret=OLD) is None
    assert "cluster.secret_file" in (give(OrderDesk(HERE), secret=b"a guess") or "")


@pytest.mark.parametrize("field", ["cluster", "agent", "life"])
def test_an_order_is_for_one_process_alone(field: str) -> None:
    assert "cluster.secret_file" in (give(OrderDesk(HERE), to=replace(HERE, **{field: "x"})) or "")


@pytest.mark.parametrize("field", ["act", "target", "nonce", "time_ms"])
def test_nothing_in_an_order_can_be_changed(field: str) -> None:
    changed = replace(ORDER, **{field: 1 if field == "time_ms" else "x"})
    assert OrderDesk(HERE).refusal(changed, proof_of(SECRET, HERE, ORDER), (SECRET,), NOW_MS) is not None


def test_words_cannot_be_moved_from_one_field_to_the_next() -> None:
    moved = replace(ORDER, act=FAILOVER + '","b', target="")
    assert proof_of(SECRET, HERE, moved) != proof_of(SECRET, HERE, replace(ORDER, act=FAILOVER, target='b","'))


@pytest.mark.parametrize(
    ("apart_ms", "words"), [(WINDOW_MS + 1_000, "31 s ahead of"), (-WINDOW_MS - 1_000, "31 s behind")]
)
def test_an_order_of_another_time_is_refused_with_the_difference(apart_ms: int, words: str) -> None:
    assert words in (give(OrderDesk(HERE), replace(ORDER, time_ms=NOW_MS + apart_ms)) or "")


@pytest.mark.parametrize("apart_ms", [-WINDOW_MS, WINDOW_MS])
def test_clocks_may_differ_by_the_window(apart_ms: int) -> None:
    assert give(OrderDesk(HERE), replace(ORDER, time_ms=NOW_MS + apart_ms)) is None


def test_a_repetition_is_refused_for_ever_even_if_the_clock_is_set_back() -> None:
    desk = OrderDesk(HERE)
    assert give(desk) is None
    later_ms = NOW_MS + 2 * WINDOW_MS
    assert "behind" in (give(desk, now_ms=later_ms) or "")
    assert give(desk, replace(ORDER, nonce="later", time_ms=later_ms), now_ms=later_ms) is None
    assert list(desk._seen) == ["later"], "forgotten"
    assert give(desk) == "this order was given before", "the clock is back where it was"


def test_what_is_remembered_is_limited() -> None:
    desk = OrderDesk(HERE)
    for number in range(MAX_ORDERS):
        assert give(desk, replace(ORDER, nonce=str(number))) is None
    assert "more than 256 orders" in (give(desk) or "")
    assert len(desk._seen) == MAX_ORDERS
    after_ms = NOW_MS + WINDOW_MS + 1
    assert give(desk, replace(ORDER, nonce="later", time_ms=after_ms), now_ms=after_ms) is None
    assert len(desk._seen) == 1


def test_a_desk_that_forgets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_orders, "is_repeated", lambda *_: False)
    with pytest.raises(AssertionError):
        test_an_order_is_carried_out_once()
