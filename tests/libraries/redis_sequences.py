"""Random sequences of commands, sent to a node and to a Valkey: do both reply alike?

    python -m tests.libraries.redis_sequences --sequences 20000

Types, values and the first words of errors are compared; times up to what passes between two commands. Not sent is what
docs/protocol/resp.md names as a difference: keys that are empty or begin with ff, scripts with two keys, numbers in
hexadecimal, times beyond a thousand years, BITCOUNT with a start alone (Redis 8), commands about the connection inside
of MULTI, and reads of a watched key that the same client wrote.
"""

import argparse
import hashlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import hiredis

import epoxy.testing
from epoxy.codec.resp import array, bulk
from tests.libraries.judge import HOST, answers, until
from tools.programs import valkey_server

Command = list[bytes]

NUMBERS = b"0 1 -1 2 7 -7 100 9223372036854775807 -9223372036854775808 9223372036854775808 01 +1 x 1.5 -0".split()
NUMBERS += [b"", b" 1", b"1 ", b"9" * 23, b"\x00"]
NO_TIMES = [number for number in NUMBERS if number not in (b"1", b"2", b"7", b"100", b"9223372036854775807")]
"""Without those that end a value during a sequence: a node ends it 50 ms later."""
VALUES = [*NUMBERS, b"hello", b"\xff\x00\r\n", b"a" * 70, b"3.25", b"-1.5e2", b"nan", b"10", b"\xf0\x0f"]
FRACTIONS = b"0.1 -3 1e5 1e400 inf -inf nan x 5.0e3 +1 1e-20 0.30000000000000004 3.0 10 -.5 5.".split()
OFFSETS = [b"-1", b"x", b"", *[b"%d" % offset for offset in range(0, 60, 7)], b"5000"]
SCRIPTS = [
    b"return redis.call('get', KEYS[1])",
    b"return redis.call('set', KEYS[1], ARGV[1])",
    b"return redis.call('set', KEYS[1], ARGV[1], 'get')",
    b"return redis.call('incrby', KEYS[1], ARGV[1])",
    b"return {redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1]) > 0, 3.7, 'x', {1, {2}}, nil, 9}",
    b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    b"local v = redis.call('incr', KEYS[1]) if v == 1 then redis.call('expire', KEYS[1], ARGV[1]) end return v",
    b"redis.call('set', KEYS[1], 'w') error('boom')",
    b"redis.call('set', KEYS[1], 'w') return redis.call('incr', KEYS[1])",
    b"local r = redis.pcall('incr', KEYS[1], 1) return type(r.err)",
    b"local r = redis.call('set', KEYS[1], 'q') return r.ok",
    b"return {cjson.encode({1, 'x', {a = 1}}), cjson.decode('[1, null, [2.5]]')}",
    *[b"return redis.call('%b', KEYS[1])" % name for name in b"type nosuch set strlen unwatch multi persist".split()],
    *[
        b"return " + value
        for value in (b"#ARGV", b"KEYS", b"ARGV", b"{}", b"{1, 2, nil, 4}", b"false", b"true", b"-3.99")
    ],
    *[
        b"return " + value
        for value in (b"redis.call()", b"{ok = 'yes'}", b"{err = 'NO way'}", b"1e18", b"x", b"(", b"")
    ],
    b"return redis.error_reply('MY bad')",
    b"x = 1",
]
SPELLED = (
    """
GET K|GET K|SET K V|SET K N|SET K V O|SET K V O|SET K V O O|SET K V O O O|SETNX K V|SETEX K T V|PSETEX K M V
GETSET K V|GETDEL K|GETEX K|GETEX K X|GETEX K PERSIST|APPEND K V|STRLEN K|SETRANGE K P V|GETRANGE K N N|SUBSTR K N N
INCR K|DECR K|INCRBY K N|DECRBY K N|INCRBYFLOAT K F|SETBIT K P 1|SETBIT K P 0|SETBIT K P N|GETBIT K P|BITCOUNT K
BITCOUNT K N N|BITCOUNT K N N BIT|BITPOS K 1|BITPOS K 0 N|BITPOS K 1 N N|BITPOS K 0 N N BIT|BITOP AND K K K
BITOP OR K K K|BITOP XOR K K K|BITOP NOT K K|MSET K V|MSET K V K V|MSETNX K V|MSETNX K V K V|MGET K K K|DEL K|DEL K K
UNLINK K|EXISTS K K|TOUCH K K|TYPE K|EXPIRE K T|EXPIRE K T L|PEXPIRE K M L|EXPIREAT K A L|PEXPIREAT K B L
EXPIRE K T L L|TTL K|PTTL K|EXPIRETIME K|PEXPIRETIME K|PERSIST K|RENAME K K|RENAMENX K K|COPY K K|COPY K K REPLACE
EVAL S 1 K|EVAL S 1 K V|EVAL S 1 K N V|EVAL_RO S 1 K V|EVAL S 0 V|EVAL S N K|EVALSHA H 1 K V|EVALSHA H N K
SCRIPT LOAD S|SCRIPT EXISTS H|PING|PING x|ECHO x|TIME|NOSUCH K
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
BETWEEN = (
    "HELLO 3|HELLO 2|HELLO 9|HELLO x|RESET|EXEC|DISCARD|UNWATCH|MULTI x|WATCH|CLIENT|CLIENT GETNAME|SCRIPT|SELECT x"
)
"""Between transactions."""
WITHIN = "MULTI|WATCH K|UNWATCH|DISCARD|RESET|EXEC x"
"""Now and then inside of one."""

SLOWLY = 20
"""Seconds that may pass between the same command at the one and at the other."""
NEAR = {b"TTL": SLOWLY, b"EXPIRETIME": SLOWLY, b"PTTL": 1000 * SLOWLY, b"PEXPIRETIME": 1000 * SLOWLY}


class Words:
    """Puts words in the places of the capital letters."""

    def __init__(self, dice: Random, keys: Sequence[bytes]) -> None:
        self._dice = dice
        self.keys = keys
        pick = dice.choice
        self._drawn: dict[str, Callable[[], bytes]] = {
            "K": lambda: pick(self.keys),
            "V": lambda: pick(VALUES),
            "N": lambda: pick(NUMBERS) if dice.random() < 0.4 else b"%d" % dice.randrange(-20, 50),
            "F": lambda: pick(FRACTIONS),
            "P": lambda: pick(OFFSETS),
            "S": lambda: pick(SCRIPTS),
            "H": lambda: hashlib.sha1(pick(SCRIPTS)).hexdigest().encode(),
            "L": lambda: pick([b"NX", b"XX", b"GT", b"LT", b"gt", b"foo"]),
            "T": lambda: self._time(1, 0),
            "M": lambda: self._time(1000, 0),
            "A": lambda: self._time(1, time.time()),
            "B": lambda: self._time(1000, time.time()),
        }

    def _time(self, unit: int, now: float) -> bytes:
        """Mostly in some days: two of them are hardly ever as near to each other as what passes meanwhile."""
        kind = self._dice.random()
        if kind < 0.05:
            return self._dice.choice(NO_TIMES)
        if kind < 0.2:
            return b"%d" % self._dice.choice([0, -1, -100 * unit, int(now - 10) * unit])
        return b"%d" % (int(now * unit) + self._dice.randrange(200 * unit, 1_000_000 * unit))

    def _option(self) -> Command:
        return self.spelled(self._dice.choice(["NX", "XX", "xx", "IFEQ V", "GET", "KEEPTTL", "X", "X", "foo"]))

    def _until(self) -> Command:
        return self.spelled(self._dice.choice(["EX T", "PX M", "EXAT A", "PXAT B"]))

    def spelled(self, line: str) -> Command:
        words: Command = []
        for word in line.split():
            if word in ("O", "X"):
                words += self._option() if word == "O" else self._until()
            else:
                words.append(self._drawn[word]() if word in self._drawn else word.encode())
        return words

    def command(self) -> Command:
        """Sometimes too short, too long, or in lower case."""
        words, kind = self.spelled(self._dice.choice(SPELLED)), self._dice.random()
        if kind < 0.02 and not words[0].startswith((b"BITCOUNT", b"EVAL")):
            words = words[:-1] or words
        elif kind < 0.03 and not words[0].startswith((b"BITCOUNT", b"EVAL")):
            words.append(b"more")
        elif kind < 0.1:
            words[0] = words[0].lower()
        return words


def sequence(seed: int) -> list[Command]:
    dice = Random(seed)
    keys = [b"%d:%b" % (seed, name) for name in (b"a", b"b", b"c")]
    words = Words(dice, keys)
    made: list[Command] = []
    for _ in range(dice.randrange(3, 14)):
        kind = dice.random()
        if kind < 0.78:
            made.append(words.command())
        elif kind < 0.95:
            made += transaction(dice, words, keys, len(made))
        else:
            made.append(words.spelled(dice.choice(BETWEEN.split("|"))))
    return made


def transaction(dice: Random, words: Words, keys: Sequence[bytes], number: int) -> Iterator[Command]:
    if dice.random() < 0.4:
        yield [b"WATCH", *dice.choices(keys, k=2)]
        if dice.random() < 0.2:
            yield [b"SET", dice.choice(keys), b"own %d" % number]
    yield [b"MULTI"]
    words.keys = dice.choices(keys, k=dice.choice([1, 1, 2, 3]))
    for _ in range(dice.randrange(6)):
        command = words.command()
        if command[0].upper() not in (b"SCRIPT", b"TIME"):
            yield command
    if dice.random() < 0.07:
        yield words.spelled(dice.choice(WITHIN.split("|")))
    words.keys = keys
    yield [dice.choice([b"EXEC", b"EXEC", b"EXEC", b"exec", b"DISCARD"])]


# Comparing


def shape(reply: object) -> object:
    if isinstance(reply, Exception):
        return "error", str(reply).split(" ")[0]
    if isinstance(reply, list):
        return [shape(each) for each in reply]
    return type(reply), reply


def is_alike(command: Command, one: object, other: object) -> bool:
    name = command[0].upper()
    if name in (b"TIME", b"HELLO") and not isinstance(one, Exception):
        return type(one) is type(other)
    if name in NEAR and isinstance(one, int) and isinstance(other, int) and min(one, other) > 0:
        return abs(one - other) < NEAR[name]
    return shape(one) == shape(other)


def first_difference(commands: Sequence[Command], ones: Sequence[object], others: Sequence[object]) -> int | None:
    """The number of the command, or None. Replies of EXEC are compared as those of the commands that were queued."""
    queued: list[Command] = []
    for number, (command, one, other) in enumerate(zip(commands, ones, others, strict=True)):
        if one == b"QUEUED":
            queued.append(command)
        if isinstance(one, list) and isinstance(other, list) and command[0].upper() == b"EXEC":
            if len(one) != len(other) or not all(map(is_alike, queued, one, other)):
                return number
        elif not is_alike(command, one, other):
            return number
        if command[0].upper() in (b"EXEC", b"DISCARD", b"RESET"):
            queued = []
    return None


# Running


class Line:
    """A connection that sends what it is given and reads as many replies."""

    WAITING = object()

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=30)

    def replies(self, commands: Sequence[Command], pipelined: bool) -> list[object]:
        reader, told = hiredis.Reader(notEnoughData=self.WAITING), list[object]()
        for some in [commands] if pipelined else [[command] for command in commands]:
            self.socket.sendall(b"".join([array([*map(bulk, command)]) for command in some]))
            for _ in some:
                while (reply := reader.gets()) is self.WAITING:
                    piece = self.socket.recv(1 << 16)
                    assert piece, "the connection was closed"
                    reader.feed(piece)
                told.append(reply)
        return told


def difference(seed: int, judge: int, port: int) -> str | None:
    """Of one sequence, at the ports of a Valkey and of a node."""
    commands, pipelined = sequence(seed), seed % 2 == 0
    told: list[list[object]] = []
    for each in (judge, port):
        line = Line(each)
        with line.socket:
            told.append(line.replies(commands, pipelined))
    at = first_difference(commands, *told)
    if at is None:
        return None
    sent = "\n".join([f"    {command!r}" for command in commands[: at + 1]])
    return f"sequence {seed}:\n{sent}\n  Valkey: {told[0][at]!r}\n  node:   {told[1][at]!r}"


@contextmanager
def both() -> Iterator[tuple[int, int]]:
    """The ports of a Valkey and of a node."""
    (port,) = epoxy.testing.free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        words = ["--port", str(port), "--bind", HOST, "--dir", str(Path(folder)), "--save", ""]
        process = subprocess.Popen([str(valkey_server()), *words], stdout=subprocess.DEVNULL)
        try:
            until(lambda: answers(port), "the Valkey answers")
            with epoxy.testing.cluster(1) as cluster:
                yield port, cluster[0].resp_port
        finally:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    options = parser.parse_args()
    found = 0
    with both() as (judge, port):
        for seed in range(options.seed, options.seed + options.sequences):
            told = difference(seed, judge, port)
            found += told is not None
            if told is not None:
                print(told)
    print(f"{options.sequences} sequences from {options.seed} on, {found} with a difference")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
