"""Random commands of one key, with more chances for arguments that mean something."""

import random

from epoxy.model.strings import Command

KEY = b"k"

VALUES = (b"", b"0", b"5", b"-12", b"abc", b"foobar" * 4, b"\xff\xff\xf0", b"\0\x01", b"3.25", b"9223372036854775800")
NUMBERS = (b"0", b"1", b"-1", b"7", b"-30", b"100", b"9223372036854775807", b"-9223372036854775808", b"x", b"01", b"")
FLOATS = (b"0.1", b"-2.5", b"1e3", b"3", b"1e-17", b"17179869184.333", b"abc", b"1e30", b"inf", b"", b" 1", b"-0.1")
INDEXES = (b"0", b"1", b"-1", b"2", b"-3", b"5", b"-100", b"100", b"23", b"y")

CHOICES = {
    "value": VALUES,
    "number": NUMBERS,
    "float": FLOATS,
    "index": INDEXES,
    "unit": (b"BIT", b"byte", b"BITS"),
    "bit": (b"0", b"1", b"1", b"2"),
}


class RandomCommands:
    """Draws commands. Times to live differ by more than a run takes, so comparing them has one result."""

    def __init__(self, seed: int, now_ms: int) -> None:
        self._dice = random.Random(seed)
        self._now_ms = now_ms

    def draw(self) -> Command:
        name, *shape = self._dice.choice(SHAPES)
        return (name.encode(), *[word for part in shape for word in self._words(part)])

    def _words(self, part: str) -> list[bytes]:
        """A part in capitals stands for itself."""
        dice = self._dice
        if part in CHOICES:
            return [dice.choice(CHOICES[part])]
        match part:
            case "key":
                return [KEY]
            case "range":
                return [dice.choice(INDEXES) for _ in range(dice.randrange(3))]
            case "ex" | "px" | "exat" | "pxat":
                return [self._time(part)]
            case "options":
                return [word for _ in range(dice.choice((0, 1, 1, 2, 3))) for word in self._option()]
            case "flags":
                return [dice.choice((b"NX", b"XX", b"gt", b"LT", b"ZZ")) for _ in range(dice.choice((0, 1, 1, 2)))]
            case _:
                return [part.encode()]

    def _option(self) -> list[bytes]:
        option = self._dice.choice(("NX", "xx", "GET", "KEEPTTL", "FOO", "IFEQ value", "EX ex", "PX px", "EXAT exat"))
        return [word for part in option.split() for word in self._words(part)]

    def _time(self, kind: str) -> bytes:
        dice = self._dice
        if dice.random() < 0.15:
            return dice.choice((b"0", b"-1", b"x", b"9223372036854775807"))
        ms = dice.randrange(10**6, 10**9) + (self._now_ms if kind.endswith("at") else 0)
        return b"%d" % (ms // 1000 if kind.startswith("e") else ms)


SHAPES = tuple(
    [
        line.split()
        for line in (
            "GET key",
            "SET key value options",
            "SET key value options",
            "SETNX key value",
            "GETSET key value",
            "GETDEL key",
            "DEL key key",
            "EXISTS key key",
            "STRLEN key",
            "TYPE key",
            "MGET key key",
            "MSET key value key value",
            "MSET key value key",
            "MSETNX key value",
            "TOUCH key",
            "APPEND key value",
            "SETRANGE key index value",
            "GETRANGE key index index",
            "SUBSTR key index index",
            "INCR key",
            "DECR key",
            "INCRBY key number",
            "DECRBY key number",
            "INCRBYFLOAT key float",
            "SETBIT key index bit",
            "GETBIT key index",
            "BITCOUNT key range",
            "BITCOUNT key index index unit",
            "BITPOS key bit range",
            "BITPOS key bit index index unit",
            "BITOP NOT key key",
            "BITOP XOR key key key",
            "EXPIRE key ex flags",
            "PEXPIRE key px flags",
            "EXPIREAT key exat flags",
            "PEXPIREAT key pxat flags",
            "SETEX key ex value",
            "PSETEX key px value",
            "GETEX key",
            "GETEX key PERSIST",
            "GETEX key EX ex",
            "GETEX key PXAT pxat",
            "PERSIST key",
            "TTL key",
            "PTTL key",
            "EXPIRETIME key",
            "PEXPIRETIME key",
            "RENAME key key",
            "COPY key key",
            "ECHO value",
            "PING",
            "GET",
        )
    ]
)
