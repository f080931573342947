"""What a Redis client may do: its commands and their keys are checked against its grant, and its writes against its
quotas."""

from collections.abc import Callable, Iterable

from epoxy.api.resp.command import Arguments, CommandSpec, OverQuota, RespSession, shown
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.integers import LONGEST_INTEGER
from epoxy.model.strings import Command
from epoxy.model.transactions import Add, Compare, Get, Put, Txn
from epoxy.model.writes import Outcome
from epoxy.protocol.access.principal import OPEN, Principal, lacks_prefix, lacks_role

READ, WRITE = Access.READ, Access.WRITE
"""Looked up once: a member of an enumeration costs as much as the rest of a check."""

NOAUTH = resp.error("NOAUTH Authentication required.")

Answered = Callable[[Outcome], None]


def refusal(principal: Principal, command: CommandSpec, arguments: Arguments) -> bytes | None:
    """Why this client may not run this command with these keys; None: it may. A command that names no keys, like SCAN,
    shows by itself only what may be read."""
    access = command.access
    if access is READ:
        if principal.reads_all:
            return None
        has_role, may = principal.reads, principal.may_read
    elif access is WRITE:
        if principal.writes_all:
            return None
        has_role, may = principal.writes, principal.may_write
    else:
        return None if principal.has(access) else no_permission(lacks_role(principal, access, command.name.upper()))
    if not has_role:
        return no_permission(lacks_role(principal, access, command.name.upper()))
    for key in command.keys(arguments) if command.first_key else ():
        if not may(key):
            return no_permission(lacks_prefix(principal, shown(key)))
    return None


def transaction_refusal(principal: Principal, txn: Txn) -> bytes | None:
    """The same for what EXEC is about to do: rights may have changed since its commands were queued and its keys
    watched, and the client may be another one."""
    if principal.reads_all and principal.writes_all:
        return None
    reads = [each.key for each in (*txn.compares, *txn.then) if isinstance(each, Compare | Get)]
    writes = [each.key for each in txn.then if not isinstance(each, Get)]
    for keys, access, may in (
        (reads, Access.READ, principal.may_read),
        (writes, Access.WRITE, principal.may_write),
    ):
        if keys and not principal.has(access):
            return no_permission(f"nothing was done: {lacks_role(principal, access, 'this transaction')}")
        for key in keys:
            if not may(key):
                return no_permission(f"nothing was done: {lacks_prefix(principal, shown(key))}")
    return None


def steps_refusal(
    principal: Principal, commands: Iterable[tuple[CommandSpec, Command]], watched: Iterable[bytes]
) -> bytes | None:
    """The same for commands of one key."""
    for spec, command in commands:
        refused = refusal(principal, spec, list(command))
        if refused is not None:
            return refused.replace(b"-NOPERM ", b"-NOPERM nothing was done: ", 1)
    for key in watched:
        if not principal.has(Access.READ):
            return no_permission(f"nothing was done: {lacks_role(principal, Access.READ, 'this transaction')}")
        if not principal.may_read(key):
            return no_permission(f"nothing was done: {lacks_prefix(principal, shown(key))}")
    return None


def no_permission(reason: str) -> bytes:
    return resp.error(f"NOPERM {reason}")


def over_rate(principal: Principal, wait_s: float) -> bytes:
    rate = f"{principal.name} may send {principal.requests_per_s} a second to this node"
    return resp.error(f"QUOTA nothing was done: {rate}; try again in {wait_s:.2f} s")


def writer_of(session: RespSession) -> Principal:
    """The client of a command that begins. A long one keeps it: its grant may end before the command does."""
    assert session.principal is not None, "only clients that were let in write"
    return session.principal


def check_quota(session: RespSession, more_bytes: int) -> None:
    """Raises OverQuota before a write that its client has no room for."""
    principal = writer_of(session)
    if principal.stored_bytes and (reason := session.node.quotas.refusal(principal, more_bytes)) is not None:
        raise OverQuota(f"nothing was written: {reason}")


def charged(session: RespSession, principal: Principal, key: bytes, answered: Answered) -> Answered:
    """What the outcome of a write is given to, so that it counts for its client."""
    if not principal.stored_bytes:
        return answered

    def charge(outcome: Outcome) -> None:
        session.node.quotas.charge(principal, key, outcome)
        answered(outcome)

    return charge


def size_of(txn: Txn) -> int:
    """Of what a transaction may store."""
    puts = [len(each.key) + len(each.value) for each in txn.then if isinstance(each, Put)]
    return sum(puts) + sum([len(each.key) + LONGEST_INTEGER for each in txn.then if isinstance(each, Add)])


def nothing_shown() -> None:
    return None


def open_to_all() -> Principal:
    return OPEN


def spelled(address: object) -> str:
    """As Redis writes it; IPv6 addresses in brackets."""
    if not isinstance(address, tuple):
        return ""
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
