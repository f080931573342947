"""Decimal numbers that are added to: signed, of 64 bits, and with one spelling each, as in Redis."""

LEAST_INTEGER = -(1 << 63)
MOST_INTEGER = (1 << 63) - 1

LONGEST_INTEGER = len(str(LEAST_INTEGER))
"""In bytes: what an addition may store."""


def integer_of(value: bytes | None) -> int | None:
    """An absent value counts as 0. None: this is no such number."""
    if value is None:
        return 0
    if len(value) > LONGEST_INTEGER:
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if b"%d" % number == value and LEAST_INTEGER <= number <= MOST_INTEGER else None
