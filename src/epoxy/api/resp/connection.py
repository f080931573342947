"""One Redis client's connection.

Replies are sent in the order of the commands, whatever the order in which their operations finish. Commands of one
connection that share a key run one after the other, unless all of them only read; others run at the same time, because
a write may take a round trip around the world. Nothing is read from a connection while commands wait or replies are
unsent, so the memory that a client can occupy is bounded, and only that client is slowed down."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from socket import SO_KEEPALIVE, SOL_SOCKET
from time import perf_counter
from typing import TYPE_CHECKING, cast

from epoxy.api.resp import transactions
from epoxy.api.resp.command import PUBLIC, Answer, Arguments, CommandSpec, OverQuota, shown
from epoxy.api.resp.limits import (
    CACHED_GETS_BYTES,
    COMMAND_BYTES,
    FLUSH_BYTES,
    HALF_COMMAND_S,
    LONG_CHUNK_BYTES,
    LULL_S,
    REFUSED_S,
    SLICE_BYTES,
    TURN_S,
    UNREAD_BYTES,
)
from epoxy.api.resp.reply_queue import Busy, Promise, Slot
from epoxy.api.resp.session_access import WRITE, spelled
from epoxy.api.resp.session_identity import IdentifiedSession
from epoxy.api.resp.turns import read_slices
from epoxy.codec import resp
from epoxy.model.errors import InvalidRequest, RottenRow, StoreFailed, StoreUnavailable
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.protocol.strings.faults import CommandFault
from epoxy.transport.holdings import BUSY_S, FREE_BYTES
from epoxy.transport.http.graceful_close import CLOSE_DELAY_S, FLUSH_S, cork, end_stream
from epoxy.transport.http.response_cache import ResponseCache
from epoxy.transport.tls import certificate_names

if TYPE_CHECKING:
    from epoxy.api.resp.server import RespServer

log = logging.getLogger(__name__)

UNREAD = resp.error("BUSY too many long replies wait for clients that do not read them; try again")
GETS = frozenset((b"*2\r\n$3\r\nGET\r\n", b"*2\r\n$3\r\nget\r\n"))
GET_BYTES = 13
"""How every GET begins, up to its key."""


class RespConnection(IdentifiedSession, asyncio.Protocol):
    """Invariants: 1. replies leave in the order of `_slots`, and what is in `_out` comes before them.
    2. commands in `_queue` have not begun.  3. while `_queue` is not empty nothing is read."""

    def __init__(self, server: "RespServer") -> None:
        super().__init__(server)
        self._delay: asyncio.TimerHandle | None = None
        self._lull: asyncio.TimerHandle | None = None
        self._table = server.table
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
        self._write_paused = self._paused = self._yielding = False
        self._leaving = self._ended = self._refusing = self._closing = self._is_held = self._stalled = False
        self._backlog = b""
        self._last_sent = 0

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass.
        if len(self._server.connections) >= self._limits.connections:
            transport.write(resp.error("ERR max number of clients reached"))
            transport.close()
            self._loop.call_later(REFUSED_S, transport.abort)
            return
        self._transport = transport
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)  # Idle is fine, gone is not.
        self.address = spelled(transport.get_extra_info("peername"))
        self.local_address = spelled(transport.get_extra_info("sockname"))
        self.certificate_names = certificate_names(transport.get_extra_info("peercert"))
        self.forget()
        self._server.connections[self.id] = self

    def connection_lost(self, _error: Exception | None) -> None:
        """Operations that have begun go on; their replies are dropped."""
        self._transport = None
        self.caller.leave()
        if self._delay is not None:
            self._delay.cancel()
        self._server.connections.pop(self.id, None)
        self._server.holdings.forget(self)
        self._queue.clear()
        self._slots.clear()
        self._backlog = b""

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._leaving or self._closing:
            return
        if self._generation != self._access.generation:
            self._identify_again()
        if data[:GET_BYTES] in GETS and self._answer_cached(data):
            return
        if self._backlog:
            self._backlog += data
            return
        if len(data) > SLICE_BYTES:
            self._backlog = read_slices(self.reader, self._queue, data)
        else:
            self._queue.extend(self.reader.feed(data))
        if self._server.stopping and self._queue:
            self._refuse()
        if len(data) >= LONG_CHUNK_BYTES and not self._yielding:
            self._yielding = True
            self._loop.call_soon(self._read_on)
        self._work()

    def _read_on(self) -> None:
        self._yielding = False
        if self._transport is not None and self._backlog and not self._queue:
            data, self._backlog = self._backlog, b""
            self._backlog = read_slices(self.reader, self._queue, data)
            self._work()
        else:
            self._pause_or_read()

    def eof_received(self) -> bool:
        """A client may send its commands, close its sending half and wait for the replies. Most are gone, so what waits
        for its turn among the writes of a key is dropped, and told so. TLS has no half-close."""
        transport = self._transport
        if transport is None or self._closing or transport.get_extra_info("sslcontext") is not None:
            return False
        self._ended = True
        self.caller.leave()
        self._schedule()
        return True

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._server.holdings.forget(self)
        self._schedule()

    # Used by commands.

    @property
    def cache(self) -> ResponseCache:
        return self._server.immutable_values if self.consistent else self._server.newest_values

    def promise(self) -> Answer:
        assert self._running is not None, "promises are made while a command runs"
        command, arguments = self._running
        busy = self._writing if command.access is WRITE else self._reading
        promised = Promise(command, arguments, busy, self._filled)
        self._slots.append(promised)
        self._held += promised.weight
        self._promised = promised
        return promised.fill

    def answer_later(self, reply: bytes, delay_s: float) -> None:
        answer = self.promise()
        self.executing = True

        def send() -> None:
            self.executing = False
            answer(reply)

        self._delay = self._loop.call_later(delay_s, send)

    def _filled(self, promised: Promise, reply: bytes) -> None:
        """Replies of one turn of the loop are sent together; a single one is sent now."""
        reply = self._unless_unread(promised.command, reply)
        promised.reply = reply
        self._held += len(reply) - promised.weight
        self._server.count(promised.command, reply)
        if len(self._slots) > 1 or self._queue or self._working:
            self._schedule()
        elif self._out or self._write_paused or self._is_ending or self.reader.fault is not None:
            self._work()
        elif self._transport is not None:
            self._slots.clear()
            self._held -= len(reply)
            self._last_sent = len(reply)
            self._transport.write(reply)
            self._pause_or_read()

    def soon(self, step: Callable[[], None]) -> None:
        self._loop.call_soon(lambda: step() if self._transport is not None else None)

    def leave(self) -> None:
        """Answer the commands that have begun, then close."""
        self._leaving = True
        self._schedule()

    def finish(self) -> None:
        """Answer the commands that have arrived, then close: a stopping node refuses those that have not begun, because
        a command without a reply has an outcome that its client does not know."""
        self._refusing = True
        self._schedule()
        self._loop.call_later(HALF_COMMAND_S, self._end_commands)

    def _end_commands(self) -> None:
        self._ended = True
        self._schedule()

    def _refuse(self) -> None:
        """The node stops: close behind the replies to what has arrived. Of a pipeline more may be on its way, which
        client libraries send piece by piece: the connection is closed in the first lull."""
        self._refusing = True
        if self._lull is not None:
            self._lull.cancel()
        if self._lull is not None or len(self._queue) > 1:
            self._lull = self._loop.call_later(LULL_S, self._be_quiet)

    def _be_quiet(self) -> None:
        self._lull = None
        self._schedule()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Commands and replies.

    def _answer_cached(self, data: bytes) -> bool:
        """Answer a chunk that consists of GETs alone, all of them cached, without parsing it: split by the bytes that
        every GET begins with, the parts are the keys as the cache has them. False: some part is not cached or no GET,
        or must wait, and nothing was done."""
        transport = self._transport
        if transport is None or not self._is_idle or len(data) > CACHED_GETS_BYTES:
            return False
        keys = data.split(data[:GET_BYTES])
        del keys[0]
        cache = self.cache
        replies = [*map(cache.young.get, keys)]
        if None in replies:
            return False
        if not self._reads_unchecked and not self._checked.issuperset(keys) and not self._may_read_all(keys):
            return False
        cache.served += len(keys)
        transport.write(b"".join(cast(list[bytes], replies)))
        if self._write_paused:
            self._pause_or_read()
        return True

    @property
    def _is_idle(self) -> bool:
        """Whether no command is under way, and the next would be run at once, outside of MULTI and WATCH."""
        if self._slots or self._queue or self._backlog or self._write_paused or self.principal is None:
            return False
        return self.reader.at_rest and self.multi is None and not self.watched

    def _schedule(self) -> None:
        if not self._scheduled and not self._working and self._transport is not None:
            self._scheduled = True
            self._server.turns.waiting += 1
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        """Begin the commands that may begin, send the replies that are ready."""
        self._server.turns.waiting -= self._scheduled
        self._scheduled = False
        if self._transport is None:
            return
        self._working = True
        try:
            more = self._begin_commands()
        finally:
            self._working = False
        if more:
            self._schedule()
        if self.reader.fault is not None and not self._queue and not self._leaving:
            self._reply(resp.error(f"ERR Protocol error: {self.reader.fault}"))
            self._collect()
            self._leaving = True
        self._flush()
        self._pause_or_read()

    def _begin_commands(self) -> bool:
        """True: it stopped because its turn is over."""
        self._collect()
        deadline = perf_counter() + self._server.turns.turn_s(TURN_S)  # The loop's time stands still in a callback.
        while self._queue and not (self._write_paused or self._leaving or self._stalled):
            arguments = self._queue[0]
            command = self._table.get(arguments[0]) or self._table.get(arguments[0].upper())
            if self._slots and self._must_wait(command, arguments):
                break
            self._queue.popleft()
            self._begin(command, arguments)
            if self._slots:
                self._collect()
            if self._queue and perf_counter() > deadline:
                return True
        return False

    def _must_wait(self, command: CommandSpec | None, arguments: Arguments) -> bool:
        """Whether earlier commands of this connection must be answered first: to keep within the limits, and so that
        commands which share a key run one after the other."""
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
        except CommandFault as fault:
            reply = resp.error(str(fault))
        except OverQuota as error:
            reply = resp.error(f"QUOTA {error}")
        except RottenRow as rot:
            reply = resp.error(f"ERR {rot}; it is being repaired, try again")
        except StoreUnavailable as error:
            word = "INDEFINITE" if command is None or command.writes else "UNAVAILABLE"
            reply = resp.error(f"{word} {error}")
        except StoreFailed:
            raise
        except Exception:
            log.exception("a command failed: %s", shown(arguments[0]))
            reply = resp.error("INDEFINITE internal error, outcome unknown")
        if reply is None:
            assert self._promised is not None, "a reply or a promise"
        elif self._promised is not None:
            self._promised.fill(reply)
        else:
            reply = self._unless_unread(command, reply)
            self._server.count(command, reply)
            self._reply(reply)

    def _unless_unread(self, command: CommandSpec | None, reply: bytes) -> bytes:
        """A long reply to a read is refused while the clients of the node leave too much unread."""
        if len(reply) <= FREE_BYTES or command is None or command.writes or not command.first_key:
            return reply
        if not self._server.holdings.is_full:
            return reply
        if not self._stalled:
            self._stalled = True
            self._loop.call_later(BUSY_S, self._go_on)
        return UNREAD

    def _go_on(self) -> None:
        self._stalled = False
        self._schedule()

    def _run(self, command: CommandSpec | None, arguments: Arguments) -> bytes | None:
        self._promised = None
        if command is None:
            self.multi_broken = self.multi is not None
            if arguments[0] is resp.OVERSIZED:
                raise InvalidRequest(
                    f"nothing was done: {arguments[1].decode()}; a value has {MAX_VALUE_BYTES} at most"
                )
            raise InvalidRequest(f"unknown command {shown(arguments[0])}")
        if command.access is not PUBLIC and (refused := self._refusal(command, arguments)) is not None:
            transactions.refused(self, command)
            return refused
        if self.multi is not None and not command.ends_multi:
            return transactions.queue(self, command, arguments)
        if len(arguments) != command.arity and not command.accepts(len(arguments)):
            return transactions.miscounted(self, command)
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
        while self._slots and not self._write_paused and (reply := self._slots[0].reply) is not None:
            self._slots.popleft()
            self._held -= len(reply)
            self._send(reply)

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            if self._server.stopping and self._is_over:
                cork(self._transport)
            data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
            self._last_sent = len(data)
            self._transport.write(data)
            self._out.clear()
            self._out_bytes = 0

    def _pause_or_read(self) -> None:
        """Pause reading while commands wait or replies are unsent; close the connection when all is answered."""
        if self._transport is None:
            return
        if self._is_over:
            self._close(self._transport)
            return
        if self._write_paused or self._is_held or self.multi or self.watched or self._waiting > FREE_BYTES:
            self._note()
        if self._backlog and not self._queue and not self._yielding:
            self._yielding = True
            self._loop.call_soon(self._read_on)
        wanted = bool(self._queue or self._backlog) or self._write_paused or self._leaving or self._yielding
        if self._paused != wanted:
            self._paused = wanted
            if wanted:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _note(self) -> None:
        """What this client makes the node hold."""
        assert self._transport is not None
        if unread := self._transport.get_write_buffer_size():
            unread += self._last_sent  # It is kept until all of it is sent.
        watched = sum([len(found.value or b"") for found in self.watched.values()])
        self._is_held = self._server.holdings.note(self, self._waiting + unread + watched)

    @property
    def _waiting(self) -> int:
        """Commands under way, commands that wait, half a command, and what is queued in a MULTI."""
        waiting = len(self._backlog) + len(self._queue) * COMMAND_BYTES
        return self._held + self.reader.held + waiting + (self.multi_bytes if self.multi else 0)

    @property
    def _is_over(self) -> bool:
        """Whether no further reply will be sent. Half a command is the end of a pipeline that came in several segments,
        of which more is on its way: a stopping node waits for it."""
        if self._slots or not self._is_ending:
            return False
        if self._leaving:
            return True
        return not (self._queue or self._backlog) and (self._ended or (self.reader.at_rest and self._lull is None))

    @property
    def _is_ending(self) -> bool:
        return self._leaving or self._ended or self._refusing

    def _close(self, transport: asyncio.Transport) -> None:
        """While the node stops, the end of the stream is sent in one segment with the last reply: a client that has
        read the reply finds the end, too, before it sends its next command, whose outcome it would not know. Commands
        that arrive nevertheless are ignored, because closing now would reset the connection and lose the reply."""
        stopping, half_close = self._server.stopping, transport.can_write_eof()
        if stopping and not self._closing:
            self._closing = True
            self._loop.call_later(CLOSE_DELAY_S, self._end, lambda transport: transport.abort())
            if half_close:
                transport.write_eof()
            else:
                self._loop.call_later(FLUSH_S, self._end, end_stream)
        if (self._leaving or not (stopping and half_close)) and not transport.is_closing():
            transport.close()

    def _end(self, how: Callable[[asyncio.Transport], None]) -> None:
        """End the connection of a client that has taken its last reply. A TLS close would wait for the client's answer,
        which a connection pool sends when it next uses the connection, if ever."""
        transport = self._transport
        if transport is not None and not self._write_paused and not transport.get_write_buffer_size():
            how(transport)
