"""What go-redis v9 sends, written down from its source and replayed as bytes. go-redis itself is untried: these tests
install what pip and npm have, and nothing through Go's own registry."""

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hiredis

from tests.libraries.judge import HOST, Doors

RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'


def packed(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word.encode()) for word in words)


class Line:
    """A connection that sends one write for several commands, as its pool and its pipelines do."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._reader = hiredis.Reader()

    def ask(self, *commands: str) -> list[Any]:
        self._socket.sendall(b"".join(packed(*command.split(" ")) for command in commands))
        return [self._reply() for _ in commands]

    def ask_one(self, *words: str) -> Any:
        self._socket.sendall(packed(*words))
        return self._reply()

    def _reply(self) -> Any:
        while (reply := self._reader.gets()) is False:
            received = self._socket.recv(65536)
            assert received, "the connection was closed"
            self._reader.feed(received)
        return reply


@contextmanager
def dialled(port: int) -> Iterator[Line]:
    """With its handshake: commands are in small letters, and errors of the last two are ignored."""
    with socket.create_connection((HOST, port), timeout=60) as opened:
        line = Line(opened)
        (hello,) = line.ask("hello 3")
        assert hello[b"proto"] == 3
        line.ask("client setinfo LIB-NAME go-redis(,go1.24.0)", "client setinfo LIB-VER 9.12.0")
        yield line


def test_set_nx(doors: Doors) -> None:
    with dialled(doors.ports[0]) as here, dialled(doors.ports[1]) as there:
        assert here.ask("set go/a ada ex 100 nx") == [b"OK"]
        assert there.ask("set go/a bob px 1500 nx") == [None]
        assert here.ask("setnx go/b 1", "setnx go/b 2") == [1, 0]
        assert here.ask("set go/a bob keepttl xx", "ttl go/a") == [b"OK", 100]
        assert here.ask("getex go/a persist", "ttl go/a") == [b"bob", -1]


def test_a_script(doors: Doors) -> None:
    digest = hashlib.sha1(RELEASE.encode()).hexdigest()
    with dialled(doors.port) as line:
        line.ask("script flush", "set go/lock token px 100000 nx")
        unknown = line.ask_one("evalsha", digest, "1", "go/lock", "token")
        assert str(unknown) == "NOSCRIPT No matching script. Please use EVAL."
        assert line.ask_one("eval", RELEASE, "1", "go/lock", "other") == 0
        assert line.ask_one("evalsha", digest, "1", "go/lock", "token") == 1
        assert line.ask("exists go/lock") == [0]


def test_a_pipeline_with_multi(doors: Doors) -> None:
    with dialled(doors.port) as line:
        line.ask("set go/n 4")
        told = line.ask("multi", "incr go/n", "expire go/n 100", "exec")
        assert told == [b"OK", b"QUEUED", b"QUEUED", [5, 1]]
