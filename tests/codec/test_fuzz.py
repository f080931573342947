"""A small fuzz run, and proof that the fuzzer finds codecs that are wrong."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epoxy.codec import bare, epoxy_v4, wire
from epoxy.codec.generate import SCHEMA, generate
from epoxy.codec.refusals import REFUSALS, Refusals
from epoxy.model.errors import InvalidValue, NonCanonical
from epoxy.model.messages import Request
from tests.codec.fuzz_bare import MUTATIONS, Finding, fuzz, mutate
from tests.codec.strategies import FORMATS, Format

ROOT = Path(__file__).resolve().parents[2]
INPUTS = 2_000
PLANTED_SEEDS = range(12)


def test_nothing_is_found() -> None:
    verdicts = fuzz(INPUTS, seed=0)
    assert verdicts.total() == INPUTS


def test_every_verdict_is_reached() -> None:
    """A fuzzer whose inputs all die at the first byte finds nothing either."""
    verdicts = fuzz(20_000, seed=1)
    errors = {"Truncated", "TrailingBytes", "Oversized", "NonCanonical", "UnknownTag", "InvalidValue", "UnknownVersion"}
    assert set(verdicts) == errors | {"accepted"}
    assert min(verdicts.values()) >= 50


def test_a_run_is_a_function_of_its_seed() -> None:
    assert fuzz(500, seed=7) == fuzz(500, seed=7)
    assert fuzz(500, seed=7) != fuzz(500, seed=8)


def test_mutations_change_something() -> None:
    dice = random.Random(3)
    data, other = bytes(range(40)), bytes(range(100, 140))
    for mutation in MUTATIONS:
        assert any(mutation(dice, data, other) != data for _ in range(20)), mutation
    assert any(mutate(dice, data, other)[:2] != data[:2] for _ in range(1000)), "the version is never touched"


# Planted faults: each is a mistake a codec really could make.


def lax_uint(buffer: bytes, position: int) -> tuple[int, int]:
    """Takes any number of leading zeros."""
    number = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte <= 0x7F:
            return number, position


def lax_length(buffer: bytes, position: int, low: int, high: int) -> tuple[int, int]:
    del low, high
    return bare.decode_uint(buffer, position)


def lax_str(buffer: bytes, position: int, low: int, high: int) -> tuple[str, int]:
    data, end = bare.decode_data(buffer, position, low, high)
    return data.decode(errors="replace"), end


def careless_str(buffer: bytes, position: int, low: int, high: int) -> tuple[str, int]:
    data, end = bare.decode_data(buffer, position, low, high)
    return data.decode(), end


def lax_tag(name: str, buffer: bytes, position: int) -> Exception:
    return KeyError(f"{name} {buffer[position]}")


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "numbers with leading zeros": ("decode_uint", lax_uint),
    "lengths without limits": ("decode_length", lax_length),
    "text repaired": ("decode_str", lax_str),
    "text believed": ("decode_str", careless_str),
    "tags believed": ("unknown_tag", lax_tag),
}


def is_found(formats: dict[str, Format]) -> bool:
    """Within a small run of at least one seed; the acceptance run is fifty times as long."""
    for seed in PLANTED_SEEDS:
        try:
            fuzz(INPUTS, seed, formats)
        except Finding:
            return True
    return False


@pytest.mark.pure("plants faults in the codec")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = FAULTS[fault]
    monkeypatch.setattr(bare, name, wrong)
    monkeypatch.setattr(epoxy_v4, name, wrong)
    assert is_found(FORMATS)


END_FAULTS: dict[str, Callable[[bytes, int], int]] = {
    "trailing bytes ignored": lambda data, _: len(data),
    "a missing end ignored": lambda data, position: min(position, len(data)),
}


@pytest.mark.parametrize("fault", END_FAULTS)
def test_ignoring_where_a_value_ends_is_found(fault: str) -> None:
    def careless(data: bytes, begin: int) -> tuple[Request, int]:
        request, position = epoxy_v4.decode_request(data, begin)
        return request, END_FAULTS[fault](data, position)

    form = Format("request", FORMATS["request"].values, *wire.pair(epoxy_v4.encode_request, careless))
    assert is_found({"request": form})


@pytest.mark.pure("reads the schema that lies beside the sources")
def test_any_byte_for_true_is_found() -> None:
    source = epoxy_v4_source()
    assert "if flag > 1:" in source
    namespace: dict[str, Any] = {}
    exec(source.replace("if flag > 1:", "if False:").replace("= flag == 1", "= flag > 0"), namespace)
    encode, decode = wire.pair(namespace["encode_proposal"], namespace["decode_proposal"])
    assert is_found({"cached": Format("cached", FORMATS["cached"].values, encode, decode)})


def epoxy_v4_source(refusals: Refusals = REFUSALS) -> str:
    return generate(SCHEMA.read_text("utf-8"), SCHEMA.name, refusals=refusals)


@pytest.mark.pure("reads the schema that lies beside the sources")
def test_a_codec_without_refusals_is_found() -> None:
    """Then the model's own asserts are what the bytes run into."""
    namespace: dict[str, Any] = {}
    exec(epoxy_v4_source({}), namespace)
    pairs = {"cached": "proposal", "config": "cluster_config", "request": "request"}
    for form, name in pairs.items():
        header = wire.HEADER_2 if form == "config" else wire.HEADER
        encode, decode = wire.pair(namespace[f"encode_{name}"], namespace[f"decode_{name}"], header=header)
        assert is_found({form: Format(form, FORMATS[form].values, encode, decode)}), form


def test_without_faults_the_same_runs_find_nothing() -> None:
    assert not is_found(FORMATS)


@pytest.mark.pure("plants faults in the codec")
def test_strictness_catches_leading_zeros_too(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes.fromhex("0400 03 016b 8500")
    with pytest.raises(NonCanonical):
        wire.decode_request(data)
    monkeypatch.setattr(epoxy_v4, "decode_uint", lax_uint)
    assert wire.encode_request(wire.decode_request(data)) != data


def test_refusals_do_not_depend_on_asserts() -> None:
    """`python -O` strips the model's asserts; the codec refuses all the same."""
    script = "\n".join(
        [
            "from epoxy.codec import wire",
            "from epoxy.model.errors import InvalidValue",
            "assert False, 'asserts are off'",
            "try:",
            "    wire.decode_cached(bytes.fromhex('0400 00 01 00 02 8877665544332211 000000'))",
            "except InvalidValue as error:",
            "    print(type(error).__name__)",
        ]
    )
    run = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == InvalidValue.__name__


def test_the_command_reports_and_exits() -> None:
    command = [sys.executable, "-m", "tests.codec.fuzz_bare", "--inputs", "300", "--seed", "5"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0
    assert "--inputs 300 --seed 5" in run.stdout
    assert "300 inputs" in run.stdout
