"""The door for Redis clients.

Replies leave in the order of the commands, whatever the order their operations finish in. Commands of one connection
that name the same key run one after the other, unless all of them only read; others run at the same time, because a
write may take a round trip around the world. Nothing is read from a connection that has commands waiting or replies
unsent, so what a client may make us hold is bounded, and it bounds itself alone.
"""

import asyncio
import logging
import ssl as tls
from collections import Counter, deque
from collections.abc import Callable, Sequence
from socket import SO_KEEPALIVE, SOL_SOCKET
from typing import cast

from epoxy.api.resp import admin, increment, scan, transactions
from epoxy.api.resp import keys as resp_keys
from epoxy.api.resp.command import Answer, Arguments, CommandSpec, RespNode, RespSession, shown, table_of
from epoxy.api.resp.limits import CACHED_GETS_BYTES, FLUSH_BYTES, LONG_CHUNK_BYTES, TURN_S, UNAUTHENTICATED
from epoxy.api.resp.limits import RespLimits as RespLimits
from epoxy.api.resp.reply_queue import Busy, Promise, Slot
from epoxy.codec import resp
from epoxy.codec.resp import CommandReader
from epoxy.model.errors import InvalidRequest, StoreFailed
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.transport.http.graceful_close import CLOSE_DELAY_S, FLUSH_S, cork, end_stream
from epoxy.transport.http.listener import Listener, listen
from epoxy.transport.http.response_cache import ResponseCache

log = logging.getLogger(__name__)

GETS = frozenset((b"*2\r\n$3\r\nGET\r\n", b"*2\r\n$3\r\nget\r\n"))
GET_BYTES = 13
"""How every GET begins, up to its key."""

RESULTS = {
    b"BUSY": "refused",
    b"TRYAGAIN": "unavailable",
    b"UNAVAILABLE": "unavailable",
    b"IMMUTABLE": "conflict",
    b"WRONGENGINE": "conflict",
}
"""The word an error is counted under, by its code; "invalid" for all others."""


class RespDoor:
    """What the connections of one node share."""

    def __init__(self, node: RespNode, limits: RespLimits | None = None, password: str | None = None) -> None:
        self.node = node
        self.limits = limits if limits is not None else RespLimits()
        self.password = password.encode() if password is not None else None
        self.connections: dict[int, RespConnection] = {}
        self.stopping = False
        self.lasting = ResponseCache()
        """To GETs, good for everybody for ever."""
        self.passing = ResponseCache()
        """... and to those that do not ask for a quorum, until the key changes."""
        node.on_overwrite(lambda key: self.passing.drop(resp.bulk(key)))
        self._counts: Counter[tuple[str, str]] = Counter()
        self.table = table_of(
            [
                *resp_keys.COMMANDS,
                *increment.COMMANDS,
                *transactions.COMMANDS,
                *scan.commands(scan.Cursors()),
                *admin.commands(self),
            ]
        )
        self._numbers = 0

    async def serve(self, host: str, port: int, *, ssl: tls.SSLContext | None = None) -> Listener:
        return await listen(lambda: RespConnection(self), host, port, ssl)

    def last_call(self) -> None:
        """From here on a connection closes behind the answers to what it sends next, which are refusals."""
        self.stopping = True

    def close(self) -> None:
        """Commands under way are still answered, and then the connections go."""
        for connection in list(self.connections.values()):
            connection.leave()

    def abort(self) -> None:
        """... whether they are answered or not."""
        for connection in list(self.connections.values()):
            connection.abort()

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def sessions(self) -> Sequence[RespSession]:
        return list(self.connections.values())

    def settings(self) -> dict[str, str]:
        """What redis-benchmark and client libraries look up."""
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
        """How many were answered, by command and result."""
        counts = {(f"resp_{name}", result): count for (name, result), count in self._counts.items()}
        return counts | {
            ("resp_get", "ok"): counts.get(("resp_get", "ok"), 0) + self.lasting.served + self.passing.served
        }

    def count(self, command: CommandSpec | None, reply: bytes) -> None:
        failed = reply.startswith(b"-")
        result = RESULTS.get(reply[1 : reply.find(b" ")], "invalid") if failed else "ok"
        self._counts[command.name if command is not None else "unknown", result] += 1

    def depart(self, session: RespSession) -> None:
        self.connections[session.id].leave()

    def admitted(self, session: RespSession) -> None:
        session.authenticated = True
        self.connections[session.id].reader.limits = self.limits.reader


