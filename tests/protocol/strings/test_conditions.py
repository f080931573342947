"""Options of SET, GETEX and DELEX: which go together, and what they ask for."""

import pytest

from epoxy.model.strings import KEEP, PERSIST
from tests.protocol.strings.lines import NOW_MS, after, reply_to

SYNTAX = "-ERR syntax error"


@pytest.mark.parametrize(
    "options",
    [
        "NX XX",
        "NX IFEQ a",
        "IFEQ a IFNE a",
        "IFEQ a IFEQ a",
        "EX 1 PX 1",
        "EX 1 KEEPTTL",
        "KEEPTTL PXAT 5",
        "EX",
        "IFEQ",
        "PERSIST",
        "FOO",
        "EX 0 FOO",
        "EX x PX",
    ],
)
def test_set_refuses_words_that_exclude_each_other_lack_their_operand_or_mean_nothing(options: str) -> None:
    assert reply_to(f"SET k v {options}") == SYNTAX


@pytest.mark.parametrize("options", ["EX 1 PERSIST", "EX 1 PX 1", "KEEPTTL", "NX", "GET", "PX"])
def test_getex_has_the_words_about_expiry_but_keepttl(options: str) -> None:
    assert reply_to(f"GETEX k {options}", b"v") == SYNTAX


@pytest.mark.parametrize("options", ["nx ex 5", "EX 5 NX", "NX EX 9 EX 5", "ex 5 nx nx", "PX 5000 nX"])
def test_options_come_in_any_order_and_the_last_of_a_kind_counts(options: str) -> None:
    assert after(f"SET k v {options}") == (b"v", 5000, True)


@pytest.mark.parametrize(
    ("option", "amount", "reply"),
    [
        ("EX", "0", "-ERR invalid expire time in 'set' command"),
        ("PX", "-5", "-ERR invalid expire time in 'set' command"),
        ("EXAT", "0", "-ERR invalid expire time in 'set' command"),
        ("EX", str(2**63 // 1000 + 1), "-ERR invalid expire time in 'set' command"),
        ("EX", "1.5", "-ERR value is not an integer or out of range"),
        ("PX", str(2**63), "-ERR value is not an integer or out of range"),
    ],
)
def test_times_of_set_are_positive_and_of_64_bits(option: str, amount: str, reply: str) -> None:
    assert reply_to(f"SET k v {option} {amount}") == reply


@pytest.mark.parametrize(
    ("options", "ttl_ms"),
    [
        ("EX 3", 3000),
        ("PX 3", 3),
        (f"PXAT {NOW_MS + 9}", 9),
        (f"EXAT {NOW_MS // 1000 + 2}", 2000 - NOW_MS % 1000),
        ("KEEPTTL", KEEP),
        ("", PERSIST),
    ],
)
def test_what_becomes_of_the_expiry(options: str, ttl_ms: int) -> None:
    assert after(f"SET k w {options}", b"v", 77) == (b"w", ttl_ms, True)


@pytest.mark.parametrize(
    ("condition", "absent", "same", "other"),
    [
        ("NX", True, False, False),
        ("XX", False, True, True),
        ("IFEQ v", False, True, False),
        ("IFNE v", True, False, True),
    ],
)
def test_conditions_look_at_the_value_that_is_there(condition: str, absent: bool, same: bool, other: bool) -> None:
    for value, holds in ((None, absent), (b"v", same), (b"x", other)):
        assert reply_to(f"SET k w {condition}", value) == ("+OK" if holds else None)
        assert reply_to(f"SET k w {condition} GET", value) == value
        assert after(f"SET k w {condition}", value)[0::2] == ((b"w", True) if holds else (value, False))
