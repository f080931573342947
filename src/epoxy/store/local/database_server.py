"""The database of the first process, served to another one.

It has two connections: one for its event loop, one for reads that it waits for. When one of them ends, so do the
sessions that the process has opened: their shards are free at once, without waiting for a lease.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import cast

from msgspec import Raw, msgpack

from epoxy.model.errors import StoreError
from epoxy.ports import StoreCut
from epoxy.store.local.database_messages import (
    NO_VALUE,
    ORDERS,
    AnyAsk,
    BatchAsk,
    CloseAsk,
    CutAsk,
    CutEndAsk,
    CutRangeAsk,
    CutRowAsk,
    DatabaseAnswer,
    FenceAsk,
    FlushAsk,
    FrameBuffer,
    GiveAsk,
    OpenAsk,
    Order,
    PositionAsk,
    RangeAsk,
    RenewAsk,
    RowsAsk,
    ShardAsk,
    TakeAsk,
    ask_decoder,
    framed,
)
from epoxy.store.local.local_database import LocalDatabase

Answer = Callable[[object], None]


class DatabaseServer:
    """For one other process. `lost` is called when one of its connections ends."""

    def __init__(self, database: LocalDatabase, lost: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._lost = lost
        self._connections: list[AnsweringConnection] = []
        self._sessions: set[int] = set()
        self._cuts: dict[int, StoreCut] = {}
        self._is_over = False

    async def accept(self, connected: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: AnsweringConnection(self), sock=connected)
        self._connections.append(connection)

    def order(self, order: Order) -> None:
        """On the connection of the other process's event loop, which is the first."""
        self._connections[0].answer(ORDERS, order)

    def end(self) -> None:
        """The other process is gone, or is to go: its shards are free from here on."""
        if self._is_over:
            return
        self._is_over = True
        for session in self._sessions:
            self._database.table.close(session)
        for cut in self._cuts.values():
            cut.close()
        for connection in self._connections:
            connection.close()
        self._lost()

    def serve(self, ask: AnyAsk, connection: "AnsweringConnection") -> None:
        answer = partial(connection.answer, ask.number)
        match ask:
            case OpenAsk():
                self._database.open_session(ask.url, ask.version, ask.lease_ms, partial(self._opened, answer))
            case FlushAsk():
                self._database.flush(ask.session, ask.config_epoch, answer)
            case CutAsk():
                self._database.cut(partial(self._cut_opened, ask.number, answer))
            case CutEndAsk():
                self._cuts.pop(ask.cut).close()
                answer(None)
            case CutRowAsk() | CutRangeAsk():
                self._read_cut(ask, answer, partial(connection.fail, ask.number))
            case _:
                serve(self._database, ask, answer)

    def _opened(self, answer: Answer, session: int | None) -> None:
        assert session is not None, "this database is always there"
        if self._is_over:
            self._database.table.close(session)
        self._sessions.add(session)
        answer(session)

    def _cut_opened(self, number: int, answer: Answer, cut: StoreCut | None) -> None:
        assert cut is not None, "this database is always there"
        if self._is_over:
            cut.close()
        self._cuts[number] = cut
        answer(True)

    def _read_cut(self, ask: CutRowAsk | CutRangeAsk, answer: Answer, failed: Callable[[Exception], None]) -> None:
        cut = self._cuts[ask.cut]
        match ask:
            case CutRowAsk(key=key):
                cut.read(lambda view: view.get(key), answer, failed)
            case CutRangeAsk(begin=begin, end=end, limit=limit, reverse=reverse):
                cut.read(lambda view: view.range(begin, end, limit=limit, reverse=reverse), answer, failed)


class AnsweringConnection(asyncio.Protocol):
    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._frames = FrameBuffer()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._server.end()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            ask = ask_decoder.decode(frame)
            try:
                self._server.serve(ask, self)
            except StoreError as error:
                self.fail(ask.number, error)

    def answer(self, number: int, value: object) -> None:
        if self._transport is not None:
            self._transport.write(framed(DatabaseAnswer(number, Raw(msgpack.encode(value)))))

    def fail(self, number: int, error: Exception) -> None:
        if self._transport is not None:
            self._transport.write(framed(DatabaseAnswer(number, NO_VALUE, str(error) or repr(error))))


def serve(database: LocalDatabase, ask: AnyAsk, answer: Answer) -> None:
    match ask:
        case BatchAsk():
            database.commit(ask.batch, answer)
        case RowsAsk():
            answer(database.read_rows(ask.keys, flush=True))
        case FenceAsk():
            database.fence(ask.session, ask.config_epoch, answer)
        case ShardAsk():
            database.load_shard(ask.shard, answer)
        case RenewAsk():
            database.renew(ask.session, ask.lease_ms, answer)
        case TakeAsk():
            database.take(ask.session, ask.shards, ask.dead, answer)
        case GiveAsk():
            database.give(ask.session, ask.shard, ask.epoch, ask.to, answer)
        case CloseAsk():
            database.close_session(ask.session, lambda: answer(None))
        case RangeAsk():
            answer(database.read_range(ask.begin, ask.end, ask.limit, ask.reverse, flush=True))
        case PositionAsk():
            answer(database.position())
        case _:
            raise AssertionError(ask)
