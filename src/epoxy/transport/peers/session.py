"""The keys of one connection between peers, made in its handshake, and the seals of its frames.

    secret      what peers sign with (`auth.peer_secret`)
    mac         the MAC of the request that asked for frames: it covers both replicas, epoch, time, store and a nonce
    nonce       drawn by the server
    greeting    of the server, as text, and its offer of versions if the client made one
    proof       HMAC-SHA256(secret, "switched\\n" mac "\\n" nonce greeting)
    key         HMAC-SHA256(secret, direction "\\n" mac "\\n" nonce greeting)    for "questions" and for "answers"
    seal        HMAC-SHA256(key, number u64 | the frame behind its seal)  numbers count from 0 in each direction

Both ends contribute a fresh number to the keys, so bytes recorded on one connection are refused on any other, and a
frame is accepted once, at its own place. No nonces have to be remembered for that, and no clock is read.
"""

import hmac
import os

from msgspec.structs import replace

from epoxy.codec.seals import Seals
from epoxy.model.incarnation import Greeting, Sighting, StoreMismatch
from epoxy.model.versions import OLDEST_WIRE
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.signed_header import Signed, SignedHeader, greeting_text
from epoxy.transport.peers.store_gate import StoreGate

NONCE_BYTES = 16
"""Of the server. No two of this length are drawn alike."""


class StartCheck:
    """Whether the other end of a connection is heard: the start of its store that the handshake named.

    It is judged by the first position that the other end read after this end said what it remembers: at the client by
    the answer to the handshake, at the server by the first frame. Positions of two connections overtake each other, so
    no other comparison is free of races.
    """

    def __init__(self, gate: StoreGate, peer: int, greeting: Greeting, told: Sighting | None) -> None:
        """`greeting`: of the other end. `told`: what this end said it remembers, in this handshake."""
        self.gate = gate
        self._peer = peer
        self._greeting = greeting
        self._told = told
        self._nonce = greeting.incarnation.nonce
        self._is_met = False

    def refusal(self, position: int) -> StoreMismatch | None:
        """Called with the position of every frame. None: it is heard."""
        if self._is_met and self.gate.hear(self._peer, self._nonce, position):
            return None
        return self._meet(position)

    def _meet(self, position: int) -> StoreMismatch | None:
        """For the first time, or because another start was recorded since: then what was told is out of date."""
        told = None if self._is_met else self._told
        mismatch = self.gate.meet(self._peer, replace(self._greeting, position=position), told)
        if mismatch is None and not self._is_met:
            self._is_met = True
            self.gate.connected(self._peer, self._nonce)
        return mismatch

    def close(self) -> None:
        """The connection has ended."""
        if self._is_met:
            self._is_met = False
            self.gate.disconnected(self._peer, self._nonce)


class PeerSession:
    """Either end of a connection."""

    def __init__(
        self,
        key: SigningKey,
        mac: bytes,
        nonce: bytes,
        header: SignedHeader,
        greeting: Greeting,
        start: StartCheck,
        offer: bytes = b"",
    ) -> None:
        """`key`: that the handshake was signed with. `header` is the client's, `greeting` and `offer` (of versions) the
        server's, `start` checks the other end's."""
        self.key = key
        self.header = header
        self.start = start
        self.nonce = nonce
        self.version = OLDEST_WIRE
        """Of the wire, as the two ends have chosen."""
        self.said = greeting_text(greeting) + (b"," + offer if offer else b"")
        """By the server, beside its nonce."""
        drawn = nonce + self.said
        self.proof = derive_key(key.secret, b"switched", mac, drawn)
        self.request_seals = Seals(derive_key(key.secret, b"questions", mac, drawn))
        self.answer_seals = Seals(derive_key(key.secret, b"answers", mac, drawn))

    def header_at(self, epoch: int) -> SignedHeader:
        """The client's header with the epoch of its latest frame."""
        header = self.header
        if header.epoch != epoch:
            header = SignedHeader(header.sender, header.recipient, epoch, header.time_ms, header.nonce, header.greeting)
            self.header = header
        return header


def derive_key(secret: bytes, purpose: bytes, mac: bytes, drawn: bytes) -> bytes:
    """What stands before the nonce holds no line end, and the nonce has one length: no two derivations have the same
    input."""
    return hmac.digest(secret, b"%b\n%b\n%b" % (purpose, mac, drawn), "sha256")


def accept_handshake(signed: Signed, gate: StoreGate, offer: bytes = b"") -> PeerSession:
    """The server's end. `signed`: the request that asked for frames, verified. `offer`: of this end, if the client made
    one."""
    header = signed.header
    gate.told(header.sender, header.greeting.known)
    greeting = gate.greeting(header.sender)
    start = StartCheck(gate, header.sender, header.greeting, greeting.known)
    return PeerSession(signed.key, signed.mac, os.urandom(NONCE_BYTES), header, greeting, start, offer)


def conclude_handshake(
    key: SigningKey,
    mac: bytes,
    nonce: bytes,
    header: SignedHeader,
    greeting: Greeting,
    gate: StoreGate,
    offer: bytes = b"",
) -> PeerSession:
    """The client's end, before the server's proof is checked."""
    start = StartCheck(gate, header.recipient, greeting, header.greeting.known)
    return PeerSession(key, mac, nonce, header, greeting, start, offer)
