"""Workers, mutated: frames of a WebSocket with an envoy's messages in them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

import msgspec
from websockets.frames import Opcode

from epoxy.api.http.envoy_session import HELLO_S, EnvoySession
from epoxy.codec.envoy_frames import to_envoy
from epoxy.model.actors import ActorName
from epoxy.model.envoy_messages import (
    ActorAsk,
    Draining,
    EnvoyHello,
    Goodbye,
    Held,
    Ping,
    Response,
    Running,
    Stopped,
)
from epoxy.model.exchanges import Credit, Head, Piece, RequestHead, Reset
from epoxy.protocol.access.principal import OPEN
from epoxy.transport.http.websocket import CLOSE_S, MAX_UNSENT_BYTES, WebSocket
from tests.actors.bench import Datacenter
from tests.fuzz.hand_loop import HandLoop, RecordingTransport, hand_loop
from tests.fuzz.harness import Finding, FuzzTarget, compare

ZERO_MASK = bytes(4)
IDS = ["00" * 16, "0" * 28 + "0001", "ff" * 16, "zz", ""]
OPCODES = [Opcode.TEXT, Opcode.TEXT, Opcode.TEXT, Opcode.BINARY]
TOKENS = [
    b"\x81\x80\0\0\0\0",
    b"\x89\x80\0\0\0\0",
    b"\x88\x80\0\0\0\0",
    b"\x01\x81\0\0\0\0a",
    b"\x80\x80\0\0\0\0",
    b"\x81\xff",
]
TOKENS += [b"\x81\xfe\xff\xff\0\0\0\0", b'"', b"{", b"}", b"[", b'"type":"hello"', b"\xff", b"null", b"1e999", b"-1"]


def framed(opcode: int, data: bytes, *, fin: bool = True) -> bytes:
    """A client's frame. Its mask is zero, so that mutations change what is in it and not only its mask."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return bytes([opcode | (0x80 if fin else 0)]) + size + ZERO_MASK + data


