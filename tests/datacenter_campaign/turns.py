"""Faults in turns of all kinds, for both campaigns of this room."""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection

from epoxy import EpoxyError
from tests.end_to_end.recorder import Recorder

BREATH_S = 1.0
"""Without a fault, between two of them."""


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def rage(
    strike: Callable[[str], str],
    kinds: Collection[str],
    minutes: float,
    dice: random.Random,
    recorder: Recorder,
    findings: list[str],
) -> Counter[str]:
    """In turns of all kinds, until the time is over, or what was struck does not become whole again."""
    began_s = time.monotonic()
    done: Counter[str] = Counter()
    turn: list[str] = []
    while time.monotonic() - began_s < minutes * 60:
        if not turn:
            turn = list(kinds)
            dice.shuffle(turn)
        kind = turn.pop()
        struck_s = time.monotonic()
        try:
            told = strike(kind)
        except (EpoxyError, AssertionError) as error:
            findings.append(f"{kind}: not whole again: {error}")
            return done
        done[kind] += 1
        passed_s, took_s = time.monotonic() - began_s, time.monotonic() - struck_s
        say(f"  {passed_s:6.1f} s  {len(recorder.history):6d} operations   {kind}: {told}; whole after {took_s:.1f} s")
        time.sleep(BREATH_S)
    return done
