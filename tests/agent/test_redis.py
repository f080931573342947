"""A fenced server refuses writes: shown with a real one."""

import socket

import pytest

from benchmarks.failover_cluster import PATIENCE_S, ask
from epoxy.agent import redis
from epoxy.agent.redis import ServerError
from epoxy.protocol.elect.terms import Fence, Follow, Mode, OpenServer, Quiesce
from tests.protocol.elect.bench import config_of

CONFIG = config_of("abc")
WRITES = [
    ("SET", "key", "value"),
    ("INCR", "number"),
    ("DEL", "there"),
    ("EXPIRE", "there", "1"),
    ("LPUSH", "list", "x"),
    ("FLUSHALL",),
    ("EVAL", "return redis.call('set', 'key', 'value')", "0"),
]


def obey(port: int, *commands: redis.Command) -> None:
    for command in commands:
        reply = ask(port, *(str(word) for word in command))
        assert not isinstance(reply, ServerError), (command, reply)


def looked(port: int) -> list[object]:
    return [ask(port, *(str(word) for word in command)) for command in redis.OBSERVE]


@pytest.mark.parametrize("words", WRITES, ids=lambda words: words[0])
def test_a_fenced_server_refuses_every_kind_of_write(server_port: int, words: tuple[str, ...]) -> None:
    ask(server_port, "SET", "there", "1")
    obey(server_port, *redis.FENCE)
    refused = ask(server_port, *words)
    assert isinstance(refused, ServerError)
    assert "READONLY" in str(refused)
    assert ask(server_port, "GET", "there") == b"1"


def test_a_fenced_server_copies_nothing_and_keeps_its_data(server_port: int) -> None:
    ask(server_port, "SET", "there", "1")
    obey(server_port, *redis.FENCE)
    info = redis.read_info(looked(server_port)[0])  # type: ignore[arg-type]
    assert (info["role"], info["master_link_status"], info["slave_read_only"]) == ("slave", "down", "1")
    assert ask(server_port, "DBSIZE") == 1


def test_opened_again_it_takes_writes_and_shows_its_epoch(server_port: int) -> None:
    obey(server_port, *redis.FENCE)
    obey(server_port, *redis.commands_for(OpenServer(7, 10**12), CONFIG, 0))
    assert ask(server_port, "SET", "key", "value") == b"OK"
    report = redis.read_report(looked(server_port), CONFIG, quiet=False)  # type: ignore[arg-type]
    assert (report.alive, report.mode, report.position.history) == (True, Mode.OPEN, 7)
    obey(server_port, *redis.commands_for(Fence(), CONFIG, 0))
    report = redis.read_report(looked(server_port), CONFIG, quiet=False)  # type: ignore[arg-type]
    assert (report.mode, report.leader, report.position.history) == (Mode.FENCED, "", 7)


def test_a_primary_without_its_replicas_takes_no_writes(server_port: int) -> None:
    obey(server_port, *redis.opening(3, config_of("abc", min_replicas_to_write=1)))
    refused = ask(server_port, "SET", "key", "value")
    assert "NOREPLICAS" in str(refused)
    assert ask(server_port, "GET", redis.EPOCH_KEY) == b"3"


def test_a_server_that_follows_says_whom(server_port: int) -> None:
    obey(server_port, *redis.commands_for(Follow("b"), CONFIG, 0))
    report = redis.read_report(looked(server_port), CONFIG, quiet=False)  # type: ignore[arg-type]
    assert (report.mode, report.leader) == (Mode.FOLLOWING, "b")


def test_a_server_that_follows_another_lets_its_clients_go(server_port: int) -> None:
    """Those that do not leave because of -READONLY, ioredis among them, would stay for ever. Its agent stays."""
    with (
        socket.create_connection(("127.0.0.1", server_port), PATIENCE_S) as client,
        socket.create_connection(("127.0.0.1", server_port), PATIENCE_S) as agent,
    ):
        client.sendall(redis.encode(("PING",)))
        assert client.recv(64) == b"+PONG\r\n"
        commands = redis.commands_for(Follow("b"), CONFIG, 0)
        agent.sendall(b"".join(redis.encode(command) for command in (*commands, ("PING",))))
        assert client.recv(64) == b""
        told = b""
        while not told.endswith(b"+PONG\r\n"):
            told += agent.recv(4096)
        assert b"-" not in told


def test_writes_are_held_back_and_then_refused(server_port: int) -> None:
    obey(server_port, *redis.commands_for(Quiesce(60_000), CONFIG, 0))
    with pytest.raises(TimeoutError):
        ask(server_port, "SET", "key", "value", patience_s=0.2)
    assert ask(server_port, "GET", "key") is None
    obey(server_port, *redis.FENCE)
    assert "READONLY" in str(ask(server_port, "SET", "key", "value"))


@pytest.mark.parametrize(
    "words",
    [("SET", "9" * 5_000), ("SET", str(2**64)), ("SET", "-1"), ("SET", "\u0663"), ("SADD", "7"), ("LPUSH", "7")],
    ids=["no int of Python's", "more than 64 bits", "below zero", "other digits", "a set", "a list"],
)
def test_what_clients_make_of_the_mark_is_no_epoch_and_is_mended(server_port: int, words: tuple[str, str]) -> None:
    """The server is there all the same: it can be voted with, and opened, which writes the mark again."""
    obey(server_port, *redis.commands_for(OpenServer(7, 0), CONFIG, 0), ("DEL", redis.EPOCH_KEY))
    ask(server_port, words[0], redis.EPOCH_KEY, words[1])
    report = redis.read_report(looked(server_port), CONFIG, quiet=False)  # type: ignore[arg-type]
    assert (report.alive, report.mode, report.position.history) == (True, Mode.OPEN, 0)
    obey(server_port, *redis.commands_for(OpenServer(8, 0), CONFIG, 0))
    assert redis.read_report(looked(server_port), CONFIG, quiet=False).position.history == 8  # type: ignore[arg-type]
