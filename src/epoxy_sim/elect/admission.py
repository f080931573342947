"""The production handshake between two parties, as bytes, without a socket."""

from epoxy.codec.resp import CommandReader
from epoxy.protocol.elect import codec as wire
from epoxy.protocol.elect import handshake
from epoxy.protocol.elect.handshake import HandshakeRefused, Party


def admits(dialer: Party, acceptor: Party) -> bool:
    try:
        shake_hands(dialer, acceptor)
    except HandshakeRefused:
        return False
    return True


def shake_hands(dialer: Party, acceptor: Party) -> None:
    first, _ = wire.decode_hello(
        one(wire.encode_hello(handshake.hello(dialer, acceptor.me, b"d" * handshake.NONCE_BYTES)))
    )
    handshake.check_hello(acceptor, first)
    second = handshake.hello(acceptor, first.sender, b"a" * handshake.NONCE_BYTES)
    proof = handshake.prove(acceptor.secret, "acceptor", first, second)
    answered, their_proof = wire.decode_hello(one(wire.encode_hello(second, proof)))
    handshake.check_hello(dialer, answered)
    handshake.check_proof(dialer.secret, "acceptor", first, answered, their_proof)
    last = wire.decode_proof(one(wire.encode_proof(handshake.prove(dialer.secret, "dialer", first, answered))))
    handshake.check_proof(acceptor.secret, "dialer", first, second, last)


def one(data: bytes) -> list[bytes]:
    (command,) = CommandReader(wire.LIMITS).feed(data)
    return command
