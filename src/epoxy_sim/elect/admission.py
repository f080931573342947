"""The production handshake between two parties, as bytes, without a socket."""

from epoxy.codec.resp import CommandReader
from epoxy.protocol.elect import codec as wire
from epoxy.protocol.elect import handshake
from epoxy.protocol.elect.handshake import HandshakeRefused, Party
from epoxy.protocol.elect.link_session import AcceptorSession, DialerSession


def admits(dialer: Party, acceptor: Party) -> bool:
    try:
        shake_hands(dialer, acceptor)
    except HandshakeRefused:
        return False
    return True


def shake_hands(dialer: Party, acceptor: Party) -> tuple[DialerSession, AcceptorSession]:
    """Nonces are constants: that they are fresh is the concern of `agent/links.py`."""
    calling = DialerSession(dialer, acceptor.me, b"d" * handshake.NONCE_BYTES)
    called = AcceptorSession()
    answer = called.greet(acceptor, one(calling.greeting), b"a" * handshake.NONCE_BYTES)
    called.conclude(one(calling.conclude(one(answer))))
    return calling, called


def one(data: bytes) -> list[bytes]:
    (command,) = CommandReader(wire.LINK_LIMITS).feed(data)
    return command
