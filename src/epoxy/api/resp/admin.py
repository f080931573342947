"""Commands about the connection and the server: most of them are sent by client libraries and tools."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from epoxy import __version__
from epoxy.api.resp.command import Arguments, CommandSpec, RespSession, checked_integer
from epoxy.api.resp.scan import Pattern
from epoxy.codec import resp
from epoxy.model.access import DEFAULT_USER, Access
from epoxy.model.errors import InvalidRequest
from epoxy.node.access.control import AccessControl
from epoxy.protocol.access.principal import Principal

if TYPE_CHECKING:
    from epoxy.api.resp.server import RespServer

REDIS_VERSION = "7.0.0"
"""The version of Redis that the replies follow. Some clients refuse older servers."""

MAX_PATTERNS = 16
"""Of one CONFIG GET: compiling the longest takes some milliseconds."""

MAX_NAME_BYTES = 64
"""A client's name is shown by CLIENT LIST."""


def ping(_session: RespSession, arguments: Arguments) -> bytes:
    if len(arguments) > 2:
        raise InvalidRequest("wrong number of arguments for 'ping' command")
    return resp.bulk(arguments[1]) if len(arguments) == 2 else resp.simple("PONG")


def echo(_session: RespSession, arguments: Arguments) -> bytes:
    return resp.bulk(arguments[1])


def select(_session: RespSession, arguments: Arguments) -> bytes:
    if checked_integer(arguments[1]) != 0:
        raise InvalidRequest("DB index is out of range: 0 is the only database")
    return resp.OK


def read_consistent(session: RespSession, _arguments: Arguments) -> bytes:
    session.consistent = True
    return resp.OK


def read_optimistic(session: RespSession, _arguments: Arguments) -> bytes:
    session.consistent = False
    return resp.OK


def role(_session: RespSession, _arguments: Arguments) -> bytes:
    """Every node takes writes; proxies look for a server that does."""
    return resp.array([resp.bulk(b"master"), resp.integer(0), resp.array([])])


def flush(_session: RespSession, arguments: Arguments) -> bytes:
    name = arguments[0].decode().upper()
    raise InvalidRequest(f"{name} is refused: no command deletes all keys of a cluster; SCAN them, and DEL them")


def name_client(session: RespSession, name: bytes) -> None:
    if len(name) > MAX_NAME_BYTES or not all(0x21 <= byte <= 0x7E for byte in name):
        raise InvalidRequest(f"a client's name has up to {MAX_NAME_BYTES} printable characters and no spaces")
    session.name = name


