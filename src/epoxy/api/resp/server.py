"""The RESP port of a node: what its connections share, the commands, and how all of them are closed."""

import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from epoxy.api.resp import admin, increment, leases, pairs, scan, scripts, strings, transactions, writes
from epoxy.api.resp import keys as resp_keys
from epoxy.api.resp.command import CommandSpec, RespNode, RespSession, table_of
from epoxy.api.resp.connection import RespConnection
from epoxy.api.resp.limits import RespLimits
from epoxy.codec import resp
from epoxy.protocol.access.principal import Principal
from epoxy.transport.holdings import Holdings
from epoxy.transport.http.connections import TurnShare
from epoxy.transport.http.listener import Listener, listen
from epoxy.transport.http.reserves import Room
from epoxy.transport.http.response_cache import ResponseCache
from epoxy.transport.tls import ContextOf

RESULTS = {
    b"BUSY": "refused",
    b"INDEFINITE": "unavailable",
    b"UNAVAILABLE": "unavailable",
    b"IMMUTABLE": "conflict",
    b"WRONGENGINE": "conflict",
    b"NOSESSION": "conflict",
    b"NOAUTH": "unauthenticated",
    b"WRONGPASS": "unauthenticated",
    b"NOPERM": "forbidden",
    b"QUOTA": "quota",
}
"""The label an error is counted under, by its code; "invalid" for all others."""


MAX_CHECKED = 100_000
"""Of all principals together: some ten megabytes."""


class RespServer:
    def __init__(
        self,
        node: RespNode,
        limits: RespLimits | None = None,
        holdings: Holdings | None = None,
        reserve_prefixes: Sequence[str] = (),
    ) -> None:
        """`holdings`: of the node, shared with its other listeners. `reserve_prefixes`: where NX reserves."""
        self.node = node
        self.reserve_prefixes = tuple([prefix.encode() for prefix in reserve_prefixes])
        self.limits = limits if limits is not None else RespLimits()
        self.connections: dict[int, RespConnection] = {}
        self.holdings = holdings if holdings is not None else Holdings()
        self.turns = TurnShare()
        """Of all listeners of the node, if it has others."""
        self.stopping = False
        self.immutable_values = ResponseCache()
        """Replies to GET that are valid for ever, for all sessions."""
        self.newest_values = ResponseCache()
        """Replies to GET for sessions with optimistic reads, valid until the key is overwritten."""
        node.on_overwrite(lambda key: self.newest_values.drop(resp.bulk(key)))
        self._checked: dict[Principal, set[bytes]] = {}
        self._checked_count = self._checked_generation = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self.table = table_of(
            [
                *resp_keys.COMMANDS,
                *writes.COMMANDS,
                *leases.COMMANDS,
                *increment.COMMANDS,
                *strings.COMMANDS,
                *pairs.COMMANDS,
                *scripts.COMMANDS,
                *transactions.COMMANDS,
                *scan.commands(scan.Cursors()),
                *admin.commands(self),
            ]
        )
        self._numbers = 0

    async def serve(
        self,
        host: str,
        port: int,
        *,
        ssl: ContextOf | None = None,
        room: Room | None = None,
        is_shared: bool = False,
        sockets: Sequence[socket.socket] = (),
    ) -> Listener:
        make = partial(RespConnection, self)
        return await listen(make, host, port, ssl, room=room, is_shared=is_shared, sockets=sockets)

    def last_call(self) -> None:
        """From now on a connection is closed after the replies to its next commands, which are refusals."""
        self.stopping = True

    def close(self) -> None:
        """Close every connection once its commands are answered."""
        for connection in list(self.connections.values()):
            connection.finish()

    def abort(self) -> None:
        """Close every connection now."""
        for connection in list(self.connections.values()):
            connection.abort()

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def sessions(self) -> Sequence[RespSession]:
        return list(self.connections.values())

    def settings(self) -> dict[str, str]:
        """What redis-benchmark and client libraries look up with CONFIG GET."""
        return {
            "save": "",
            "appendonly": "yes",
            "databases": "1",
            "timeout": "0",
            "maxmemory": "0",
            "maxclients": str(self.limits.connections),
            "proto-max-bulk-len": str(self.limits.argument_bytes),
        }

    def requests(self) -> dict[tuple[str, str], int]:
        """How many commands were answered, by command and result."""
        cached = {("get", "ok"): self.immutable_values.served + self.newest_values.served}
        counts = self._counts + Counter(cached)
        return {("resp_get", "ok"): 0} | {(f"resp_{name}", result): count for (name, result), count in counts.items()}

    def count(self, command: CommandSpec | None, reply: bytes) -> None:
        failed = reply.startswith(b"-")
        result = RESULTS.get(reply[1 : reply.find(b" ")], "invalid") if failed else "ok"
        self._counts[command.name if command is not None else "unknown", result] += 1

    def checked_keys(self, principal: Principal | None) -> set[bytes]:
        """The cached keys that a principal was found to be allowed to read, for all of its connections. A change of the
        grants makes other principals."""
        if self._checked_generation != self.node.access.generation:
            self._checked_generation = self.node.access.generation
            self._checked, self._checked_count = {}, 0
        return self._checked.setdefault(principal, set()) if principal is not None else set()

    def remember_checked(self, checked: set[bytes], keys: Iterable[bytes]) -> None:
        before = len(checked)
        checked.update(keys)
        self._checked_count += len(checked) - before
        if self._checked_count > MAX_CHECKED:
            for each in self._checked.values():
                each.clear()
            self._checked_count = 0

    def close_later(self, session: RespSession) -> None:
        """Close the connection once every command before this one is answered."""
        self.connections[session.id].leave()
