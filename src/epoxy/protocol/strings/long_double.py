"""The long double of x86-64, in which Redis adds for INCRBYFLOAT: a mantissa of 64 bits, computed exactly and rounded.

So results are Redis' own, digit by digit. (On machines whose long double is another, Redis itself has others.) Two
differences: hexadecimal floats are refused, and numbers from 10^4000 on, not 1.19 * 10^4932, count as infinite.
"""

import math
import re
from fractions import Fraction

LongDouble = Fraction | float
"""The only float is an infinity."""

MANTISSA_BITS = 64
LEAST_EXPONENT = -16445
"""Of the last bit: of the smallest number that is not 0."""

INFINITE = Fraction(10**4000)
LONGEST = 4096
"""In bytes. Both limits keep away from the 4300 digits that Python converts."""

DECIMALS = 17
NUMBER = re.compile(rb"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:e([+-]?[0-9]+))?", re.IGNORECASE)
INFINITY = re.compile(rb"[+-]?inf(?:inity)?", re.IGNORECASE)


def parse(text: bytes) -> LongDouble | None:
    """As strtold reads it. None: it is no number, or none in range; one that is too small to tell from 0, too."""
    if INFINITY.fullmatch(text):
        return math.inf
    match = NUMBER.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    sign, digits, exponent = match.groups()
    whole, _, decimals = digits.partition(b".")
    mantissa = int(whole + decimals)
    if mantissa == 0:
        return Fraction(0)
    power = exponent_of(exponent) - len(decimals)
    if abs(power) > 2 * LONGEST:
        return None
    number = rounded(mantissa * Fraction(10) ** power)
    if number == 0 or isinstance(number, float):
        return None
    return -number if sign == b"-" else number


def exponent_of(text: bytes | None) -> int:
    """Cut off where it is out of range with any mantissa."""
    digits = (text or b"0").lstrip(b"+-0")[:6] or b"0"
    return -int(digits) if text is not None and text.startswith(b"-") else int(digits)


def add(left: LongDouble, right: LongDouble) -> Fraction | None:
    """None: the sum is infinite, or no number."""
    if isinstance(left, float) or isinstance(right, float):
        return None
    total = rounded(left + right)
    return None if isinstance(total, float) else total


def rounded(exact: Fraction) -> LongDouble:
    """To the nearest, ties to even."""
    if abs(exact) >= INFINITE:
        return math.inf
    if exact == 0:
        return exact
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    last_bit = Fraction(2) ** max(exponent - MANTISSA_BITS + 1, LEAST_EXPONENT)
    return round(exact / last_bit) * last_bit


def text_of(number: Fraction) -> bytes:
    """17 decimals, less the zeros at their end; no exponent."""
    scaled = round(number * 10**DECIMALS)
    digits = str(abs(scaled)).rjust(DECIMALS + 1, "0")
    text = f"{digits[:-DECIMALS]}.{digits[-DECIMALS:]}".rstrip("0").rstrip(".")
    return (f"-{text}" if scaled < 0 else text).encode()