class Admin:
    """The commands that need more than their own session."""

    def __init__(self, server: "RespServer") -> None:
        self._server = server

    @staticmethod
    def auth(session: RespSession, arguments: Arguments) -> bytes | None:
        if len(arguments) > 3:
            raise InvalidRequest("wrong number of arguments for 'auth' command")
        user, token = arguments[1:] if len(arguments) == 3 else (DEFAULT_USER.encode(), arguments[1])
        return resp.OK if is_let_in(session, user, token) else wrong_token(session, user)

    @staticmethod
    def hello(session: RespSession, arguments: Arguments) -> bytes | None:
        protocol, options = hello_options(arguments)
        if protocol not in (2, 3):
            return resp.error("NOPROTO this server speaks RESP2 and RESP3")
        if b"AUTH" in options and not is_let_in(session, *options[b"AUTH"]):
            return wrong_token(session, options[b"AUTH"][0])
        if session.principal is None:
            return resp.error("NOAUTH HELLO must be called with AUTH <name> <token>, or after AUTH")
        if b"SETNAME" in options:
            name_client(session, options[b"SETNAME"][0])
        session.protocol = protocol if len(arguments) > 1 else session.protocol
        return greeting(session)

    @staticmethod
    def reset(session: RespSession, _arguments: Arguments) -> bytes:
        session.protocol, session.consistent, session.name = 2, False, b""
        session.leave_multi()
        session.forget()
        return resp.simple("RESET")

    def quit(self, session: RespSession, _arguments: Arguments) -> bytes:
        self._server.close_later(session)
        return resp.OK

    def client(self, session: RespSession, arguments: Arguments) -> bytes:
        match [arguments[1].upper(), *arguments[2:]]:
            case [b"SETNAME", name]:
                name_client(session, name)
                return resp.OK
            case [b"GETNAME"]:
                return resp.maybe_bulk(session.name or None, session.protocol)
            case [b"ID"]:
                return resp.integer(session.id)
            case [b"INFO"]:
                return resp.verbatim(described(session), session.protocol)
            case [b"LIST"]:
                return resp.verbatim("".join(map(described, self._shown(session))), session.protocol)
            case [b"SETINFO", _, _] | [b"NO-EVICT" | b"NO-TOUCH", _]:
                return resp.OK
            case [name, *_]:
                raise unknown_subcommand("CLIENT", name)
            case _:
                raise AssertionError(arguments)

    def _shown(self, session: RespSession) -> list[RespSession]:
        """The connections that this client may see: its own, all of its grant's, or, as an operator, everyone's."""
        principal = session.principal
        assert principal is not None, "CLIENT needs a grant"
        return [
            other
            for other in self._server.sessions()
            if principal.operates or (other.principal is not None and other.principal.name == principal.name)
        ]

    def config(self, session: RespSession, arguments: Arguments) -> bytes:
        if arguments[1].upper() != b"GET" or len(arguments) < 3:
            raise unknown_subcommand("CONFIG", arguments[1], ": only GET is offered; change settings in epoxy.toml")
        if len(arguments) - 2 > MAX_PATTERNS:
            raise InvalidRequest(f"CONFIG GET takes at most {MAX_PATTERNS} patterns at a time")
        patterns = [Pattern(glob.lower()) for glob in arguments[2:]]
        found = {
            name: value
            for name, value in self._server.settings().items()
            if any(pattern.matches(name.encode()) for pattern in patterns)
        }
        return resp.mapping(texts(found.items()), session.protocol)

    def command(self, session: RespSession, arguments: Arguments) -> bytes:
        everything = {command.name: command for command in self._server.table.values()}
        if len(arguments) == 1:
            return resp.array([signature(command) for command in everything.values()])
        names = [name.decode("utf-8", "replace").lower() for name in arguments[2:]] or list(everything)
        match arguments[1].upper():
            case b"COUNT":
                return resp.integer(len(everything))
            case b"LIST":
                return resp.array([resp.bulk_text(name) for name in everything])
            case b"INFO":
                nothing = resp.null(session.protocol)
                return resp.array([signature(everything[name]) if name in everything else nothing for name in names])
            case b"DOCS":
                asked = [everything[name] for name in names if name in everything]
                docs = ((resp.bulk_text(command.name), documentation(command, session)) for command in asked)
                return resp.mapping(docs, session.protocol)
            case b"GETKEYS":
                return resp.array([resp.bulk(key) for key in self._keys_of(arguments[2:])])
            case other:
                raise unknown_subcommand("COMMAND", other)

    def _keys_of(self, arguments: Arguments) -> Arguments:
        command = self._server.table.get(arguments[0].upper()) if arguments else None
        if command is None or not command.accepts(len(arguments)):
            raise InvalidRequest("Invalid command specified, or invalid number of arguments for it")
        if not command.first_key:
            raise InvalidRequest("The command has no key arguments")
        return command.keys(arguments)

    def info(self, session: RespSession, arguments: Arguments) -> bytes:
        wanted = {name.decode("utf-8", "replace").lower() for name in arguments[1:]} - {"default", "all", "everything"}
        sections = {
            "server": {
                "redis_version": REDIS_VERSION,
                "redis_mode": "standalone",
                "arch_bits": "64",
                "epoxy_version": __version__,
            },
            "clients": {"connected_clients": str(len(self._server.sessions()))},
            "replication": {"role": "master"},
            "cluster": {"cluster_enabled": "0"},
            "epoxy": dict(flat(msgspec.to_builtins(session.node.status()))),
        }
        shown = [section(name, lines) for name, lines in sections.items() if not wanted or name in wanted]
        return resp.verbatim("\r\n".join(shown), session.protocol)


WRONG_TOKEN = resp.error("WRONGPASS invalid username-password pair")
"""In the words of Redis, which libraries know."""


def is_let_in(session: RespSession, user: bytes, token: bytes) -> bool:
    """`default` lets the token alone decide, as clients that know no names say it. A node that is open asks for no
    token, and ignores one."""
    access = session.node.access
    return access.is_open or session.identify(partial(named_principal, access, user, token))


def named_principal(access: AccessControl, user: bytes, token: bytes) -> Principal | None:
    principal = access.of_token(token)
    return principal if principal is not None and user in (principal.name.encode(), DEFAULT_USER.encode()) else None


def wrong_token(session: RespSession, user: bytes) -> bytes | None:
    """The refusal waits, longer with each wrong token from the same address. What is wrong is not said."""
    name = user[:MAX_NAME_BYTES].decode("utf-8", "replace")
    node = session.node
    delay_s = node.guesses.wrong(session.address, name)
    node.audit.record("AUTH", name=name, address=session.address, outcome="refused")
    if not delay_s:
        return WRONG_TOKEN
    session.answer_later(WRONG_TOKEN, delay_s)
    return None


def acl(session: RespSession, arguments: Arguments) -> bytes:
    match [arguments[1].upper(), *arguments[2:]]:
        case [b"WHOAMI"]:
            return resp.bulk_text(user_of(session))
        case [name, *_]:
            raise unknown_subcommand("ACL", name, ": only WHOAMI is offered; change grants with epoxy auth")
        case _:
            raise AssertionError(arguments)


def user_of(session: RespSession) -> str:
    """`default` on a node that asks for no tokens; empty before a token was shown."""
    return session.principal.name or DEFAULT_USER if session.principal is not None else ""


