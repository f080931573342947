"""Feeds mutated encodings to every decoder: `python -m tests.codec.fuzz_bare --inputs 100000`.

A decoder may refuse with a `CodecError`, or accept and then encode to the very same bytes. Anything else is a finding:
it is printed with its bytes, and the run ends with exit code 1. A run is a function of its seed.

`--atheris` lets atheris (libFuzzer) steer the mutations by coverage instead, where it is installed.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from multiprocessing import Process
from pathlib import Path
from tempfile import TemporaryDirectory

from epoxy.codec import wire
from epoxy.model.errors import CodecError
from tests.codec.earlier import EARLIER, spelled
from tests.codec.golden import read_golden
from tests.codec.strategies import FORMATS, Format

MAX_CORPUS = 500
"""Accepted mutants join the corpus, so that later ones reach deeper. Enough to keep variety, too few to slow down."""

MAX_INPUT_BYTES = 4096
"""Long inputs are slow and add nothing: every limit above this is tested by name in test_wire."""

NUMBERS = "00 01 02 7f 80 ff 8000 8001 8100 ff00 8008 8108 808040 818040 ffffffffffffffffff01 ffffffffffffffffff02"
INTERESTING = [bytes.fromhex(text) for text in (*NUMBERS.split(), "80" * 9 + "00", "ff" * 12, "c080")]
"""Numbers around the limits, long ways to write small ones, numbers above 64 bits, and a NUL that is not UTF-8."""

Mutation = Callable[[random.Random, bytes, bytes], bytes]


class Finding(Exception):
    """What a decoder must never do."""


def flip(dice: random.Random, data: bytes, _: bytes) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def replace(dice: random.Random, data: bytes, _: bytes) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + dice.choice(INTERESTING) + data[at + 1 :]


def insert(dice: random.Random, data: bytes, _: bytes) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice([*INTERESTING, dice.randbytes(dice.randint(1, 8))]) + data[at:]


def delete(dice: random.Random, data: bytes, _: bytes) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at + dice.randint(1, 4) :]


def truncate(dice: random.Random, data: bytes, _: bytes) -> bytes:
    return data[: dice.randrange(len(data))]


def splice(dice: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: dice.randrange(len(data) + 1)] + other[dice.randrange(len(other) + 1) :]


def repeat(dice: random.Random, data: bytes, _: bytes) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at : at + dice.randint(1, 16)] * dice.randint(2, 9) + data[at:]


def lengthen_number(dice: random.Random, data: bytes, _: bytes) -> bytes:
    """The same number, one byte longer than it has to be."""
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] | 0x80, 0x00]) + data[at + 1 :]


MUTATIONS: tuple[Mutation, ...] = (flip, replace, insert, delete, truncate, splice, repeat, lengthen_number)


def mutate(dice: random.Random, data: bytes, other: bytes) -> bytes:
    """A few mutations, most often behind the format version: a wrong one ends the decoder's work at once."""
    kept = len(wire.HEADER) if dice.random() < 0.98 else 0
    header, data, other = data[:kept], data[kept:], other[kept:]
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        data = dice.choice(MUTATIONS)(dice, data, other) if data else other
    return header + data[:MAX_INPUT_BYTES]


def judge(form: Format, data: bytes) -> str:
    """The name of the error, or "accepted"."""
    try:
        value = form.decode(data)
    except CodecError as error:
        return type(error).__name__
    except Exception as error:
        raise Finding(f"{form.name}: {error!r} escapes from {data.hex()}") from error
    try:
        again = spelled(form, value, data)
    except Exception as error:
        raise Finding(f"{form.name}: {data.hex()} decodes, but then {error!r}") from error
    if again != data:
        raise Finding(f"{form.name}: {data.hex()} is a second spelling of {again.hex()}")
    return "accepted"


def examples() -> dict[str, list[bytes]]:
    """Golden encodings by format, those of earlier formats among them."""
    golden = [*read_golden().items(), *[pair for earlier in EARLIER.values() for pair in earlier.items()]]
    return {name: [data for case, data in golden if case.split()[0] == name] for name in FORMATS}


def fuzz(inputs: int, seed: int, formats: Mapping[str, Format] = FORMATS) -> Counter[str]:
    dice = random.Random(seed)
    corpus = examples()
    names = list(formats)
    verdicts: Counter[str] = Counter()
    for _ in range(inputs):
        name = dice.choice(names)
        data = mutate(dice, dice.choice(corpus[name]), dice.choice(corpus[dice.choice(names)]))
        verdict = judge(formats[name], data)
        verdicts[verdict] += 1
        if verdict == "accepted" and len(corpus[name]) < MAX_CORPUS:
            corpus[name].append(data)
    return verdicts


def run_atheris(arguments: list[str]) -> None:
    """Does not return: libFuzzer ends the process. The first byte of an input chooses the decoder."""
    import atheris

    forms = list(FORMATS.values())

    def one_input(data: bytes) -> None:
        if data:
            judge(forms[data[0] % len(forms)], data[1:])

    atheris.instrument_all()
    atheris.Setup(["fuzz_bare", *arguments], one_input)
    atheris.Fuzz()


def fuzz_with_atheris(inputs: int, seed: int) -> int:
    """In a process of its own, so that somebody is left to clear the corpus away. Returns its exit code."""
    with TemporaryDirectory() as folder:
        for index, name in enumerate(FORMATS):
            for number, data in enumerate(examples()[name]):
                Path(folder, f"{index}-{number}").write_bytes(bytes([index]) + data)
        limits = [f"-runs={inputs}", f"-seed={seed}", f"-max_len={MAX_INPUT_BYTES}", f"-artifact_prefix={folder}/"]
        process = Process(target=run_atheris, args=([*limits, folder],))
        process.start()
        process.join()
    return process.exitcode or 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed mutated encodings to every decoder.")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None, help="drawn anew and printed if not given")
    parser.add_argument("--atheris", action="store_true", help="mutate by coverage, with atheris")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    steered = " --atheris" if options.atheris else ""
    print(f"replay: python -m tests.codec.fuzz_bare --inputs {options.inputs} --seed {seed}{steered}", flush=True)
    if options.atheris:
        return fuzz_with_atheris(options.inputs, seed)
    started = time.perf_counter()
    try:
        verdicts = fuzz(options.inputs, seed)
    except Finding as finding:
        print(f"FOUND {finding}")
        return 1
    rate = options.inputs / (time.perf_counter() - started)
    print(f"{verdicts.total()} inputs, {rate:.0f} a second, nothing found")
    print(", ".join(f"{name} {count}" for name, count in verdicts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
