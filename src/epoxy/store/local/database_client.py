"""The database of a process that another one keeps: `DatabaseServer` is the other end.

It asks on one socket from its event loop, with many questions under way, and on a second one where the caller waits.
When the first process ends both sockets end, and this process must end, too.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar, cast

from msgspec import Raw, msgpack

from epoxy.ports import KeyValue, StoreCut
from epoxy.store.local.blocking_socket import BlockingSocket
from epoxy.store.local.cut_client import CutClient, FarCutView
from epoxy.store.local.database_messages import (
    ORDERS,
    AnyAsk,
    BatchAsk,
    CloseAsk,
    CutAsk,
    CutEndAsk,
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
    answer_decoder,
    framed,
)
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, ShardTable, Verdict

T = TypeVar("T")
L = TypeVar("L")

LOAD_KEYS = 256
"""In one question: 256 MiB of the largest values."""

rows_decoder = msgpack.Decoder(dict[bytes, bytes])
range_decoder = msgpack.Decoder(list[tuple[bytes, bytes]])
position_decoder = msgpack.Decoder(tuple[int, int])
executed_decoder = msgpack.Decoder(ExecutedBatch)
reached_decoder = msgpack.Decoder(Reached)
verdict_decoder = msgpack.Decoder(Verdict)
session_decoder = msgpack.Decoder(int | None)
table_decoder = msgpack.Decoder(ShardTable)
taken_decoder = msgpack.Decoder(list[int])
bool_decoder = msgpack.Decoder(bool)
any_decoder: msgpack.Decoder[Any] = msgpack.Decoder()
order_decoder = msgpack.Decoder(Order)

Heard = Callable[[Raw | None], None]


async def open_client(
    asking: socket.socket, waiting: socket.socket, *, lost: Callable[[], None], ordered: Callable[[Order], None]
) -> "DatabaseClient":
    """`asking`: of the event loop. `waiting`: of reads that block. `lost`: the first process has ended."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_unix_connection(lambda: AskingConnection(lost, ordered), sock=asking)
    return DatabaseClient(connection, BlockingSocket(waiting), loop)


class AskingConnection(asyncio.Protocol):
    """Questions of the event loop, and their answers in any order."""

    def __init__(self, lost: Callable[[], None], ordered: Callable[[Order], None]) -> None:
        self._lost = lost
        self._ordered = ordered
        self._transport: asyncio.Transport | None = None
        self._frames = FrameBuffer()
        self._heard: dict[int, Heard] = {}

    def ask(self, ask: AnyAsk, heard: Heard) -> None:
        if self._transport is None:
            asyncio.get_running_loop().call_soon(heard, None)
            return
        self._heard[ask.number] = heard
        self._transport.write(framed(ask))

    def close(self) -> None:
        """Nothing is called back any more."""
        self._heard = {}
        self._lost = do_nothing
        if self._transport is not None:
            self._transport.abort()

    # The transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        heard, self._heard = self._heard, {}
        for each in heard.values():
            each(None)
        self._lost()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            answer = answer_decoder.decode(frame)
            if answer.number == ORDERS:
                self._ordered(order_decoder.decode(answer.value))
            elif (heard := self._heard.pop(answer.number, None)) is not None:
                heard(None if answer.failure else answer.value)


