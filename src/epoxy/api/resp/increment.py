"""INCR and its kin: an addition is an operation of the engine, evaluated in order where the key is folded."""

from epoxy.api.resp.command import Arguments, RespSession, checked_integer, checked_key
from epoxy.api.resp.keys import failure, write
from epoxy.api.resp.session_access import charged, check_quota, writer_of
from epoxy.codec import resp
from epoxy.model.errors import InvalidRequest
from epoxy.model.integers import LEAST_INTEGER, LONGEST_INTEGER
from epoxy.model.writes import Committed, Outcome, Write


def increment(session: RespSession, arguments: Arguments) -> None:
    add(session, checked_key(arguments[1]), amount_of(arguments))


def decrement(session: RespSession, arguments: Arguments) -> None:
    """The least number has no positive counterpart of 64 bits; the words are those of Redis."""
    amount = amount_of(arguments)
    if amount == LEAST_INTEGER:
        raise InvalidRequest("decrement would overflow")
    add(session, checked_key(arguments[1]), -amount)


def amount_of(arguments: Arguments) -> int:
    return checked_integer(arguments[2]) if len(arguments) > 2 else 1


def add(session: RespSession, key: bytes, amount: int) -> None:
    check_quota(session, len(key) + LONGEST_INTEGER)
    answer = session.promise()

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, Committed):
            assert outcome.proposal.value is not None, outcome
            answer(resp.integer(int(outcome.proposal.value)))
        else:
            answer(failure(key, outcome))

    write_it = Write(key=key, value=None, mutable=True, amount=amount)
    session.node.write(write_it, charged(session, writer_of(session), key, done), session.caller)


COMMANDS = (
    write("incr", increment, 2, "Add 1 to a mutable integer."),
    write("incrby", increment, 3, "Add to a mutable integer."),
    write("decr", decrement, 2, "Subtract 1 from a mutable integer."),
    write("decrby", decrement, 3, "Subtract from a mutable integer."),
)
