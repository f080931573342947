"""Redis clients, mutated: an open server that must answer in order however the bytes arrive and whenever the node
answers, and a protected one, to which the client never shows a right token."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

import hiredis

from epoxy.api.resp.connection import RespConnection
from epoxy.api.resp.server import RespServer
from epoxy.codec.resp import array, bulk
from epoxy.model.access import AccessRole
from epoxy.node.access.guesses import Guesses
from tests.api.resp.resp_world import FakeAccess, FakeNode, granted, packed
from tests.fuzz.hand_loop import HandLoop, RecordingTransport, hand_loop
from tests.fuzz.harness import Finding, FuzzTarget, compare
from tests.fuzz.registers import HELD, Registers

GUARDED = FakeAccess([granted("ci", AccessRole.WRITER)])
"""With a token that no mutation guesses."""
OPENED = FakeAccess()
KEYS = [*HELD, b"new", b"other", b"k" * 40]
VALUES = [b"", b"0", b"41", b"-1", b"9223372036854775807", b"v", b"\xff\x00\r\n", b"w" * 70]

COMMANDS = (
    """
PING|ECHO hi|GET K|SET K V|SET K V NX|SET K V GET|DEL K|DEL K K|EXISTS K K|MGET K K K|MSET K V|INCR K|INCRBY K V
RESERVE K V|SETEX K 9 V|SET K V NX PX 9|EPOXY.VERSION K|COMMAND GETKEYS SET K V|ROLE|FLUSHALL
DECR K|SETNX K V|GETSET K V|GETDEL K|STRLEN K|TYPE K|TTL K|APPEND K V|MULTI|EXEC|DISCARD|WATCH K|UNWATCH|SCAN 0
SCAN 0 MATCH n* COUNT 2|DBSIZE|KEYS n*|SELECT 0|READONLY|READWRITE|CLIENT V|CLIENT SETNAME V|CLIENT GETNAME|HELLO 2
EVAL return 1 K|EVAL return#KEYS 0 V|EVALSHA abc 1 K|EVAL_RO return(1) 1 K V|SCRIPT LOAD return(1)|SCRIPT EXISTS V
SCRIPT FLUSH|TIME
MSETNX K V K V|RENAME K K|RENAMENX K K|COPY K K|BITOP AND K K K|SETRANGE K 3 V|GETRANGE K 0 V|SETBIT K 7 1|BITCOUNT K
GETEX K PERSIST|GETEX K EX V|PEXPIREAT K V NX|PERSIST K|DELEX K IFEQ V|SET K V IFEQ V|SET K V KEEPTTL GET
INCRBYFLOAT K V
EPOXY.SESSION NEW V|EPOXY.SESSION RENEW V|EPOXY.SESSION END V|SET K V SESSION V|ACL WHOAMI|ECHO|EVAL|EVALSHA V
MGET|MSET K
HELLO 3|AUTH V|AUTH V V|COMMAND COUNT|COMMAND DOCS GET|COMMAND INFO GET|CONFIG GET save|RESET|QUIT|EXPIRE K 10
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
TALES = ["MULTI|SET K V|GET K|EXEC", "WATCH K|MULTI|INCR K|DEL K|EXEC", "WATCH K|GET K|UNWATCH", "MULTI|NOPE|EXEC"]
INLINE = [
    b"PING\r\n",
    b"ECHO hi\r\n",
    b"\r\n",
    b"*0\r\n",
    b"QUIT\r\n",
    b"INFO\r\n",
    b"SET k v NX\r\n",
    b"GET / HTTP/1.1\r\n",
]
VOLATILE = (b"INFO", b"LIST", b"TIME", b"NEW")
"""Their replies tell ages, counts, numbers of connections or ids, which differ between two runs of one input."""