class DatabaseClient:
    """`Database`, in another process."""

    def __init__(self, connection: AskingConnection, waiting: BlockingSocket, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._waiting = waiting
        self._loop = loop
        self._numbers = count(ORDERS + 1)
        self._cuts: set[CutClient] = set()

    # Rows.

    def commit(self, batch: GroupCommit, done: Callable[[ExecutedBatch], None]) -> None:
        self._ask(BatchAsk(self._number(), batch), executed_decoder, done, ExecutedBatch(verdict=Verdict.UNKNOWN))

    def flush(self, session: int, config_epoch: int, done: Callable[[Reached], None]) -> None:
        ask = FlushAsk(self._number(), session, config_epoch)
        self._ask(ask, reached_decoder, done, Reached(verdict=Verdict.UNKNOWN))

    def fence(self, session: int, config_epoch: int, done: Callable[[Verdict], None]) -> None:
        self._ask(FenceAsk(self._number(), session, config_epoch), verdict_decoder, done, Verdict.UNKNOWN)

    def load(self, keys: Sequence[bytes], done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        found: dict[bytes, bytes] = {}

        def loaded(place: int, rows: dict[bytes, bytes] | None) -> None:
            if rows is None:
                done(None)
                return
            found.update(rows)
            if place < len(keys):
                ask_from(place)
            else:
                done(found)

        def ask_from(place: int) -> None:
            ask = RowsAsk(self._number(), keys[place : place + LOAD_KEYS])
            self._ask(ask, rows_decoder, partial(loaded, place + LOAD_KEYS), None)

        ask_from(0)

    def load_shard(self, shard: int, done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        self._ask(ShardAsk(self._number(), shard), rows_decoder, done, None)

    # Sessions and their shards.

    def open_session(self, url: str, version: str, lease_ms: float, done: Callable[[int | None], None]) -> None:
        self._ask(OpenAsk(self._number(), url, version, lease_ms), session_decoder, done, None)

    def renew(self, session: int, lease_ms: float, done: Callable[[ShardTable | None], None]) -> None:
        self._ask(RenewAsk(self._number(), session, lease_ms), table_decoder, done, None)

    def take(
        self, session: int, shards: Sequence[int], dead: Sequence[int], done: Callable[[Sequence[int] | None], None]
    ) -> None:
        self._ask(TakeAsk(self._number(), session, shards, dead), taken_decoder, done, None)

    def give(self, session: int, shard: int, epoch: int, to: int, done: Callable[[bool | None], None]) -> None:
        self._ask(GiveAsk(self._number(), session, shard, epoch, to), bool_decoder, done, None)

    def close_session(self, session: int, done: Callable[[], None]) -> None:
        self._ask(CloseAsk(self._number(), session), any_decoder, lambda _: done(), None)

    # Reads that the caller waits for.

    def read_rows(self, keys: Sequence[bytes], *, flush: bool) -> dict[bytes, bytes]:  # noqa: ARG002
        """They are durable, as those of a range are."""
        found: dict[bytes, bytes] = {}
        for place in range(0, len(keys), LOAD_KEYS):
            ask = RowsAsk(self._number(), keys[place : place + LOAD_KEYS])
            found.update(rows_decoder.decode(self._waiting.ask(ask)))
        return found

    def read_range(
        self,
        begin: bytes,
        end: bytes,
        limit: int,
        reverse: bool,
        *,
        flush: bool,  # noqa: ARG002
    ) -> Sequence[KeyValue]:
        return range_decoder.decode(self._waiting.ask(RangeAsk(self._number(), begin, end, limit, reverse)))

    def position(self) -> tuple[int, int]:
        return position_decoder.decode(self._waiting.ask(PositionAsk(self._number())))

    def cut(self, done: Callable[[StoreCut | None], None]) -> None:
        ask = CutAsk(self._number())

        def opened(is_open: bool) -> None:
            if not is_open:
                done(None)
                return
            view = FarCutView(self._waiting, self._number, ask.number)
            cut = CutClient(view, self._loop.call_soon_threadsafe, partial(self._cut_closed, ask.number))
            self._cuts.add(cut)
            done(cut)

        self._ask(ask, bool_decoder, opened, False)

    def _cut_closed(self, number: int, cut: CutClient) -> None:
        self._cuts.discard(cut)
        self._ask(CutEndAsk(self._number(), number), any_decoder, ignore, None)

    def close(self) -> None:
        """Nothing is called back any more."""
        for cut in tuple(self._cuts):
            cut.close()
        self._connection.close()
        self._waiting.close()

    # Inside.

    def _number(self) -> int:
        return next(self._numbers)

    def _ask(self, ask: AnyAsk, decoder: "msgpack.Decoder[T]", done: Callable[[T | L], None], lost: L) -> None:
        self._connection.ask(ask, lambda value: done(lost if value is None else decoder.decode(value)))


def do_nothing() -> None:
    pass


def ignore(_: object) -> None:
    pass
