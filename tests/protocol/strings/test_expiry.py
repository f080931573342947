"""EXPIRE, TTL and their kin."""

import pytest

from epoxy.model.strings import KEEP, PERSIST
from tests.protocol.strings.lines import NOW_MS, after, reply_to, run


@pytest.mark.parametrize(
    ("line", "ttl_ms"),
    [
        ("EXPIRE k 3", 3000),
        ("PEXPIRE k 3", 3),
        (f"EXPIREAT k {NOW_MS // 1000 + 5}", 5000 - NOW_MS % 1000),
        (f"PEXPIREAT k {NOW_MS + 5}", 5),
    ],
)
def test_a_value_gets_a_time_to_live(line: str, ttl_ms: int) -> None:
    assert reply_to(line) == 0
    assert after(line) == (None, KEEP, False)
    assert reply_to(line, b"v") == 1
    assert after(line, b"v", 9) == (b"v", ttl_ms, True)


@pytest.mark.parametrize("line", ["EXPIRE k 0", "PEXPIRE k -1", "EXPIREAT k 5", f"PEXPIREAT k {NOW_MS}"])
def test_a_time_that_is_over_deletes(line: str) -> None:
    assert reply_to(line, b"v") == 1
    assert after(line, b"v") == (None, PERSIST, True)


@pytest.mark.parametrize(
    ("flags", "none", "shorter", "equal", "longer"),
    [
        ("NX", 1, 0, 0, 0),
        ("XX", 0, 1, 1, 1),
        ("gt", 0, 1, 0, 0),
        ("LT", 1, 0, 0, 1),
        ("XX GT", 0, 1, 0, 0),
        ("LT XX", 0, 0, 0, 1),
    ],
)
def test_flags_compare_with_the_time_that_is_left(flags: str, none: int, shorter: int, equal: int, longer: int) -> None:
    """No expiry counts as an infinite one."""
    for ms, reply in ((None, none), (99, shorter), (100, equal), (101, longer)):
        assert reply_to(f"PEXPIRE k 100 {flags}", b"v", ms) == reply
        assert after(f"PEXPIRE k 100 {flags}", b"v", ms) == ((b"v", 100, True) if reply else (b"v", KEEP, False))


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("EXPIRE k 1 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE k 1 GT LT", "-ERR GT and LT options at the same time are not compatible"),
        ("EXPIRE k 1 foo", "-ERR Unsupported option foo"),
        ("EXPIRE k x", "-ERR value is not an integer or out of range"),
        (f"EXPIRE k {2**63 // 1000 + 1}", "-ERR invalid expire time in 'expire' command"),
        (f"EXPIREAT k -{2**62}", "-ERR invalid expire time in 'expireat' command"),
    ],
)
def test_wrong_arguments(line: str, reply: str) -> None:
    assert reply_to(line, b"v") == reply


def test_what_is_left() -> None:
    lines = ("TTL k", "PTTL k", "EXPIRETIME k", "PEXPIRETIME k")
    assert run(*lines).replies == (-2, -2, -2, -2)
    assert run(*lines, value=b"v").replies == (-1, -1, -1, -1)
    at_ms = NOW_MS + 1499
    assert run(*lines, value=b"v", ms=1499).replies == (1, 1499, (at_ms + 500) // 1000, at_ms)
    assert reply_to("TTL k", b"v", 1500) == 2
    assert reply_to("PTTL k", b"v", 0) == 0
    assert not run(*lines, value=b"v", ms=1).changed


def test_persist() -> None:
    assert reply_to("PERSIST k") == reply_to("PERSIST k", b"v") == 0
    assert reply_to("PERSIST k", b"v", 5) == 1
    assert after("PERSIST k", b"v", 5) == (b"v", PERSIST, True)
