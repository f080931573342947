"""When an order to a server is carried out, and when it must be given again."""

import pytest

from epoxy.protocol.elect.orders import is_done, is_news
from epoxy.protocol.elect.terms import (
    Fence,
    Follow,
    Mode,
    OpenServer,
    Order,
    Quiesce,
    ReplicationPosition,
    ServerReport,
)


def report(mode: Mode, leader: str = "", history: int = 0) -> ServerReport:
    return ServerReport(alive=True, mode=mode, leader=leader, position=ReplicationPosition(history, 1))


@pytest.mark.parametrize(
    ("order", "server", "done"),
    [
        (Fence(), report(Mode.FENCED), True),
        (Fence(), report(Mode.FOLLOWING, "a"), False),
        (Follow("a"), report(Mode.FOLLOWING, "a"), True),
        (Follow("a"), report(Mode.FOLLOWING, "b"), False),
        (OpenServer(3, 9), report(Mode.OPEN, history=3), True),
        (OpenServer(3, 9), report(Mode.OPEN, history=2), False),
        (OpenServer(3, 9), report(Mode.QUIET, history=3), False),
        (Quiesce(9), report(Mode.QUIET), True),
        (Quiesce(9), report(Mode.OPEN), False),
    ],
)
def test_an_order_is_done_when_the_server_is_as_ordered(order: Order, server: ServerReport, done: bool) -> None:
    assert is_done(order, server) is done


@pytest.mark.parametrize(
    ("wanted", "given", "news"),
    [
        (Fence(), Fence(), False),
        (Follow("a"), Follow("b"), True),
        (OpenServer(3, 149), OpenServer(3, 100), False),
        (OpenServer(3, 150), OpenServer(3, 100), True),
        (OpenServer(4, 100), OpenServer(3, 100), True),
        (Quiesce(149), Quiesce(100), False),
        (Quiesce(150), Quiesce(100), True),
        (OpenServer(3, 100), Quiesce(100), True),
    ],
)
def test_a_prolonged_lease_is_news_after_half_a_heartbeat(wanted: Order, given: Order, news: bool) -> None:
    assert is_news(wanted, given, False, 100) is news


def test_an_order_that_is_overdue_is_repeated() -> None:
    assert is_news(Fence(), Fence(), True, 100)