class WebSocketTarget:
    name = "websocket"
    tokens: Sequence[bytes] = TOKENS

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop

    def conversation(self, dice: Random) -> list[bytes]:
        hello = EnvoyHello(
            namespace="prod",
            pool=dice.choice(("web", "w" * 70)),
            envoy_key=dice.choice(("a", "b")),
            slots=dice.choice((0, 5, 1 << 40)),
            running=dice.choice(((), (), (Held(dice.choice(IDS), 1),))),
            incarnation=dice.choice(("", "one")),
        )
        others = [self._message(dice) for _ in range(dice.choice((0, 1, 2, 4)))]
        said = [hello, *others] if dice.random() < 0.8 else others
        if dice.random() < 0.4:
            middle = dice.randrange(len(said) + 1)
            parts = [msgspec.msgpack.encode(part) for part in (said[:middle], said[middle:])]
            frames = [piece for part in parts for piece in self._frames(dice, Opcode.BINARY, part)]
        else:
            texts = [msgspec.json.encode(each) for each in said]
            frames = [piece for text in texts for piece in self._frames(dice, dice.choice(OPCODES), text)]
        if dice.random() < 0.2:
            frames.insert(dice.randrange(len(frames) + 1), framed(dice.choice((Opcode.PING, Opcode.PONG)), b"now"))
        if dice.random() < 0.1:
            frames.append(framed(Opcode.CLOSE, b"\x03\xe8bye"))
        return frames or [framed(Opcode.PING, b"")]

    def _message(self, dice: Random) -> object:
        actor, generation = dice.choice(IDS), dice.choice((0, 1, 2**40))
        return dice.choice(
            (
                Ping(sent_ms=5, rtt_ms=dice.choice((0, 7, -1, 2**40))),
                Running(actor_id=actor, generation=generation),
                Stopped(actor_id=actor, generation=generation, failed=dice.random() < 0.5),
                Draining(),
                Goodbye(),
                Response(request_id=dice.choice((0, 1, 9)), body=b"x" * dice.choice((0, 3, 200))),
                Head(stream=dice.choice((0, 1)), status=dice.choice((101, 200, -1)), fin=dice.random() < 0.5),
                Piece(stream=dice.choice((0, 1)), body=b"x", fin=dice.random() < 0.5),
                Credit(stream=1, amount=dice.choice((-1, 5, 1 << 60))),
                Reset(stream=1, refused=dice.random() < 0.5),
                ActorAsk(
                    call=1,
                    actor_id=actor,
                    generation=generation,
                    name=ActorName("prod", "room", "y"),
                    head=RequestHead(),
                    pool=dice.choice(("", "web")),
                ),
            )
        )

    def _frames(self, dice: Random, opcode: Opcode, text: bytes) -> list[bytes]:
        if dice.random() < 0.8 or len(text) < 2:
            return [framed(opcode, text)]
        middle = dice.randrange(len(text))
        return [framed(opcode, text[:middle], fin=False), framed(Opcode.CONT, text[middle:])]

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        if dice.random() < 0.7:
            return self._verdict(self._run(pieces, dice, slow=True, timers=dice.random() < 0.3))
        whole = self._run([b"".join(pieces)], dice)
        cut = self._run(pieces, dice, slow=dice.random() < 0.2)
        if "close" not in messages_of(whole):  # What came in one read with a fault is heard, and not answered.
            compare(spoken(whole), spoken(cut))
        return self._verdict(cut)

    def _run(self, pieces: Sequence[bytes], dice: Random, *, slow: bool = False, timers: bool = False) -> bytes:
        """`timers`: those of the datacenter run between two pieces, and not only at the end."""
        loop, there = self._loop, Datacenter()
        sessions: list[EnvoySession] = []
        ended: list[EnvoySession] = []
        before = there.store.survivors()

        def session(made: WebSocket) -> EnvoySession:
            sessions.append(EnvoySession(made, there.hosting, ended.append, OPEN, lambda: OPEN, there.asks))
            return sessions[0]

        socket = WebSocket(session)
        wire = RecordingTransport(loop, socket, slow=slow)
        wire.open()
        for piece in pieces:
            wire.receive(piece)
            if timers:
                there.clock.advance(20_000 if dice.random() < 0.05 else 1)
        there.clock.advance(1)
        wire.drain()
        written = bytes(wire.written)
        is_known = sessions[0]._conversation.envoy is not None
        if not is_known and there.store.survivors() != before:
            raise Finding("a connection without an accepted hello changed the store")
        if dice.random() < 0.02:
            loop.wait(HELLO_S + CLOSE_S + 1)
            if not is_known and not wire.lost:
                raise Finding("a connection without a hello outlives its time")
        wire.hang_up()
        if loop.unheard:
            raise Finding(f"reached the loop's exception handler: {loop.unheard.pop()}")
        if len(ended) != 1:
            raise Finding(f"the end of the connection was told {len(ended)} times")
        if there.hosting.sessions:
            raise Finding("a connection that has ended is still a session")
        if wire.most_unread > MAX_UNSENT_BYTES:
            raise Finding(f"{wire.most_unread} bytes for a worker that does not read")
        return written

    def _verdict(self, written: bytes) -> str:
        words = messages_of(written)
        if "rejected" in words:
            return "welcome, then rejected" if "welcome" in words else "rejected"
        return "welcome" if "welcome" in words else "closed" if "close" in words else "silence"

    def probe(self) -> None:
        hello = msgspec.json.encode(EnvoyHello(namespace="prod", pool="web", envoy_key="probe"))
        ping = msgspec.json.encode(Ping(sent_ms=5, rtt_ms=1))
        written = self._run([framed(Opcode.TEXT, hello) + framed(Opcode.TEXT, ping)], Random(1))
        if messages_of(written) != ["welcome", "pong"]:
            raise Finding(f"a valid worker is not answered: {written!r}")


def messages_of(written: bytes) -> list[str]:
    """The server's frames, strictly read: their messages' types, and `close` or `pong frame`."""
    found = []
    while written:
        opcode, size, start = written[0] & 0x0F, written[1] & 0x7F, 2
        if not written[0] & 0x80 or written[1] & 0x80 or written[0] & 0x70:
            raise Finding(f"a frame that no client accepts: {written[:20]!r}")
        if size >= 126:
            width = 2 if size == 126 else 8
            size, start = int.from_bytes(written[2 : 2 + width], "big"), 2 + width
        data, written = written[start : start + size], written[start + size :]
        if len(data) != size:
            raise Finding("a frame is not complete")
        if opcode in (Opcode.TEXT, Opcode.BINARY):
            messages = to_envoy.read(data, text=opcode == Opcode.TEXT)
            found += [str(type(message).__struct_config__.tag) for message in messages]
        else:
            found.append({Opcode.CLOSE: "close", Opcode.PONG: "pong frame"}[Opcode(opcode)])
    return found


def spoken(written: bytes) -> bytes:
    """Without pongs of the framing, which overtake messages."""
    return " ".join(word for word in messages_of(written) if word != "pong frame").encode()


@contextmanager
def websocket_target() -> Iterator[FuzzTarget]:
    with hand_loop() as loop:
        yield WebSocketTarget(loop)
