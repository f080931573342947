"""One control connection without its socket: the handshake, then sealed frames from the dialer to the acceptor.

    key     HMAC-SHA256(secret, "elect" "frames" and the words of both HELLOs, a line each)
    frame   *2 <seal> <message>, an array of two bulk strings; the message is an array of its own (`codec`)
    seal    HMAC-SHA256(key, number u64 | message); numbers count from 0

Both ends put a nonce into the key, so what was recorded on one connection is refused on every other, and a frame is
accepted once, at its own place. A frame with a wrong seal is not looked into, and ends the connection: none that
follows could be trusted. The acceptor sends no frames.
"""

from collections.abc import Sequence

from epoxy.codec.resp import CommandReader, array, bulk
from epoxy.codec.seals import Seals
from epoxy.model.errors import CodecError, InvalidValue
from epoxy.protocol.elect import codec, handshake
from epoxy.protocol.elect.handshake import ElectHello, HandshakeRefused, OtherVersion, Party
from epoxy.protocol.elect.messages import Message

FRAMES = "frames"
SEALED = b"*2\r\n$32\r\n%b\r\n$%d\r\n%b\r\n"


class WrongSeal(CodecError):
    """A frame that the other side did not send at this place."""


class DialerSession:
    """`greeting`: the first bytes to send. `seals`: None until the acceptor has proved that it holds the secret."""

    def __init__(self, party: Party, peer: str, nonce: bytes) -> None:
        self.seals: Seals | None = None
        self.secret = b""
        self._party = party
        self._hello = handshake.hello(party, peer, nonce)
        self.greeting = codec.encode_hello(self._hello)

    def conclude(self, frame: Sequence[bytes]) -> bytes:
        """Takes the acceptor's HELLO and returns the proof to send; messages may follow it at once."""
        second, proof = codec.decode_hello(frame)
        handshake.check_hello(self._party, second)
        self.secret = handshake.check_proof(self._party.secrets, "acceptor", self._hello, second, proof)
        self.seals = Seals(handshake.derive(self.secret, FRAMES, self._hello, second))
        return codec.encode_proof(handshake.prove(self.secret, "dialer", self._hello, second))

    def seal(self, message: bytes) -> bytes:
        assert self.seals is not None
        return SEALED % (self.seals.next(b"", message), len(message), message)


class AcceptorSession:
    """`sender`: the node that the other side has proved to be; empty before. `secret`: the one that was proved."""

    def __init__(self) -> None:
        self.sender = ""
        self.secret = b""
        self._party: Party | None = None
        self._hellos: tuple[ElectHello, ElectHello] | None = None
        self._seals: Seals | None = None

    @property
    def is_greeted(self) -> bool:
        return self._hellos is not None

    def greet(self, party: Party, frame: Sequence[bytes], nonce: bytes) -> bytes:
        """Takes the dialer's HELLO and returns the answer."""
        first, _ = codec.decode_hello(frame)
        handshake.check_hello(party, first)
        second = handshake.hello(party, first.sender, nonce)
        self._party, self._hellos = party, (first, second)
        return codec.encode_hello(second, handshake.prove(party.secrets[0], "acceptor", first, second))

    def conclude(self, frame: Sequence[bytes]) -> None:
        """Takes the dialer's proof, made with the secret of the answer."""
        assert self._hellos is not None
        assert self._party is not None
        proof = codec.decode_proof(frame)
        self.secret = handshake.check_proof(self._party.secrets[:1], "dialer", *self._hellos, proof)
        self._seals = Seals(handshake.derive(self.secret, FRAMES, *self._hellos))
        self.sender = self._hellos[0].sender

    def open(self, frame: Sequence[bytes]) -> Message:
        """The message in a sealed frame."""
        assert self._seals is not None
        if not is_sealed(self._seals, frame):
            raise WrongSeal(f"a frame in the name of {self.sender!r} without its seal: changed, repeated or inserted")
        message = codec.decode(words_of(frame[1]))
        if message.node != self.sender:
            raise HandshakeRefused(f"{self.sender!r} sent a message in the name of {message.node!r}")
        return message


def is_sealed(seals: Seals, frame: Sequence[bytes]) -> bool:
    return len(frame) == 2 and seals.matches(frame[0], b"", frame[1])


def words_of(data: bytes) -> list[bytes]:
    """Of data that is exactly one array, in its one spelling."""
    words = codec.skim(data)
    if words is not None:
        return words
    reader = CommandReader(codec.LIMITS)
    commands = reader.feed(data)
    if reader.fault is not None:
        raise reader.fault
    if len(commands) != 1 or array([bulk(word) for word in commands[0]]) != data:
        raise InvalidValue("not exactly one message in a frame")
    return commands[0]


def refusal(error: Exception) -> bytes:
    """What the acceptor sends before it closes: its version, to an agent of another one; otherwise nothing."""
    return codec.encode_hello(handshake.other_version()) if isinstance(error, OtherVersion) else b""
