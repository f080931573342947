"""EVAL and its kin. A script with a key is one step of a write of that key; one without keys runs here, on nothing."""

import random

from epoxy.api.resp.admin import unknown_subcommand
from epoxy.api.resp.command import Arguments, CommandSpec, Handler, RespSession
from epoxy.api.resp.strings import encoded, now_ms, run_parsed
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.errors import InvalidRequest
from epoxy.model.strings import Command, Fault
from epoxy.protocol.strings.evaluation import MultiSession, parse
from epoxy.protocol.strings.scripts import NO_SCRIPT


def eval_(session: RespSession, arguments: Arguments) -> bytes | None:
    return run_script(session, tuple(arguments))


def evalsha(session: RespSession, arguments: Arguments) -> bytes | None:
    return run_script(session, with_source(session, tuple(arguments)))


def with_source(session: RespSession, command: Command) -> Command:
    """EVALSHA as EVAL, EVALSHA_RO as EVAL_RO. One whose script this node does not know stays as it is, and fails: the
    client sends the source next, as with any Redis."""
    name = command[0].upper()
    if name not in (b"EVALSHA", b"EVALSHA_RO"):
        return command
    source = session.node.scripts.source(command[1].decode("ascii", "replace"))
    return command if source is None else (name.replace(b"SHA", b""), source, *command[2:])


def run_script(session: RespSession, command: Command) -> bytes | None:
    parsed = parse(command)
    if isinstance(parsed, Fault):
        return encoded(parsed, session.protocol)
    if parsed.name.startswith("evalsha"):
        return resp.error(NO_SCRIPT)
    if not parsed.keys:
        alone = MultiSession({}, now_ms(), session.node.scripts.run, random.getrandbits(32))
        return encoded(alone.call(command), session.protocol)
    if len(parsed.keys) > 1:
        raise InvalidRequest(
            f"a script works on one key, and this one names {len(parsed.keys)}: nothing was done; "
            "use MULTI for commands on several"
        )
    return run_parsed(session, parsed)


def script(session: RespSession, arguments: Arguments) -> bytes:
    """Sources are this node's, in memory, as in Redis."""
    scripts, words = session.node.scripts, arguments[2:]
    match arguments[1].upper(), len(words):
        case b"LOAD", 1:
            name = scripts.load(words[0])
            return resp.error(name.text) if isinstance(name, Fault) else resp.bulk_text(name)
        case b"EXISTS", count if count:
            return resp.array([resp.integer(int(scripts.exists(word.decode("ascii", "replace")))) for word in words])
        case b"FLUSH", 0 | 1:
            if words and words[0].upper() not in (b"SYNC", b"ASYNC"):
                raise InvalidRequest("SCRIPT FLUSH only support SYNC|ASYNC option")
            scripts.flush()
            return resp.OK
        case b"KILL", 0:
            return resp.error("NOTBUSY No scripts in execution right now.")
        case _:
            raise unknown_subcommand("SCRIPT", arguments[1], ": LOAD source, EXISTS sha1 ..., FLUSH")


def of_script(name: str, run: Handler, access: Access, summary: str) -> CommandSpec:
    return CommandSpec(
        name=name,
        run=run,
        arity=-3,
        summary=summary,
        group="scripting",
        access=access,
        first_key=3,
        counted=True,
    )


COMMANDS = (
    of_script("eval", eval_, Access.WRITE, "Run a script on one key."),
    of_script("eval_ro", eval_, Access.READ, "Run a script that only reads."),
    of_script("evalsha", evalsha, Access.WRITE, "Run a script that this node knows, by its SHA-1."),
    of_script("evalsha_ro", evalsha, Access.READ, "Run a script that only reads, by its SHA-1."),
    CommandSpec(
        name="script",
        run=script,
        arity=-2,
        summary="LOAD, EXISTS, FLUSH: the scripts that this node knows.",
        group="scripting",
        access=Access.ANY,
    ),
)
