"""Commands that write between keys, or several at once. In Redis all of them are atomic. Here each key of MSET is
decided by itself, as are those of DEL, because a transaction costs more than its writes; MSETNX, RENAME, COPY and
BITOP, which are about several keys at one moment, are transactions."""

from functools import partial

from epoxy.api.resp.command import Arguments, CommandSpec, Handler, RespSession, checked_key, checked_value
from epoxy.api.resp.keys import failure
from epoxy.api.resp.queued_evaluation import QueuedEvaluation
from epoxy.api.resp.session_access import charged, check_quota, size_of, writer_of
from epoxy.api.resp.strings import encoded, spec
from epoxy.api.resp.transactions import reply_to
from epoxy.api.resp.turns import Ended, Spread
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.errors import InvalidRequest
from epoxy.model.strings import Fault
from epoxy.model.transactions import Compare, Executed, Put, Txn, TxnOutcome, flaw_of
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Write
from epoxy.protocol.strings.evaluation import parse
from epoxy.protocol.strings.faults import wrong_arity

Pairs = dict[bytes, bytes]


def pairs_of(name: str, arguments: Arguments) -> Pairs:
    """The last value of a key that is named twice counts."""
    if len(arguments) % 2 == 0:
        raise InvalidRequest(wrong_arity(name).removeprefix("ERR "))
    return {checked_key(key): checked_value(value) for key, value in zip(arguments[1::2], arguments[2::2], strict=True)}


class WriteBatch:
    """MSET: each key is decided by itself. If some fail, the reply is the error of one of them, preferably one whose
    outcome is unknown, with the number of keys that were written."""

    def __init__(self, session: RespSession, pairs: Pairs) -> None:
        self._session = session
        self._principal = writer_of(session)
        self._pairs = pairs
        self._failures: list[tuple[bytes, Outcome]] = []
        self._answer = session.promise()

    def start(self) -> None:
        is_full = partial(self._session.node.is_full, writes=True)
        Spread(self._session, self._pairs, self._write, is_full, self._reply, self._answer).go_on()

    def _write(self, key: bytes, ended: Ended) -> None:
        written = charged(self._session, self._principal, key, partial(self._heard, key, ended))
        self._session.node.write(Write(key=key, value=self._pairs[key], mutable=True), written, self._session.caller)

    def _heard(self, key: bytes, ended: Ended, outcome: Outcome) -> None:
        if not isinstance(outcome, Committed):
            self._failures.append((key, outcome))
        ended()

    def _reply(self) -> None:
        if not self._failures:
            self._answer(resp.OK)
            return
        message = failure(*max(self._failures, key=lambda failed: isinstance(failed[1], ConsensusFailed)))
        if len(self._pairs) > 1:
            written = len(self._pairs) - len(self._failures)
            message = resp.error(f"{message[1:-2].decode()}; {written} of {len(self._pairs)} keys were written")
        self._answer(message)


def mset(session: RespSession, arguments: Arguments) -> None:
    pairs = pairs_of("mset", arguments)
    check_quota(session, sum([len(key) + len(value) for key, value in pairs.items()]))
    WriteBatch(session, pairs).start()


def msetnx(session: RespSession, arguments: Arguments) -> bytes | None:
    pairs = pairs_of("msetnx", arguments)
    absent = tuple([Compare(key=key, absent=True) for key in pairs])
    txn = Txn(compares=absent, then=tuple([Put(key=key, value=value) for key, value in pairs.items()]))
    flaw = flaw_of(txn)
    if flaw is not None:
        raise InvalidRequest(f"nothing was done: {flaw}")
    check_quota(session, size_of(txn))
    answer = session.promise()

    def done(outcome: TxnOutcome) -> None:
        if isinstance(outcome, Executed):
            answer(resp.integer(int(outcome.succeeded)))
        else:
            answer(reply_to(session, [], outcome))

    session.node.txn(txn, session.node.quotas.charging(writer_of(session), txn, done), session.caller)
    return None


def between(session: RespSession, arguments: Arguments) -> bytes | None:
    """RENAME, RENAMENX, COPY, BITOP."""
    parsed = parse(tuple(arguments))
    if isinstance(parsed, Fault):
        return encoded(parsed, session.protocol)
    keys = list(dict.fromkeys(map(checked_key, parsed.keys)))
    QueuedEvaluation(
        session,
        [parsed.command],
        keys,
        {},
        lambda replies: encoded(replies[0], session.protocol),
        partial(reply_to, session, []),
    ).begin()
    return None


def of_pairs(name: str, run: Handler, summary: str) -> CommandSpec:
    return CommandSpec(
        name=name,
        run=run,
        arity=-3,
        summary=summary,
        group="string",
        access=Access.WRITE,
        first_key=1,
        last_key=-1,
        key_step=2,
    )


COMMANDS = (
    of_pairs("mset", mset, "Write several keys, each by itself."),
    of_pairs("msetnx", msetnx, "Write several keys that have no value, all or none: 1 if this call did."),
    spec("rename", "Give a value another name, with the time it has left.", between),
    spec("renamenx", "The same, if there is no value under that name.", between),
    spec("copy", "Copy a value, with the time it has left.", between),
    spec("bitop", "AND, OR, XOR or NOT of values, into a key.", between),
)