TOKENS = [b"\r\n", b"*", b"$", b"*0\r\n", b"*-1\r\n", b"$-1\r\n", b"*1\r\n", b"$0\r\n\r\n", b" ", b"\x00", b"\xff"]
TOKENS += [bulk(word) for word in (b"NX", b"XX", b"EX", b"GET", b"MATCH", b"COUNT", b"AUTH", b"NOPE")]
TOKENS += [b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n", b"*1027\r\n"]

FIRST_FAULT = re.compile(rb"-IMMUTABLE '[^']*'")
"""Of several keys of one DEL, the reply names the one that was found first."""

MOST_UNREAD = 5 << 20
"""`RespLimits.held_bytes` in the socket, and one reply more."""


class PatientGuesses(Guesses):
    """Refusals that do not wait: the loop's clock stands still."""

    def wrong(self, address: str, name: str) -> float:
        del address, name
        return 0.0


class RespRegisters(Registers, FakeNode):
    """As a RESP server needs it."""

    def __init__(self) -> None:
        FakeNode.__init__(self)
        Registers.__init__(self)
        self.guesses = PatientGuesses()

    def on_overwrite(self, listener: Callable[[bytes], None]) -> None:
        setattr(self, "overwritten", listener)  # noqa: B010 (of the class it is a method)

    def count(self, after: bytes | None, rows: int, prefix: bytes = b"") -> tuple[int, bytes | None]:
        self.touched += 1
        return FakeNode.count(self, after, rows, prefix)


class RespTarget:
    name = "resp"
    tokens: Sequence[bytes] = TOKENS

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.node = RespRegisters()
        self._server = RespServer(self.node)

    def conversation(self, dice: Random) -> list[bytes]:
        kind = dice.random()
        if kind < 0.15:
            return [dice.choice(INLINE)]
        few = dice.choices(COMMANDS, k=dice.choice((1, 1, 2, 3, 5)))
        told = dice.choice(TALES).split("|") if kind < 0.3 else few
        return [self._spelled(dice, command) for command in told]

    def _spelled(self, dice: Random, command: str) -> bytes:
        picked = {"K": KEYS, "V": VALUES}
        words = [dice.choice(picked[word]) if word in picked else word.encode() for word in command.split()]
        return array([bulk(word) for word in words])

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        if dice.random() < 0.3:
            written = self._run(GUARDED, pieces, dice)
            if self.node.touched:
                raise Finding("a client without a token reached the node")
            return self._verdict(written, b"".join(pieces), "guarded")
        data = b"".join(pieces)
        whole = self._run(OPENED, [data], dice)
        cut = self._run(OPENED, pieces, dice, late=dice.random() < 0.7, slow=dice.random() < 0.2)
        if not any(word in data.upper() for word in VOLATILE):
            compare(FIRST_FAULT.sub(b"", whole), FIRST_FAULT.sub(b"", cut))
        return self._verdict(cut, data, "open")

    def _run(
        self, access: FakeAccess, pieces: Sequence[bytes], dice: Random, *, late: bool = False, slow: bool = False
    ) -> bytes:
        node, loop, server = self.node, self._loop, self._server
        node.renew()
        node.access = access
        node.is_late = late
        server.immutable_values.clear()
        server.newest_values.clear()
        connection = RespConnection(server)
        connection.id = 1
        wire = RecordingTransport(loop, connection, slow=slow)
        wire.open()
        for piece in pieces:
            wire.receive(piece)
            if dice.random() < 0.3:
                node.release(dice)
        self._finish(node, wire, dice)
        wire.hang_up()
        if server.connections:
            raise Finding("a connection that has ended is still counted")
        if connection._queue or connection._slots or connection._held:
            raise Finding("a connection that has ended holds commands or replies")
        if loop.unheard:
            raise Finding(f"reached the loop's exception handler: {loop.unheard.pop()}")
        if wire.most_unread > MOST_UNREAD:
            raise Finding(f"{wire.most_unread} bytes for a client that does not read")
        if b"internal error" in wire.written:
            raise Finding(f"an internal error: {bytes(wire.written)!r}")
        return bytes(wire.written)

    def _finish(self, node: RespRegisters, wire: RecordingTransport, dice: Random) -> None:
        """Until the node has answered everything and the client has read it."""
        wire.drain()
        while node.late:
            node.release(dice)
            wire.drain()

    def _verdict(self, written: bytes, data: bytes, kind: str) -> str:
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
            raise Finding(f"{count} replies to fewer commands")
        if b"Protocol error" in written:
            return f"{kind} fault"
        return f"{kind} replies" if count else f"{kind} silence"

    def probe(self) -> None:
        if self._run(OPENED, [packed("SET probe 1"), packed("GET probe")], Random(0)) != b"+OK\r\n$1\r\n1\r\n":
            raise Finding("a valid request is not answered")
        if self._run(GUARDED, [packed("GET k")], Random(0)) != b"-NOAUTH Authentication required.\r\n":
            raise Finding("a client without a token is not refused")


@contextmanager
def resp_target() -> Iterator[FuzzTarget]:
    with hand_loop() as loop:
        yield RespTarget(loop)