class RespConnection(RespSession, asyncio.Protocol):
    """Invariants: 1. replies leave in the order of `_slots`, and what is in `_out` comes before them.
    2. commands in `_queue` have not begun.  3. while `_queue` is not empty nothing is read.
    """

    def __init__(self, door: RespDoor) -> None:
        super().__init__(door.node, door.next_number(), authenticated=door.password is None)
        self.reader = CommandReader(door.limits.reader if door.password is None else UNAUTHENTICATED)
        self._door = door
        self._limits = door.limits
        self._table = door.table
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._queue: deque[Arguments] = deque()
        self._slots: deque[Slot] = deque()
        self._held = 0
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._reading: Busy = {}
        self._writing: Busy = {}
        self._running: tuple[CommandSpec, Arguments] | None = None
        self._promised: Promise | None = None
        self._working = self._scheduled = False
        self._clogged = self._paused = self._resting = False
        self._leaving = self._ended = self._parted = False

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass.
        if len(self._door.connections) >= self._limits.connections:
            transport.write(resp.error("ERR max number of clients reached"))
            transport.close()
            return
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.held_bytes)
        transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)  # Idle is fine, gone is not.
        self.address = spelled(transport.get_extra_info("peername"))
        self.local_address = spelled(transport.get_extra_info("sockname"))
        self._door.connections[self.id] = self

    def connection_lost(self, _error: Exception | None) -> None:
        """Operations under way go on; nobody will hear of them."""
        self._transport = None
        self._door.connections.pop(self.id, None)
        self._queue.clear()
        self._slots.clear()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._leaving or self._parted:
            return
        if data[:GET_BYTES] in GETS and self._recite(data):
            return
        self._queue.extend(self.reader.feed(data))
        self._ended |= self._door.stopping and bool(self._queue)
        if len(data) >= LONG_CHUNK_BYTES and not self._resting:
            self._resting = True
            self._loop.call_soon(self._rested)
        self._work()

    def _rested(self) -> None:
        self._resting = False
        self._pace()

    def eof_received(self) -> bool:
        """Who sends a script and closes its half still wants the answers. TLS has no halves."""
        transport = self._transport
        if transport is None or self._parted or transport.get_extra_info("sslcontext") is not None:
            return False
        self._ended = True
        self._schedule()
        return True

    def pause_writing(self) -> None:
        self._clogged = True

    def resume_writing(self) -> None:
        self._clogged = False
        self._schedule()

    # What commands use.

    @property
    def ready(self) -> ResponseCache:
        return self._door.lasting if self.consistent else self._door.passing

    def promise(self) -> Answer:
        assert self._running is not None, "promises are made while a command runs"
        command, arguments = self._running
        promised = Promise(command, arguments, self._writing if command.writes else self._reading, self._filled)
        self._slots.append(promised)
        self._held += promised.weight
        self._promised = promised
        return promised.fill

    def _filled(self, promised: Promise, reply: bytes) -> None:
        """Answers of one turn of the loop leave together; one that nothing else waits with leaves now."""
        self._held += len(reply) - promised.weight
        self._door.count(promised.command, reply)
        if len(self._slots) > 1 or self._queue or self._working:
            self._schedule()
        elif self._out or self._clogged or self._leaving or self._ended or self.reader.fault is not None:
            self._work()
        elif self._transport is not None:
            self._slots.clear()
            self._held -= len(reply)
            self._transport.write(reply)
            self._pace()

    def soon(self, step: Callable[[], None]) -> None:
        """Not for somebody who has left."""
        self._loop.call_soon(lambda: step() if self._transport is not None else None)

    def leave(self) -> None:
        """Answer what has begun, then close."""
        self._leaving = True
        self._schedule()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # The line.

    def _recite(self, data: bytes) -> bool:
        """Answer GETs of names whose values are known by heart, without reading them as commands: between two of them
        is nothing but the beginning of a GET, and what is left is a key exactly as a command has it. False: something
        in `data` is something else, or has to wait, and nothing was done."""
        transport = self._transport
        if transport is None or not self._at_rest or len(data) > CACHED_GETS_BYTES:
            return False
        keys = data.split(data[:GET_BYTES])
        del keys[0]
        ready = self.ready
        replies = [*map(ready.young.get, keys)]
        if None in replies:
            return False
        ready.served += len(keys)
        transport.write(b"".join(cast(list[bytes], replies)))
        if self._clogged:
            self._pace()
        return True

    @property
    def _at_rest(self) -> bool:
        """Whether nothing is under way, and a command would be run like any other."""
        if self._slots or self._queue or self._clogged or not self.authenticated:
            return False
        return self.reader.at_rest and self.multi is None and not self.watched

    def _schedule(self) -> None:
        if not self._scheduled and not self._working and self._transport is not None:
            self._scheduled = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        """Begin what may begin, send what is ready."""
        self._scheduled = False
        if self._transport is None:
            return
        self._working = True
        try:
            tired = self._begin_commands()
        finally:
            self._working = False
        if tired:
            self._schedule()
        if self.reader.fault is not None and not self._queue and not self._leaving:
            self._reply(resp.error(f"ERR Protocol error: {self.reader.fault}"))
            self._collect()
            self._leaving = True
        self._flush()
        self._pace()

    def _begin_commands(self) -> bool:
        """Whether it stopped to let others have a turn."""
        self._collect()
        deadline = self._loop.time() + TURN_S
        while self._queue and not (self._clogged or self._leaving):
            arguments = self._queue[0]
            command = self._table.get(arguments[0]) or self._table.get(arguments[0].upper())
            if self._slots and self._must_wait(command, arguments):
                break
            self._queue.popleft()
            self._begin(command, arguments)
            if self._slots:
                self._collect()
            if self._queue and self._loop.time() > deadline:
                return True
        return False

    def _must_wait(self, command: CommandSpec | None, arguments: Arguments) -> bool:
        """For earlier commands of this connection: to keep within the limits, and because replies must read as if
        commands that share a key ran one after the other."""
        if len(self._slots) >= self._limits.pipeline or self._held >= self._limits.held_bytes:
            return True
        if self.executing:
            return True
        if command is None or command.alone:
            return command is not None
        if command.writes and self.node.is_full(writes=True):
            return True
        keys = command.keys(arguments) if command.first_key else []
        if any(key in self._writing for key in keys):
            return True
        return command.writes and any(key in self._reading for key in keys)

    def _begin(self, command: CommandSpec | None, arguments: Arguments) -> None:
        try:
            reply = self._run(command, arguments)
        except InvalidRequest as error:
            reply = resp.error(f"ERR {error}")
        except StoreFailed:
            raise
        except Exception:
            log.exception("a command failed: %s", shown(arguments[0]))
            reply = resp.error("ERR internal error, outcome unknown")
        if reply is None:
            assert self._promised is not None, "a reply or a promise"
        elif self._promised is not None:
            self._promised.fill(reply)
        else:
            self._door.count(command, reply)
            self._reply(reply)

    def _run(self, command: CommandSpec | None, arguments: Arguments) -> bytes | None:
        self._promised = None
        if command is None:
            self.multi_broken = self.multi is not None
            if arguments[0] is resp.OVERSIZED:
                raise InvalidRequest(
                    f"nothing was done: {arguments[1].decode()}; a value has {MAX_VALUE_BYTES} at most"
                )
            raise InvalidRequest(f"unknown command {shown(arguments[0])}")
        if not self.authenticated and not command.before_auth:
            return resp.error("NOAUTH Authentication required.")
        if self.multi is not None and not command.ends_multi:
            return transactions.queue(self, command, arguments)
        if len(arguments) != command.arity and not command.accepts(len(arguments)):
            raise InvalidRequest(f"wrong number of arguments for '{command.name}' command")
        self._running = command, arguments
        return command.run(self, arguments)

    def _reply(self, reply: bytes) -> None:
        if self._slots:
            self._slots.append(Slot(reply))
            self._held += len(reply)
        else:
            self._send(reply)

    def _send(self, reply: bytes) -> None:
        self._out.append(reply)
        self._out_bytes += len(reply)
        if self._out_bytes >= FLUSH_BYTES:
            self._flush()

    def _collect(self) -> None:
        while self._slots and not self._clogged and (reply := self._slots[0].reply) is not None:
            self._slots.popleft()
            self._held -= len(reply)
            self._send(reply)

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            if self._door.stopping and self._is_over:
                cork(self._transport)
            self._transport.write(b"".join(self._out) if len(self._out) > 1 else self._out[0])
            self._out.clear()
            self._out_bytes = 0

    def _pace(self) -> None:
        """Read on only when there is nothing left to do for what was read."""
        if self._transport is None:
            return
        if self._is_over:
            self._part(self._transport)
            return
        if self._paused != (wanted := bool(self._queue) or self._clogged or self._leaving or self._resting):
            self._paused = wanted
            if wanted:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    @property
    def _is_over(self) -> bool:
        """Whether everything that will ever be answered is."""
        return not self._slots and (self._leaving or (self._ended and not self._queue))

    def _part(self, transport: asyncio.Transport) -> None:
        """While the node stops, the end of the stream leaves in one piece with the last reply: a client that has read
        the reply finds the end, too, before it sends its next command, whose outcome it would not know. What is on its
        way nevertheless is read past, because closing would reset the connection, reply and all."""
        stopping, halves = self._door.stopping, transport.can_write_eof()
        if stopping and not self._parted:
            self._parted = True
            self._loop.call_later(CLOSE_DELAY_S, self._end, lambda transport: transport.abort())
            if halves:
                transport.write_eof()
            else:
                self._loop.call_later(FLUSH_S, self._end, end_stream)
        if (self._leaving or not (stopping and halves)) and not transport.is_closing():
            transport.close()

    def _end(self, how: Callable[[asyncio.Transport], None]) -> None:
        """For a client that has had time to take its last reply. TLS would wait for its goodbye, which a pool says when
        it next uses the connection, if ever."""
        transport = self._transport
        if transport is not None and not self._clogged and not transport.get_write_buffer_size():
            how(transport)


def spelled(address: object) -> str:
    """As Redis has it; IPv6 addresses in brackets."""
    if not isinstance(address, tuple):
        return ""
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve_resp(
    node: RespNode,
    host: str,
    port: int,
    *,
    ssl: tls.SSLContext | None = None,
    limits: RespLimits | None = None,
    password: str | None = None,
) -> Listener:
    """For whoever ends the connections too, on the way out: `RespDoor`."""
    return await RespDoor(node, limits, password).serve(host, port, ssl=ssl)
