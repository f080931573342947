"""The delay proxy as a pipe. How long it holds things back is measured by the benchmark itself."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from benchmarks.proxy import DelayProxy, Door, Link, Pipe, Way
from epoxy.testing import free_ports

SENT = b"".join(number.to_bytes(4, "big") for number in range(50_000))
PATIENCE_S = 60.0


@contextlib.contextmanager
def running(target: int) -> Iterator[tuple[DelayProxy, socket.socket]]:
    """A proxy with one link, and a connection through it."""
    (port,) = free_ports(1)
    proxy = DelayProxy([Link(name="a>b", listen=port, target=target, one_way_ms=1.0)])
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
            yield proxy, connection
    finally:
        proxy.stop()


def echo_once(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        while data := connection.recv(65536):
            connection.sendall(data)


def test_bytes_come_through_both_ways_in_order_and_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        echo = threading.Thread(target=echo_once, args=[server], daemon=True)
        echo.start()
        with running(server.getsockname()[1]) as (proxy, connection):
            threading.Thread(target=connection.sendall, args=[SENT], daemon=True).start()
            received = bytearray()
            while len(received) < len(SENT):
                piece = connection.recv(65536)
                assert piece, "the proxy ended the connection"
                received += piece
            assert received == SENT
            assert proxy.counted()["a>b"].bytes == 2 * len(SENT)
        echo.join(PATIENCE_S)
    assert not echo.is_alive()


def test_a_target_that_is_not_there_ends_the_connection() -> None:
    (nobody,) = free_ports(1)
    with running(nobody) as (proxy, connection):
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        assert proxy.counted()["a>b"].pieces == 0


class Recorded(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


@pytest.mark.parametrize(("delay_s", "written"), [(3600.0, []), (0.0, [b"one", b"two"])])
def test_nothing_leaves_before_its_time(delay_s: float, written: list[bytes]) -> None:
    async def passed() -> list[bytes]:
        pipe, there = Pipe(delay_s, lambda _: None), Recorded()
        pipe.other = Pipe(delay_s, lambda _: None)
        pipe.other.transport = there
        pipe.data_received(b"one")
        pipe.data_received(b"two")
        pipe.release()
        return there.written

    assert asyncio.run(passed()) == written


# A door, where who calls is read from what it says.

CALLER = r"name: (\w+);"


@contextlib.contextmanager
def door(target: int) -> Iterator[tuple[DelayProxy, int]]:
    (port,) = free_ports(1)
    ways = {"ann": Way(name="ann>bob", one_way_ms=1.0), "cy": Way(name="cy>bob", one_way_ms=2.0)}
    proxy = DelayProxy([Door(listen=port, target=target, caller=CALLER, ways=ways)])
    try:
        yield proxy, port
    finally:
        proxy.stop()


def test_a_caller_that_is_known_passes_with_all_it_has_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, door(server.getsockname()[1]) as (proxy, port):
        threading.Thread(target=echo_once, args=[server], daemon=True).start()
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
            for piece in (b"hello, na", b"me: cy; and ", b"more"):
                connection.sendall(piece)
            received = b""
            while len(received) < len(b"hello, name: cy; and more"):
                piece = connection.recv(100)
                assert piece, "the proxy ended the connection"
                received += piece
        assert received == b"hello, name: cy; and more"
        assert {name: bool(counted.bytes) for name, counted in proxy.counted().items()} == {
            "ann>bob": False,
            "cy>bob": True,
        }


@pytest.mark.parametrize("said", [b"name: dan;", b"x" * 5000], ids=["a stranger", "nobody"])
def test_others_are_hung_up_on_and_nothing_of_theirs_passes(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, door(server.getsockname()[1]) as (proxy, port):
        connection = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(said)
            assert connection.recv(1) == b""
        assert all(counted.bytes == 0 for counted in proxy.counted().values())
