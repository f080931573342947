"""EXEC of commands that name one key: one write of it, with the commands as steps. What is watched is compared by its
version, so a value that was changed and changed back counts as changed."""

from collections.abc import Sequence

from epoxy.api.resp.command import RespSession
from epoxy.api.resp.keys import failure
from epoxy.api.resp.strings import begin_steps, checked_steps, encoded, now_ms
from epoxy.codec import resp
from epoxy.model.strings import Command, Reply
from epoxy.model.writes import Committed, Outcome, ReadResult, Unchanged, VersionMismatch
from epoxy.protocol.strings.evaluation import MultiSession


def execute(
    session: RespSession, key: bytes | None, commands: Sequence[Command], watched: ReadResult | None
) -> bytes | None:
    """`key` None: they name none."""
    if key is None:
        alone = MultiSession({}, now_ms(), session.node.scripts.run)
        return replies_to(session, [alone.call(command) for command in commands])
    steps = checked_steps(session, key, tuple(commands))
    session.executing = True
    answer = session.promise()

    def done(outcome: Outcome) -> None:
        session.executing = False
        if isinstance(outcome, Committed | Unchanged):
            answer(replies_to(session, outcome.replies))
        else:
            answer(nothing_done(session) if isinstance(outcome, VersionMismatch) else failure(key, outcome))

    begin_steps(session, key, steps, done, None if watched is None else version_of(watched))
    return None


def version_of(found: ReadResult) -> int:
    return found.committed.version if found.committed is not None else 0


def replies_to(session: RespSession, replies: Sequence[Reply]) -> bytes:
    return resp.array([encoded(reply, session.protocol) for reply in replies])


def nothing_done(session: RespSession) -> bytes:
    """A watched key has changed."""
    return resp.null(3) if session.protocol == 3 else b"*-1\r\n"
