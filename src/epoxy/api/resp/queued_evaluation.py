"""Commands on several keys that have no operation in transactions, of EXEC or alone: they are evaluated here, on the
versions of the keys that are known here, and a transaction writes the results if those are still the versions. If they
are not, its answer has the newer ones, and the commands are evaluated again; unless a watched key is among them.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial

from epoxy.api.resp.command import OverQuota, RespSession, shown
from epoxy.api.resp.keys import known, unreadable
from epoxy.api.resp.session_access import check_quota, size_of, writer_of
from epoxy.api.resp.single_key import nothing_done, version_of
from epoxy.api.resp.strings import now_ms, register_of
from epoxy.codec import resp
from epoxy.model.records import Proposal
from epoxy.model.strings import KEEP, PERSIST, Command, Evaluated, Reply
from epoxy.model.transactions import Compare, Delete, Executed, Operation, Put, Txn, TxnOutcome, flaw_of
from epoxy.model.writes import ReadAnswer, ReadResult, Source
from epoxy.node.txn import transactions
from epoxy.protocol.strings.evaluation import MultiSession

MOST_TRIES = 16
"""Each that fails means that another write of one of the keys took effect meanwhile."""


class QueuedEvaluation:
    """Of one EXEC, or one command. No other command of its connection begins before it is answered."""

    def __init__(
        self,
        session: RespSession,
        commands: Sequence[Command],
        keys: Sequence[bytes],
        watched: dict[bytes, ReadResult],
        shape: Callable[[Sequence[Reply]], bytes],
        failed: Callable[[TxnOutcome], bytes],
    ) -> None:
        """`shape` makes one reply of those to the commands, `failed` of a transaction that was not executed."""
        self._session = session
        self._principal = writer_of(session)
        self._commands = commands
        self._keys = keys
        self._watched = watched
        self._shape = shape
        self._failed = failed
        self._found = dict(watched)
        self._missing = 0
        self._tries = MOST_TRIES
        self._unread: bytes | None = None
        self._answer = session.promise()
        self._seed = random.getrandbits(32)

    def begin(self) -> None:
        self._session.executing = True
        unknown = [key for key in self._keys if key not in self._found and not self._is_known(key)]
        self._missing = len(unknown)
        session = self._session
        for key in unknown:
            session.node.read(key, session.consistency, partial(self._heard, key), session.caller)
        if not unknown:
            self._evaluate()

    def _is_known(self, key: bytes) -> bool:
        here = known(self._session, key)
        if here is not None:
            self._found[key] = here
        return here is not None

    def _heard(self, key: bytes, outcome: ReadAnswer) -> None:
        self._missing -= 1
        if isinstance(outcome, ReadResult):
            self._found[key] = outcome
        else:
            self._unread = unreadable(key, outcome)
        if self._missing:
            return
        if self._unread is not None:
            self._end(self._unread)
        else:
            self._evaluate()

    def _evaluate(self) -> None:
        """A name that is reserved stays what it is, so it need not be compared."""
        session, found = self._session, self._found
        registers = {key: register_of(session, key, found[key]) for key in self._keys}
        work = MultiSession(registers, now_ms(), session.node.scripts.run, self._seed)
        replies = [work.call(command) for command in self._commands]
        changed = work.changed()
        reserved = [key for key in self._keys if is_reserved(found[key])]
        taken = next((key for key in reserved if key in changed), None)
        if taken is not None:
            self._end(resp.error(f"IMMUTABLE {shown(taken)} is reserved for ever and cannot be overwritten or deleted"))
            return
        compared = [key for key in self._keys if key not in reserved]
        if not compared:
            self._end(self._shape(replies))
            return
        txn = Txn(
            compares=tuple([Compare(key=key, version=version_of(found[key])) for key in compared]),
            then=tuple([operation_of(key, each) for key, each in changed.items()]),
        )
        flaw = flaw_of(txn)
        if flaw is not None:
            self._end(resp.error(f"EXECABORT nothing was done: {flaw}"))
            return
        try:
            check_quota(session, size_of(txn))
        except OverQuota as error:
            self._end(resp.error(f"QUOTA {error}"))
            return
        heard = partial(self._executed, compared, replies)
        session.node.txn(txn, session.node.quotas.charging(self._principal, txn, heard), session.caller)

    def _executed(self, compared: Sequence[bytes], replies: Sequence[Reply], outcome: TxnOutcome) -> None:
        if not isinstance(outcome, Executed):
            self._end(self._failed(outcome))
        elif outcome.succeeded:
            self._end(self._shape(replies))
        else:
            self._again(dict(zip(compared, map(transactions.shown, outcome.compared), strict=True)))

    def _again(self, newer: dict[bytes, Proposal]) -> None:
        changed = [key for key, row in newer.items() if row.version != version_of(self._found[key])]
        self._tries -= 1
        if any(key in self._watched for key in changed):
            self._end(nothing_done(self._session))
        elif not self._tries:
            self._end(resp.error("BUSY nothing was done: other clients wrote these keys again and again"))
        else:
            for key in changed:
                self._found[key] = ReadResult(committed=newer[key], source=Source.QUORUM)
            self._evaluate()

    def _end(self, reply: bytes) -> None:
        self._session.executing = False
        self._answer(reply)


def is_reserved(found: ReadResult) -> bool:
    return found.committed is not None and not found.committed.mutable


def operation_of(key: bytes, evaluated: Evaluated) -> Operation:
    if evaluated.value is None:
        return Delete(key=key)
    if evaluated.expiry == KEEP:
        return Put(key=key, value=evaluated.value, keep_expiry=True)
    return Put(key=key, value=evaluated.value, ttl_ms=0 if evaluated.expiry == PERSIST else evaluated.expiry)
