"""Commands as lines of text, for tests: `run("SET k v", "TTL k")`."""

import shlex

from epoxy.model.strings import Command, Evaluated, Fault, Register, Reply, SimpleString, Steps
from epoxy.protocol.strings.evaluation import evaluate
from epoxy.protocol.strings.scripts import RunScript

NOW_MS = 1_700_000_000_123


def command(line: str) -> Command:
    return tuple([word.encode("latin1") for word in shlex.split(line)])


def run(*lines: str, value: bytes | None = None, ms: int | None = None, scripts: RunScript | None = None) -> Evaluated:
    """On a key `k` with this value and this time left."""
    steps = Steps(commands=tuple(map(command, lines)), now_ms=NOW_MS, seed=7)
    return evaluate(steps, Register(value=value, remaining_ms=ms), scripts)


def shown(reply: Reply) -> object:
    """Errors and simple strings as text, so that tables read like a terminal."""
    match reply:
        case Fault(text):
            return f"-{text}"
        case SimpleString(text):
            return f"+{text}"
        case tuple():
            return tuple(map(shown, reply))
        case _:
            return reply


def reply_to(line: str, value: bytes | None = None, ms: int | None = None) -> object:
    (reply,) = run(line, value=value, ms=ms).replies
    return shown(reply)


def after(line: str, value: bytes | None = None, ms: int | None = None) -> tuple[bytes | None, int, bool]:
    """Value and expiry after a command, and whether it wrote."""
    done = run(line, value=value, ms=ms)
    return done.value, done.expiry, done.changed
