"""Links of agents, mutated: the handshake and the sealed frames behind it. What the secret did not seal, at its place,
reaches no elector; what it did seal is believed or refused, whatever is in it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

from epoxy.agent import links
from epoxy.agent.links import IncomingLink, LinkListener
from epoxy.codec.resp import array, bulk
from epoxy.model.errors import CodecError
from epoxy.protocol.elect import codec, epochs, handshake
from epoxy.protocol.elect.elector import Elector
from epoxy.protocol.elect.handshake import Party, party_of
from epoxy.protocol.elect.link_session import AcceptorSession, DialerSession, words_of
from epoxy.protocol.elect.lists import first
from epoxy.protocol.elect.messages import (
    Acceptance,
    Announce,
    Counted,
    Handover,
    Heartbeat,
    Message,
    Offer,
    Role,
    ServerState,
)
from epoxy_sim.elect.admission import one
from tests.fuzz.hand_loop import HandLoop, RecordingTransport, hand_loop
from tests.fuzz.harness import BYTE_MUTATIONS, Finding, FuzzTarget
from tests.protocol.elect.bench import config_of, record_of

CONFIG = config_of("abc")
SECRET = b"a secret that no mutation guesses"
NONCE = b"n" * handshake.NONCE_BYTES
"""Of both ends and of every connection, so that a conversation can be written before it is held."""

NOW_MS = 5_000
NUMBERS = (0, 1, 2, 3, 7, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
MOST_WRITTEN = 2048
"""An answer to HELLO, or the version of this release: a stranger gets no more out of a connection than it puts in."""

TOKENS = [b"\r\n", b"*", b"$", b"*2\r\n", b"$32\r\n", b"*0\r\n", b"*-1\r\n", b"HELLO", b"PROOF", b"\x00", b"\xff"]
TOKENS += [array([bulk(b"PROOF"), bulk(b"0" * 64)]), array([bulk(b"x" * 32), bulk(b"")]), b"PING\r\n", b"*1000000\r\n"]


@cache
def party(me: str) -> Party:
    return party_of(CONFIG, me, (SECRET,), first(CONFIG))


def message(dice: Random, node: str) -> Message:
    """A valid one, with numbers that only a faulty node would send."""
    epoch, stage = dice.choice(NUMBERS), dice.choice((0, 0, 0, dice.choice(NUMBERS)))
    digest, peer = first(CONFIG).newest.digest, dice.choice("abcz")
    match dice.randrange(6):
        case 0:
            return Offer(
                epoch=epoch,
                node=node,
                offset=dice.choice(NUMBERS),
                history=dice.choice(NUMBERS),
                in_office=dice.random() < 0.5,
                stage=stage,
                list=digest,
            )
        case 1:
            return Acceptance(epoch=epoch, node=node, candidate=peer)
        case 2:
            return Announce(epoch=epoch, node=node, address="a:1")
        case 3:
            return Handover(epoch=epoch, node=node, heir=peer)
        case 4:
            return Counted(
                epoch=epoch,
                node=node,
                stage=0,
                lists=first(CONFIG).counted,
                floor_generation=dice.choice(NUMBERS),
                floor_list=digest,
            )
        case _:
            return Heartbeat(
                epoch=epoch,
                node=node,
                role=dice.choice(list(Role)),
                offset=dice.choice(NUMBERS),
                leader_epoch=dice.choice((epoch, dice.choice(NUMBERS))),
                leader=peer,
                history=dice.choice(NUMBERS),
                state=dice.choice(list(ServerState)),
                stamp=dice.choice(NUMBERS),
                echo=dice.choice(NUMBERS),
                stage=stage,
                list=digest,
            )


def read(data: bytes) -> Message | None:
    try:
        return codec.decode(words_of(data))
    except CodecError:
        return None


def opened(sender: str) -> tuple[DialerSession, list[bytes]]:
    """The dialer's end of a connection to b, and what it said in the handshake."""
    calling = DialerSession(party(sender), "b", NONCE)
    return calling, [calling.greeting, calling.conclude(answer_to(sender))]


@cache
def answer_to(sender: str) -> list[bytes]:
    return one(AcceptorSession().greet(party("b"), one(DialerSession(party(sender), "b", NONCE).greeting), NONCE))


class AgentsTarget:
    """b listens; a and c, or a stranger, connect."""

    name = "agents"
    tokens: Sequence[bytes] = TOKENS

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self._sealed: dict[int, list[bytes]] = {}
        """Messages that were sealed for this input, by the place they were sealed for."""
        self._believed: list[Message] = []

    def conversation(self, dice: Random) -> list[bytes]:
        sender = dice.choice("ac")
        calling, said = opened(sender)
        for place in range(dice.choice((0, 1, 2, 3, 6))):
            data = codec.encode(message(dice, dice.choice((sender, sender, sender, "b"))))
            if dice.random() < 0.2:
                data = dice.choice(BYTE_MUTATIONS)(dice, data, self.tokens)
            said.append(calling.seal(data))
            self._sealed.setdefault(place, []).append(data)
        return said[dice.choice((0, 0, 0, 0, 1)) :]

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        del dice
        sealed, self._sealed = self._sealed, {}
        whole, sender = self._run([b"".join(pieces)])
        cut, _ = self._run(pieces)
        if whole != cut:
            raise Finding("what is believed depends on how the bytes arrive")
        for place, believed in enumerate(whole):
            if believed not in [*map(read, sealed.get(place, []))]:
                raise Finding(f"message {place} was believed, and was not sealed for that place: {believed}")
        if whole:
            self._elect(whole)
        return "believed" if whole else "proved" if sender else "refused"

    def _run(self, pieces: Sequence[bytes]) -> tuple[list[Message], str]:
        believed: list[Message] = []
        listener = LinkListener(lambda: party("b"), believed.append)
        link = IncomingLink(listener)
        wire = RecordingTransport(self._loop, link)
        wire.open()
        for piece in pieces:
            wire.receive(piece)
        sender = link.sender
        wire.hang_up()
        self._loop.wait(links.HANDSHAKE_S)
        if listener._incoming:
            raise Finding("a connection that has ended is still counted")
        if self._loop.unheard:
            raise Finding(f"reached the loop's exception handler: {self._loop.unheard.pop()}")
        if len(wire.written) > MOST_WRITTEN:
            raise Finding(f"{len(wire.written)} bytes were sent")
        return believed, sender

    def _elect(self, believed: list[Message]) -> None:
        """A member may lie. No message ends an agent, and none makes it save an epoch that cannot be."""
        elector = Elector(CONFIG, "b", record_of("abc", leader="a"), NOW_MS, lambda low, _: low)
        for each in believed:
            elector.receive(each, NOW_MS)
            codec.encode(Announce(epoch=elector.record.epoch, node="b", address="b:1"))
        if elector.record.epoch > epochs.AWAY + 1:
            raise Finding(f"one node made another save epoch {elector.record.epoch}")

    def probe(self) -> None:
        calling, said = opened("a")
        vote = Acceptance(epoch=2, node="a", candidate="b")
        believed, _ = self._run([*said, calling.seal(codec.encode(vote))])
        if believed != [vote]:
            raise Finding("a sealed message is not believed")


@contextmanager
def agents_target() -> Iterator[FuzzTarget]:
    with hand_loop() as loop, patch.object(links, "secrets", SimpleNamespace(token_bytes=lambda _: NONCE)):
        yield AgentsTarget(loop)
