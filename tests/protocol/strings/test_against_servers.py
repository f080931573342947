"""The same random commands here and at a real server: equal replies, and an equal value at the end.

Redis and Valkey judge what they have; what one lacks, the other knows. Times are compared loosely, because a server's
run on. Texts of errors are compared without the words in which the two differ from Redis 7.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import hiredis
import pytest

from benchmarks.failover_cluster import ask, wait_for
from epoxy.codec.resp import array, bulk
from epoxy.model.records import MAX_TTL_MS
from epoxy.model.strings import Command, Fault, Register, SimpleString
from epoxy.protocol.strings import ranges
from epoxy.protocol.strings.evaluation import RegisterSession
from epoxy.protocol.strings.registers import Registers
from epoxy.testing import free_ports
from tests.protocol.strings.random_commands import KEY, RandomCommands
from tools.programs import redis_server, valkey_server

SEQUENCES, LENGTH = 1000, 40
TIMED = (b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME")
SLACK_MS = 60_000
"""A run takes a second; times to live begin at a thousand."""

LATE = (b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT", b"BITPOS", b"GETEX")
"""Whose later arguments Redis 6.2 lacks, or checks at another time."""

NEW = (b"EXPIRETIME", b"PEXPIRETIME")

PUT = Registers.put


class RealServer:
    """A server, and its replies to many commands at once."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._reader = hiredis.Reader()
        self._is_old = b"redis_version:6." in self.info() and b"valkey_version" not in self.info()

    def info(self) -> bytes:
        (info,) = self.ask([(b"INFO", b"server")])
        assert isinstance(info, bytes)
        return info

    def knows(self, command: Command) -> bool:
        """Redis 6.2 has no flags of EXPIRE, no units of bits, fewer options of SET, answers for an absent key before it
        looks at ranges and times, and subtracts the least number wrongly. BITCOUNT without an end is Valkey's own."""
        name, count = command[0], len(command)
        if name == b"BITCOUNT":
            return count == 2 or (count > 3 and not self._is_old)
        if not self._is_old:
            return True
        if name == b"SET":
            return not {b"IFEQ", b"GET"} & set(command)
        return not (name in NEW or (name in LATE and count > 3) or b"-9223372036854775808" in command)

    def close(self) -> None:
        self._socket.close()

    def ask(self, commands: list[Command]) -> list[object]:
        self._socket.sendall(b"".join([array(list(map(bulk, command))) for command in commands]))
        replies: list[object] = []
        while len(replies) < len(commands):
            self._reader.feed(self._socket.recv(1 << 16))
            while (reply := self._reader.gets()) is not False:
                replies.append(reply)
        return replies


@pytest.fixture(params=[redis_server, valkey_server], ids=["redis", "valkey"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealServer]:
    (port,) = free_ports(1)
    words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    process = subprocess.Popen([str(request.param()), *words], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: ask(port, "PING") == b"PONG", "the server does not start")
        real = RealServer(port)
        yield real
        real.close()
    finally:
        process.kill()
        process.wait()


def test_random_commands_have_the_same_replies_here_and_there(server: RealServer) -> None:
    assert [line for seed in range(SEQUENCES) for line in differences(server, seed)] == []


def test_a_command_that_means_something_else_is_seen(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """KEEPTTL that is forgotten, and ends of ranges that are left out."""
    rules: tuple[tuple[object, str, object], ...] = (
        (Registers, "put", lambda registers, key, value, **_: PUT(registers, key, value)),
        (ranges, "clamped", lambda start, end, length: (start, min(end, length) - 1)),
    )
    for place, name, rule in rules:
        with monkeypatch.context() as planted:
            planted.setattr(place, name, rule)
            assert any(differences(server, seed) for seed in range(SEQUENCES)), name


def differences(server: RealServer, seed: int) -> list[str]:
    now_ms = time.time_ns() // 1_000_000
    dice = RandomCommands(seed, now_ms)
    drawn = [dice.draw() for _ in range(LENGTH)]
    commands = [command for command in drawn if server.knows(command)]
    server.ask([(b"DEL", KEY)])
    asked = [*commands, (b"GET", KEY), (b"PTTL", KEY)]
    session = RegisterSession(KEY, Register(value=None), now_ms)
    found = []
    for command, theirs in zip(asked, server.ask(asked), strict=True):
        ours = session.call(command)
        if not is_same(command, comparable(ours), comparable(theirs)):
            found.append(f"seed {seed}: {command}: {ours!r}, and the server {theirs!r}")
    return found


def is_same(command: Command, ours: object, theirs: object) -> bool:
    if command[0] in TIMED and isinstance(ours, int) and isinstance(theirs, int) and ours > 0:
        unit = 1 if command[0].startswith(b"P") else 1000
        return abs(ours - theirs) * unit < SLACK_MS or theirs >= ours >= MAX_TTL_MS // unit
    return ours == theirs


def comparable(reply: object) -> object:
    """Simple strings as bulk strings, which clients do not tell apart; errors without punctuation, and which of two
    faults in the arguments is said first is left open."""
    match reply:
        case SimpleString(text):
            return text.encode()
        case Fault(text):
            return error(text)
        case hiredis.ReplyError():
            return error(str(reply))
        case list() | tuple():
            return tuple(map(comparable, reply))
        case _:
            return reply


def error(text: str) -> str:
    words = "-" + text.lower().replace("'", "").removesuffix(" command")
    return "-arguments" if words in ("-err syntax error", "-err value is not an integer or out of range") else words
