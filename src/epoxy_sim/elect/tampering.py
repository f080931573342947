"""Control connections as bytes, sealed by production code, with a man in the middle who has no secret.

It sees everything and can change, repeat, leave out and insert frames. A connection on which a frame is refused is
closed, and the next message opens another.
"""

from random import Random

from msgspec.structs import replace

from epoxy.codec.resp import CommandReader
from epoxy.model.errors import CodecError
from epoxy.protocol.elect import codec as wire
from epoxy.protocol.elect.handshake import HandshakeRefused, Party
from epoxy.protocol.elect.link_session import SEALED, AcceptorSession, DialerSession
from epoxy.protocol.elect.messages import Announce, Heartbeat, Message, Role, ServerState
from epoxy_sim.elect.admission import one, shake_hands

GUESS = b"?" * 32
"""A seal without the key."""


class TappedLink:
    """The connection of one ordered pair. `tampered`: how many frames the man in the middle has touched."""

    def __init__(self, dice: Random) -> None:
        self.tampered = 0
        self._dice = dice
        self._ends: tuple[Party, Party] | None = None
        self._sessions: tuple[DialerSession, AcceptorSession] | None = None

    def carry(self, message: Message, ends: tuple[Party, Party], tampering: float) -> list[Message]:
        """What the acceptor believes of what arrives."""
        if self._sessions is None or self._ends != ends:
            self._ends, self._sessions = ends, shake_hands(*ends)
        calling, called = self._sessions
        sealed = calling.seal(wire.encode(message))
        arriving = [sealed]
        if tampering and self._dice.random() < tampering:
            self.tampered += 1
            arriving = self._tamper(message, sealed)
        believed: list[Message] = []
        try:
            for frame in arriving:
                reader = CommandReader(wire.LINK_LIMITS)
                believed += [called.open(words) for words in reader.feed(frame)]
                if reader.fault is not None or not reader.at_rest:
                    self._sessions = None
        except (CodecError, HandshakeRefused):
            self._sessions = None
        return believed

    def lose(self) -> None:
        """The connection broke under a message."""
        self._sessions = None

    def _tamper(self, message: Message, sealed: bytes) -> list[bytes]:
        match self._dice.randrange(4):
            case 0:
                place = self._dice.randrange(len(sealed))
                return [sealed[:place] + bytes([sealed[place] ^ 1 << self._dice.randrange(8)]) + sealed[place + 1 :]]
            case 1:
                return [sealed, sealed]
            case 2:
                self._sessions = None  # without this frame every later one is at the wrong place
                return []
            case _:
                forged = wire.encode(forge(message))
                return [SEALED % (one(sealed)[0] if self._dice.random() < 0.5 else GUESS, len(forged), forged), sealed]


def forge(message: Message) -> Message:
    """The claim that its sender leads the next epoch."""
    epoch = message.epoch + 1
    if isinstance(message, Heartbeat):
        role, state = Role.PRIMARY, ServerState.OPEN
        return replace(message, epoch=epoch, leader_epoch=epoch, leader=message.node, role=role, state=state)
    return Announce(epoch=epoch, node=message.node, address="forged:1")
