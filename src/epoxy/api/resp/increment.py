"""INCR and its kin: an addition is an operation of the engine, evaluated in order where the key is folded."""

from epoxy.api.resp.command import Arguments, Handler, RespSession, checked_integer, checked_key
from epoxy.api.resp.keys import failure, write
from epoxy.api.resp.session_access import LONGEST_NUMBER, charged, check_quota, writer_of
from epoxy.codec import resp
from epoxy.model.errors import InvalidRequest
from epoxy.model.integers import LEAST_INTEGER
from epoxy.model.writes import Committed, Outcome, Write


def increment(sign: int) -> Handler:
    def run(session: RespSession, arguments: Arguments) -> None:
        delta = checked_integer(arguments[2]) if len(arguments) > 2 else 1
        if delta == LEAST_INTEGER:
            raise InvalidRequest("increment or decrement would overflow")
        add(session, checked_key(arguments[1]), sign * delta)

    return run


def add(session: RespSession, key: bytes, amount: int) -> None:
    check_quota(session, len(key) + LONGEST_NUMBER)
    answer = session.promise()

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, Committed):
            assert outcome.proposal.value is not None, outcome
            answer(resp.integer(int(outcome.proposal.value)))
        else:
            answer(failure(key, outcome))

    write_it = Write(key=key, value=None, mutable=True, amount=amount)
    session.node.write(write_it, charged(session, writer_of(session), key, done))


COMMANDS = (
    write("incr", increment(1), 2, "Add 1 to a mutable integer."),
    write("incrby", increment(1), 3, "Add to a mutable integer."),
    write("decr", increment(-1), 2, "Subtract 1 from a mutable integer."),
    write("decrby", increment(-1), 3, "Subtract from a mutable integer."),
)
