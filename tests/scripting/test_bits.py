"""Numbers as 32 bits."""

import pytest

from epoxy.scripting.bits import operate


@pytest.mark.parametrize(
    ("name", "a", "b", "result"),
    [
        (b"tobit", 2**31, 0, -(2**31)),
        (b"tobit", 2**53, 0, 0),
        (b"tobit", -1.4, 0, -1),
        (b"bnot", 0, 0, -1),
        (b"bswap", 0x12345678, 0, 0x78563412),
        (b"band", -1, 0xFF, 0xFF),
        (b"bor", 2**31, 1, -(2**31) + 1),
        (b"bxor", -1, -1, 0),
        (b"lshift", 1, 33, 2),
        (b"rshift", -1, 31, 1),
        (b"arshift", -4, 1, -2),
        (b"rol", -(2**31), 1, 1),
        (b"ror", 1, 1, -(2**31)),
        (b"rol", 5, 0, 5),
    ],
)
def test_operations(name: bytes, a: float, b: float, result: int) -> None:
    assert operate(name, a, b) == result
