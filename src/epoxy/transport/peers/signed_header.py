"""The fields a request between replicas is signed with, as records, and their text; `auth` signs and verifies. In a
module of its own because `auth` is compiled, and records cannot be."""

from collections.abc import Sequence

from msgspec import Struct

from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.transport.peers.keyring import SigningKey

NO_GREETING = Greeting(incarnation=Incarnation(store=0, counter=0, nonce=0, base=0), position=0)
"""Of an operator, who has no store, and in answers to a sender whose store is not on record."""

GREETING_FIELDS = 9

MAX_NUMBER = (1 << 64) - 1


class SignedHeader(Struct, frozen=True):
    sender: int
    recipient: int
    epoch: int
    time_ms: int
    nonce: int
    greeting: Greeting = NO_GREETING
    """The sender's store and its start, and what the sender remembers of the recipient's."""

    @property
    def store(self) -> int:
        return self.greeting.incarnation.store

    def text(self) -> bytes:
        fields = (self.sender, self.recipient, self.epoch, self.time_ms, self.nonce, greeting_text(self.greeting))
        return b"%d,%d,%d,%d,%016x,%b" % fields


class Signed(Struct, frozen=True):
    """A request that was verified, the MAC that its answer's MAC covers, and the key of both: the sender may not have
    the one that is spoken here."""

    header: SignedHeader
    mac: bytes
    key: SigningKey
    known: bool = True
    """Whether the sender's store is on record here; if not, the answer does not name our store."""


def greeting_text(greeting: Greeting) -> bytes:
    """`<store>,<counter>,<nonce>,<base>,<position>`, and of the other end `<store>,<counter>,<nonce>,<position>`, or
    zeros if nothing is remembered. Stores and nonces are in hex."""
    start, known = greeting.incarnation, greeting.known
    told = (known.store, known.counter, known.nonce, known.position) if known is not None else (0, 0, 0, 0)
    own = (start.store, start.counter, start.nonce, start.base, greeting.position)
    return b"%016x,%d,%016x,%d,%d,%016x,%d,%016x,%d" % (*own, *told)


def read_greeting(fields: Sequence[bytes]) -> Greeting:
    """ValueError: not the fields of a greeting. The spelling of the numbers is not checked."""
    if len(fields) != GREETING_FIELDS:
        raise ValueError("a greeting of another length")
    numbers = [int(field, 16 if place in (0, 2, 5, 7) else 10) for place, field in enumerate(fields)]
    if not all(0 <= number <= MAX_NUMBER for number in numbers):
        raise ValueError("a number beyond 64 bits")
    store, counter, nonce, base, position, *told = numbers
    return Greeting(
        incarnation=Incarnation(store=store, counter=counter, nonce=nonce, base=base),
        position=position,
        known=Sighting(store=told[0], counter=told[1], nonce=told[2], position=told[3]) if told[0] else None,
    )
