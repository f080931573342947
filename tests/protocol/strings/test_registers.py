"""Registers: what is left of a value and its time to live after each change."""

from epoxy.model.records import MAX_TTL_MS
from epoxy.model.strings import KEEP, PERSIST, Register
from epoxy.protocol.strings.registers import Registers, RegisterView


def registers(value: bytes | None = b"v", remaining_ms: int | None = None) -> Registers:
    return Registers({b"k": Register(value=value, remaining_ms=remaining_ms)}, now_ms=1000)


def result(changed: Registers) -> tuple[bytes | None, int, bool]:
    evaluated = changed.views[b"k"].evaluated()
    return evaluated.value, evaluated.expiry, evaluated.changed


def test_nothing_done_is_nothing_changed() -> None:
    assert result(registers(remaining_ms=5)) == (b"v", KEEP, False)


def test_an_equal_value_is_a_change_and_ends_the_expiry_unless_it_is_kept() -> None:
    overwritten, kept = registers(remaining_ms=5), registers(remaining_ms=5)
    overwritten.put(b"k", b"v")
    assert result(overwritten) == (b"v", PERSIST, True)
    assert overwritten.remaining_ms(b"k") is None
    kept.put(b"k", b"v", keep_expiry=True)
    assert result(kept) == (b"v", KEEP, True)
    assert kept.remaining_ms(b"k") == 5


def test_a_key_that_is_made_again_does_not_get_back_the_expiry_it_had() -> None:
    changed = registers(remaining_ms=5)
    assert changed.delete(b"k")
    changed.put(b"k", b"w", keep_expiry=True)
    assert result(changed) == (b"w", PERSIST, True)
    assert changed.remaining_ms(b"k") is None


def test_a_new_time_is_seen_by_later_commands_and_has_a_limit() -> None:
    changed = registers()
    changed.expire(b"k", 70)
    assert changed.remaining_ms(b"k") == 70
    assert result(changed) == (b"v", 70, True)
    changed.expire(b"k", MAX_TTL_MS + 1)
    assert result(changed) == (b"v", MAX_TTL_MS, True)


def test_a_time_that_is_over_deletes() -> None:
    for ttl_ms in (0, -1):
        changed = registers(remaining_ms=5)
        changed.expire(b"k", ttl_ms)
        assert result(changed) == (None, PERSIST, True)


def test_what_has_no_expiry_is_not_changed_by_persist() -> None:
    without, with_one = registers(), registers(remaining_ms=0)
    assert not without.persist(b"k")
    assert result(without) == (b"v", KEEP, False)
    assert with_one.persist(b"k")
    assert result(with_one) == (b"v", PERSIST, True)


def test_a_key_that_comes_and_goes_has_not_changed() -> None:
    changed = registers(value=None)
    assert not changed.delete(b"k")
    changed.put(b"k", b"v")
    assert result(changed) == (b"v", PERSIST, True)
    assert changed.delete(b"k")
    assert result(changed)[0::2] == (None, False)


def test_an_absent_key_has_no_time_left_whatever_its_tombstone_says() -> None:
    assert RegisterView(Register(value=None, remaining_ms=9)).remaining_ms is None
