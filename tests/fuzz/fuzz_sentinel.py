"""Clients of an agent, mutated. They are answered in order however the bytes arrive; an order is carried out once, and
only if an operator signed it."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import cast

import hiredis

from epoxy.agent.sentinel_server import ClientConnection, SentinelServer
from epoxy.codec.resp import array, bulk
from tests.agent.test_sentinel import STATUS, order, source_of
from tests.fuzz.hand_loop import HandLoop, RecordingTransport, hand_loop
from tests.fuzz.harness import Finding, FuzzTarget, compare

COMMANDS = (
    """
PING|PING hi|HELLO|HELLO 2|HELLO 3|HELLO 4|AUTH x|AUTH x y|CLIENT SETNAME x|SELECT 0|ROLE|INFO|SENTINEL MASTERS
SENTINEL get-master-addr-by-name mymaster|SENTINEL get-master-addr-by-name other|SENTINEL MASTER mymaster
SENTINEL REPLICAS mymaster|SENTINEL SLAVES mymaster|SENTINEL SENTINELS mymaster|SENTINEL CKQUORUM mymaster|SENTINEL
SUBSCRIBE +switch-master|SUBSCRIBE a b c|UNSUBSCRIBE|UNSUBSCRIBE a|ELECT STATUS|ELECT LIFE|ELECT|ELECT FAILOVER c
ELECT FAILOVER c 0000|ELECT FAILOVER c 1800000000000 1 00|NOPE|QUIT
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
TOKENS = [b"\r\n", b"*", b"$", b"*0\r\n", b"*-1\r\n", b"$-1\r\n", b" ", b"\x00", b"\xff", b"*17\r\n", b"PING\r\n"]
TOKENS += [array([bulk(word) for word in command.encode().split()]) for command in COMMANDS if command]

MOST_UNREAD = 32 << 10
"""`MAX_UNREAD_BYTES`, and one reply more: of 15 nodes 9 KiB, of a longest PING or SUBSCRIBE some more."""


class BufferedTransport(RecordingTransport):
    """For a protocol that gives the buffer to read into."""

    def deliver(self) -> None:
        protocol = cast(ClientConnection, self.protocol)
        self._loop.settle()
        while self._pending and not (self.read_paused or self.lost):
            chunk = self._pending.popleft()
            buffer = protocol.get_buffer(-1)
            taken = chunk[: len(buffer)]
            buffer[: len(taken)] = taken
            if chunk[len(taken) :]:
                self._pending.appendleft(chunk[len(taken) :])
            protocol.buffer_updated(len(taken))
            self._loop.settle()

    def hang_up(self) -> None:
        self.abort()
        self._loop.settle()


class SentinelTarget:
    name = "sentinel"
    tokens: Sequence[bytes] = TOKENS

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self._nonces = itertools.count(1)
        self._signed: Counter[str] = Counter()
        """Different orders of this input, by the node they name."""

    def conversation(self, dice: Random) -> list[bytes]:
        told = [command.encode().split() for command in dice.choices(COMMANDS, k=dice.choice((1, 1, 2, 3, 5)))]
        if dice.random() < 0.3:
            heir = dice.choice("abc")
            self._signed[heir] += 1
            told.append([word.encode() for word in order(heir, nonce=str(next(self._nonces)))])
        return [array([bulk(word) for word in words]) for words in told]

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        signed, self._signed = self._signed, Counter()
        whole, heirs = self._run([b"".join(pieces)], slow=False)
        cut, again = self._run(pieces, slow=dice.random() < 0.3)
        compare(whole, cut)
        for carried_out in (Counter(heirs), Counter(again)):
            if carried_out - signed:
                raise Finding(f"carried out {carried_out}, signed {signed}")
        return self._verdict(whole, b"".join(pieces), len(heirs))

    def _run(self, pieces: Sequence[bytes], *, slow: bool) -> tuple[bytes, list[str]]:
        heirs: list[str] = []
        server = SentinelServer(source_of(STATUS, heirs.append))
        wire = BufferedTransport(self._loop, cast(asyncio.Protocol, ClientConnection(server)), slow=slow)
        wire.open()
        for piece in pieces:
            wire.receive(piece)
        wire.drain()
        wire.hang_up()
        if server._clients or server._stalled:
            raise Finding("a connection that has ended is still counted")
        if self._loop.unheard:
            raise Finding(f"reached the loop's exception handler: {self._loop.unheard.pop()}")
        if wire.most_unread > MOST_UNREAD:
            raise Finding(f"{wire.most_unread} bytes for a client that does not read")
        return bytes(wire.written), heirs

    def _verdict(self, written: bytes, data: bytes, carried_out: int) -> str:
        reader = hiredis.Reader()
        reader.feed(written)
        count = 0
        while reader.has_data():
            try:
                reply = reader.gets()
            except hiredis.ProtocolError as error:
                raise Finding(f"replies that cannot be read, {error}: {written!r}") from error
            if reply is False:
                raise Finding(f"an incomplete reply: {written!r}")
            count += 1
        if count > 1 + data.count(b"\n"):
            raise Finding(f"{count} replies to fewer words")
        if carried_out:
            return "carried out"
        return "fault" if b"Protocol error" in written else "replies" if count else "silence"

    def probe(self) -> None:
        words = order("c", nonce=str(next(self._nonces)))
        signed = array([bulk(word.encode()) for word in words])
        written, heirs = self._run([signed, signed], slow=False)
        if heirs != ["c"] or not written.startswith(b"+OK\r\n-NOAUTH this order was given before"):
            raise Finding(f"a signed order is not carried out once: {heirs}, {written!r}")


@contextmanager
def sentinel_target() -> Iterator[FuzzTarget]:
    with hand_loop() as loop:
        yield SentinelTarget(loop)
