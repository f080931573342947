"""The production handshake between two parties, byte by byte, without a socket."""

from epoxy.codec import elect as wire
from epoxy.codec.resp import CommandReader
from epoxy.elect import hello
from epoxy.elect.hello import Party, Refused


def admits(dialer: Party, acceptor: Party) -> bool:
    try:
        shake_hands(dialer, acceptor)
    except Refused:
        return False
    return True


def shake_hands(dialer: Party, acceptor: Party) -> None:
    first, _ = wire.decode_hello(one(wire.encode_hello(hello.hello(dialer, acceptor.me, b"d" * hello.NONCE_BYTES))))
    hello.check_hello(acceptor, first)
    second = hello.hello(acceptor, first.sender, b"a" * hello.NONCE_BYTES)
    proof = hello.prove(acceptor.secret, "acceptor", first, second)
    answered, their_proof = wire.decode_hello(one(wire.encode_hello(second, proof)))
    hello.check_hello(dialer, answered)
    hello.check_proof(dialer.secret, "acceptor", first, answered, their_proof)
    last = wire.decode_proof(one(wire.encode_proof(hello.prove(dialer.secret, "dialer", first, answered))))
    hello.check_proof(acceptor.secret, "dialer", first, second, last)


def one(data: bytes) -> list[bytes]:
    (command,) = CommandReader(wire.LIMITS).feed(data)
    return command
