"""Classes for the schema of test_generate."""

import enum

from msgspec import Struct


class Colour(enum.Enum):
    RED = "red"
    DARK_BLUE = "dark blue"


class Pair(Struct, frozen=True, kw_only=True):
    left_side: int
    hash: bytes | None
    flag: bool
    narrow: int
    names: tuple[str, ...]
    colours: tuple[Colour, ...] | None
    maybe: bool | None


class Point(Struct, frozen=True):
    x: int
    y: int


class Spot(Struct, frozen=True, kw_only=True):
    """Fields with the names of the generated code's own variables, and a record of numbers among them."""

    position: Point
    flag: bool
    length: int
    buffer: bytes


class Nothing(Struct, frozen=True, kw_only=True):
    pass


Choice = Pair | Nothing
