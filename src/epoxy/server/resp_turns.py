"""Commands that take more than one turn of the event loop."""

from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic

from epoxy.codec import resp
from epoxy.model.errors import StoreFailed
from epoxy.server.resp_command import Answer, Session
from epoxy.server.resp_limits import TURN_S


def in_turns(session: Session, work: Iterator[None], then: Callable[[], None], answer: Answer) -> None:
    """Do one step after the other until the turn is over, and go on in the next: others wait for one turn at most,
    however many keys a command names and however long their values are. Until it is done nothing else of this
    connection begins; if the client leaves, what is left is not done."""
    until = monotonic() + TURN_S
    try:
        for _ in work:
            if monotonic() > until:
                session.executing = True
                session.soon(partial(in_turns, session, work, then, answer))
                return
        session.executing = False
        then()
    except StoreFailed:
        raise
    except Exception:
        session.executing = False
        answer(resp.error("ERR internal error, outcome unknown"))
        raise
