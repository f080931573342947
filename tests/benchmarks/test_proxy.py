"""The delay proxy as a pipe. How long it holds things back is measured by the benchmark itself."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from benchmarks.proxy import DelayProxy, Link, Pipe
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
