"""What all fuzzers share: mutations of valid conversations, their cutting into pieces, and the run.

A target gives valid conversations (whole messages, in order) and judges one input: it feeds the pieces to protocol
objects in this process, on a loop without sockets, and raises `Finding` for anything that must not happen. A run is a
function of its seed, so a finding is replayed with the command that is printed.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

NUMBER = re.compile(rb"\d+")
NUMBERS = [b"0", b"1", b"2", b"7", b"-1", b"00", b"1023", b"1024", b"1025", b"65536", b"1048577", b"4294967296"]
NUMBERS += [b"9223372036854775807", b"18446744073709551615", b"18446744073709551616", b"9" * 30, b"1e9", b"0x10"]

MAX_INPUT_BYTES = 8 << 10
"""Long inputs are slow and reach nothing new: limits above this have tests of their own."""

PROBE_EVERY = 50
"""Inputs between two valid requests that must be answered."""

MOST_SHOWN = 2000
"""Characters of an input in a finding; a replay has the rest."""

Message = bytes
Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


class Finding(Exception):
    """What must never happen."""


class FuzzTarget(Protocol):
    """One protocol. `tokens`: words of it, which mutations put in."""

    name: str
    tokens: Sequence[bytes]

    def conversation(self, dice: Random) -> list[Message]:
        """A valid one: whole messages of a client, in order."""

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        """Feed one input to a new connection, end the connection, and check what it did. Returns a word for the
        outcome, for the counts; raises Finding."""

    def probe(self) -> None:
        """A valid request on a new connection. Raises Finding if it is not answered as it should be."""


def compare(whole: bytes, cut: bytes) -> None:
    """Of one input, what was sent when it came in one piece, and when it came in several."""
    if whole != cut:
        at = next((at for at, pair in enumerate(zip(whole, cut, strict=False)) if pair[0] != pair[1]), 0)
        near = slice(max(0, at - 100), at + 200)
        raise Finding(f"answers depend on how the bytes arrive:\n  whole {whole[near]!r}\n  cut   {cut[near]!r}")


# Mutations of one message


def flip(dice: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def put_token(dice: Random, data: bytes, tokens: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(tokens) + data[at + dice.choice((0, 0, 1, 4)) :]


def put_bytes(dice: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.randbytes(dice.randint(1, 8)) + data[at:]


def delete(dice: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at + dice.randint(1, 8) :]


def truncate(dice: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: dice.randrange(len(data))]


def repeat(dice: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at : at + dice.randint(1, 32)] * dice.randint(2, 9) + data[at:]


def renumber(dice: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A length, a count or a version becomes another number."""
    found = [*NUMBER.finditer(data)]
    if not found:
        return data
    number = dice.choice(found)
    near = b"%d" % max(0, int(number[0][:9]) + dice.choice((-1, 1)))
    return data[: number.start()] + dice.choice([*NUMBERS, near]) + data[number.end() :]


BYTE_MUTATIONS: tuple[Mutation, ...] = (
    flip,
    put_token,
    put_token,
    put_bytes,
    delete,
    truncate,
    repeat,
    renumber,
    renumber,
)


def mutate(dice: Random, target: FuzzTarget) -> bytes:
    """A valid conversation with a few changes; one in sixteen is left as it is."""
    messages = target.conversation(dice)
    for _ in range(dice.choice((0, 1, 1, 1, 1, 2, 2, 3, 4)) if dice.random() < 15 / 16 else 0):
        if not messages:
            messages = target.conversation(dice)
        at = dice.randrange(len(messages))
        kind = dice.random()
        if kind < 0.70:
            if messages[at]:
                messages[at] = dice.choice(BYTE_MUTATIONS)(dice, messages[at], target.tokens)
        elif kind < 0.76:
            del messages[at]
        elif kind < 0.82:
            messages[at:at] = [messages[at]] * dice.choice((1, 1, 2, 30))
        elif kind < 0.88:
            messages.append(messages.pop(at))
        else:
            messages[at:at] = target.conversation(dice)
    return b"".join(messages)[:MAX_INPUT_BYTES]


def cut(dice: Random, data: bytes) -> list[bytes]:
    """Pieces as a network might deliver them: often one, sometimes some, rarely single bytes."""
    kind = dice.random()
    if kind < 0.4 or len(data) < 2:
        return [data]
    if kind > 0.99:
        return [*(data[at : at + 1] for at in range(min(512, len(data)))), data[512:]]
    ends = sorted({dice.randrange(1, len(data)) for _ in range(dice.randint(1, 4))})
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def shown(pieces: Sequence[bytes]) -> str:
    text = repr(pieces)
    return f"pieces: {text}" if len(text) <= MOST_SHOWN else f"pieces: {text[:MOST_SHOWN]}... ({len(text)} characters)"


def fuzz(target: FuzzTarget, inputs: int, seed: int) -> Counter[str]:
    """How often each outcome came. Raises Finding, with the bytes."""
    dice = Random(seed)
    verdicts: Counter[str] = Counter()
    for number in range(inputs):
        pieces = cut(dice, mutate(dice, target))
        try:
            verdicts[target.judge(pieces, dice)] += 1
            if number % PROBE_EVERY == PROBE_EVERY - 1 or number == inputs - 1:
                target.probe()
        except Finding as finding:
            raise Finding(f"{target.name}, input {number} of seed {seed}: {finding}\n{shown(pieces)}") from finding
        except Exception as error:
            raise Finding(f"{target.name}, input {number} of seed {seed}: {error!r}\n{shown(pieces)}") from error
    return verdicts
