"""Whether an order to a server was carried out, and whether another must be given."""

from typing import assert_never

from epoxy.protocol.elect.terms import Fence, Follow, Mode, OpenServer, Order, Quiesce, ServerReport


def is_done(order: Order, server: ServerReport) -> bool:
    """A server is open for an epoch only if its data has the mark of the epoch: a FLUSHALL deletes that too."""
    match order:
        case Fence():
            return server.mode is Mode.FENCED
        case Follow():
            return server.mode is Mode.FOLLOWING and server.leader == order.leader
        case OpenServer():
            return server.mode is Mode.OPEN and server.position.history == order.epoch
        case Quiesce():
            return server.mode is Mode.QUIET
        case _:
            assert_never(order)


def is_news(wanted: Order, given: Order, overdue: bool, interval_ms: int) -> bool:
    """A prolonged lease is passed on when it has grown by half a heartbeat; an order that was not carried out is
    repeated."""
    if overdue:
        return True
    match wanted, given:
        case (OpenServer(), OpenServer()) if wanted.epoch == given.epoch:
            return wanted.until_ms - given.until_ms >= interval_ms // 2
        case (Quiesce(), Quiesce()):
            return wanted.until_ms - given.until_ms >= interval_ms // 2
        case _:
            return wanted != given
