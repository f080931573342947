"""The control socket: orders and replies, and sockets of demos that are gone."""

import socket
import threading
from pathlib import Path

import pytest

from epoxy.cli.demo import control
from epoxy.cli.demo.control import ControlSocket, DemoOrder, DemoReply
from epoxy.model.errors import InvalidRequest


def test_an_order_is_asked_and_answered(tmp_path: Path) -> None:
    told = DemoReply(done=True, lines=["as you wish"], demo={"dir": str(tmp_path)})
    heard: list[DemoOrder] = []

    def perform(order: DemoOrder) -> DemoReply:
        heard.append(order)
        return told

    office = ControlSocket(1234)

    def serve_two() -> None:
        for _ in range(2):
            office.serve(perform, 10.0)

    server = threading.Thread(target=serve_two, daemon=True)
    server.start()
    path = control.find(folder=tmp_path, port_base=None)
    assert control.ask(path, DemoOrder(verb="cut", region="a", others=("b",))) == told
    server.join()
    office.close()
    assert heard == [DemoOrder(verb="ps"), DemoOrder(verb="cut", region="a", others=("b",))]
    assert control.ask(path, DemoOrder(verb="ps")) is None


def test_a_demo_that_was_killed_leaves_nothing_to_believe(tmp_path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "1234.sock"))
    dead.close()
    with pytest.raises(InvalidRequest, match="no demo is running; `epoxy demo` starts one"):
        control.find(folder=None, port_base=None)
    ControlSocket(1234).close()
    assert list(tmp_path.iterdir()) == []


def test_gibberish_is_no_order() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert control.read_order(here) == DemoOrder(verb="unreadable")


def test_an_order_that_is_too_long_is_not_sent(tmp_path: Path) -> None:
    """The demo would hang up on it, as if it had ended."""
    with pytest.raises(InvalidRequest, match=f"an order has at most {control.MAX_ORDER_BYTES} bytes"):
        control.ask(tmp_path / "none.sock", DemoOrder(verb="race", name="x" * control.MAX_ORDER_BYTES))
    longest = DemoOrder(verb="race", region="r" * 64, others=("o" * 64,), name="\x01" * 1024)
    assert control.ask(tmp_path / "none.sock", longest) is None
