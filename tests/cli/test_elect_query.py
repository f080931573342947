"""Queries to agents over real sockets: which reply counts, and how long one is waited for."""

import socket
import threading
from collections.abc import Iterator

import click
import pytest

from epoxy.agent.redis import encode
from epoxy.cli import elect_query


@pytest.fixture
def agent() -> Iterator[tuple[str, list[bytes]]]:
    """Replies to each connection with the next of these, in two pieces."""
    replies: list[bytes] = []
    asked: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                asked.append(client.recv(4096))
                reply = replies.pop(0) if replies else b""
                for piece in (reply[:2], reply[2:]):
                    client.sendall(piece)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", replies
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_reply_in_pieces_is_whole(agent: tuple[str, list[bytes]]) -> None:
    address, replies = agent
    replies.append(b"$5\r\nhello\r\n")
    assert elect_query.ask([address], ["PING"]) == b"hello"


def test_the_first_agent_without_an_error_answers(agent: tuple[str, list[bytes]]) -> None:
    address, replies = agent
    replies += [b"-ERR not the primary\r\n", b"+OK\r\n"]
    assert elect_query.answered([address, "nonsense", address], lambda _: ["X"]) == (address, b"OK")


def test_every_agent_that_failed_is_named_with_its_reason(agent: tuple[str, list[bytes]]) -> None:
    address, replies = agent
    replies += [b"-ERR no\r\n", b"", b"?\r\n"]
    with pytest.raises(click.ClickException) as refused:
        elect_query.ask([address, address, address], ["X"])
    first, second, third = refused.value.message.split("; ", 2)
    assert (first, second) == (f"{address}: ERR no", f"{address}: closed the connection")
    assert third.startswith(f"{address}: Protocol error")


def test_waiting_ends_with_enough_or_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elect_query, "POLL_S", 0.0)
    seen = iter([1, 2, 3, 4])
    assert elect_query.wait_for(lambda: next(seen), lambda value: value == 3, 3_600.0) == 3
    assert elect_query.wait_for(lambda: next(seen), lambda _: False, 0.0) == 4


def test_a_command_is_an_array_of_bulk_strings() -> None:
    assert encode(("SET", 7)) == b"*2\r\n$3\r\nSET\r\n$1\r\n7\r\n"