def hello_options(arguments: Arguments) -> tuple[int, dict[bytes, Arguments]]:
    """Each option with its own arguments."""
    protocol = checked_integer(arguments[1]) if len(arguments) > 1 else 2
    options: dict[bytes, Arguments] = {}
    rest = arguments[2:]
    while rest:
        name, size = rest[0].upper(), {b"AUTH": 2, b"SETNAME": 1}.get(rest[0].upper())
        if size is None or len(rest) <= size:
            raise InvalidRequest("syntax error in HELLO")
        options[name], rest = rest[1 : size + 1], rest[size + 1 :]
    return protocol, options


def greeting(session: RespSession) -> bytes:
    words = {"server": "epoxy", "version": REDIS_VERSION, "mode": "standalone", "role": "master"}
    numbers = {"proto": session.protocol, "id": session.id}
    pairs = [*texts(words.items()), *((resp.bulk_text(name), resp.integer(each)) for name, each in numbers.items())]
    return resp.mapping([*pairs, (resp.bulk_text("modules"), resp.array([]))], session.protocol)


def texts(pairs: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(resp.bulk_text(name), resp.bulk_text(value)) for name, value in pairs]


def described(session: RespSession) -> str:
    reads = "consistent" if session.consistent else "optimistic"
    where = f"addr={session.address} laddr={session.local_address}"
    who = f"id={session.id} {where} name={session.name.decode('ascii')}"
    return f"{who} db=0 user={user_of(session)} resp={session.protocol} reads={reads}\n"


def signature(command: CommandSpec) -> bytes:
    """Name, arity, flags and positions of keys; of the fields that Redis 7 adds, only the category."""
    flags = [*(["write"] if command.writes else ["readonly"] if command.first_key else []), "fast"]
    if command.counted:
        flags.append("movablekeys")
    step = command.key_step if command.first_key else 0
    places = (0, 0, 0) if command.counted else (command.first_key, command.last_key, step)
    flagged = resp.array([resp.simple(flag) for flag in flags])
    numbers = [resp.integer(place) for place in places]
    more = [resp.array([resp.simple(f"@{command.group}")]), *[resp.array([])] * 3]
    return resp.array([resp.bulk_text(command.name), resp.integer(command.arity), flagged, *numbers, *more])


def documentation(command: CommandSpec, session: RespSession) -> bytes:
    pairs = {"summary": command.summary, "since": __version__, "group": command.group}
    return resp.mapping(texts(pairs.items()), session.protocol)


def section(name: str, lines: dict[str, str]) -> str:
    return f"# {name.capitalize()}\r\n" + "".join(f"{key}:{value}\r\n" for key, value in lines.items())


def flat(status: dict[str, object]) -> Iterable[tuple[str, str]]:
    """A line for each field; a list gives a numbered line for each member."""
    for name, value in status.items():
        if isinstance(value, list | tuple):
            for index, member in enumerate(value):
                yield f"{name}{index}", pairs(member) if isinstance(member, dict) else plain(member)
        else:
            yield name, plain(value)


def pairs(member: dict[str, object]) -> str:
    return ",".join(f"{key}={plain(each)}" for key, each in member.items())


def plain(value: object) -> str:
    """As Redis does: 1 and 0 for true and false, empty for unknown."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)


def unknown_subcommand(command: str, name: bytes, hint: str = "") -> InvalidRequest:
    said = name[:64].decode("utf-8", "replace")
    return InvalidRequest(f"unknown subcommand or wrong number of arguments for {command} '{said}'{hint}")


def commands(server: "RespServer") -> tuple[CommandSpec, ...]:
    admin = Admin(server)
    on = partial(CommandSpec, group="connection", access=Access.ANY)
    public = partial(on, access=Access.PUBLIC)
    return (
        on(name="ping", run=ping, arity=-1, summary="PONG, or the argument."),
        on(name="echo", run=echo, arity=2, summary="The argument."),
        on(name="select", run=select, arity=2, summary="Database 0, the only one."),
        on(name="readconsistent", run=read_consistent, arity=1, summary="Linearizable reads from here on."),
        on(name="readoptimistic", run=read_optimistic, arity=1, summary="Optimistic reads from here on."),
        public(name="auth", run=admin.auth, arity=-2, summary="Show a token, and the name of its grant if you like."),
        public(name="hello", run=admin.hello, arity=-1, summary="Choose RESP2 or RESP3.", alone=True),
        public(
            name="reset", run=admin.reset, arity=1, summary="Back to a fresh connection.", alone=True, ends_multi=True
        ),
        public(name="quit", run=admin.quit, arity=-1, summary="Close the connection.", ends_multi=True),
        on(name="acl", run=acl, arity=-2, summary="ACL WHOAMI: the name of the grant of this connection."),
        on(name="client", run=admin.client, arity=-2, summary="Name and number of this connection; all of them."),
        on(name="config", run=admin.config, arity=-2, summary="CONFIG GET: settings that client libraries look up."),
        on(name="command", run=admin.command, arity=-1, summary="The commands of this server."),
        on(name="role", run=role, arity=1, summary="master: every node takes writes."),
        on(name="flushdb", run=flush, arity=-1, summary="Refused: no command deletes all keys."),
        on(name="flushall", run=flush, arity=-1, summary="Refused: no command deletes all keys."),
        on(name="info", run=admin.info, arity=-1, summary="The node's status, in the form Redis gives it."),
    )
