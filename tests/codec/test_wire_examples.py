"""The bytes, errors and limits on the page docs/protocol/wire.md are those of the codec."""

import re
from pathlib import Path

import pytest

from epoxy.codec import bare, wire
from epoxy.codec.generate import SCHEMA
from epoxy.codec.schema import parse
from epoxy.model import errors
from epoxy.model.ballot import Ballot, fast_ballot
from epoxy.model.messages import Accept, Read
from epoxy.model.records import Proposal, ProposalId

PAGE = (Path(__file__).parents[2] / "docs" / "protocol" / "wire.md").read_text("utf-8")

pytestmark = pytest.mark.pure("reads the page and the schema, which lie beside the sources")


def section(title: str) -> str:
    return re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:][titles().index(title)]


def titles() -> list[str]:
    return re.findall(r"^## (.*)$", PAGE, re.MULTILINE)


def rows(title: str) -> list[list[str]]:
    """The cells of the section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def encoded(kind: str, value: str) -> bytes:
    out: list[bytes] = []
    match kind:
        case "uint":
            return bare.uint(int(value))
        case "u64":
            bare.encode_unsigned(out, int(value), 8)
        case "data":
            bare.encode_str(out, value.strip('"'), 0, 9)
        case "bool":
            return bare.BYTES[value == "true"]
        case _:
            raise AssertionError(kind)
    return b"".join(out)


def test_types() -> None:
    examples = {cells[0].strip("`").split("`")[0]: cells[2] for cells in rows("Types") if cells[2]}
    for kind in ("uint", "u64", "data", "bool"):
        value, spelled = re.findall(r"`([^`]+)`", examples.pop(kind))
        assert encoded(kind, value) == bytes.fromhex(spelled), kind
    assert wire.encode_ballot(Ballot(2, 3)) == wire.HEADER + hex_in(examples.pop("struct"))
    absent = wire.encode_reply(wire.decode_reply(b"\x04\x00\x00" + hex_in(examples.pop("optional<T>"))))
    assert absent == b"\x04\x00\x00\x00", "a PrepareOk without a vote"
    assert examples == {}


def hex_in(cell: str) -> bytes:
    (spelled,) = re.findall(r"`([^`]+)`", cell)
    return bytes.fromhex(spelled)


def test_the_accept_byte_by_byte() -> None:
    block = section("Types").split("An Accept of replica 2")[1]
    lines = re.findall(r"^ {4}((?:[0-9a-f]{2} )*[0-9a-f]{2}) +\S", block, re.MULTILINE)
    proposal = Proposal(value=b"v", version=1, mutable=False, proposal_id=ProposalId(2, 0x1122334455667788))
    accept = Accept(key=b"k", epoch=5, ballot=fast_ballot(2), proposal=proposal)
    assert len(lines) == 12
    assert wire.encode_request(accept) == bytes.fromhex("".join(lines))


def test_the_read_that_decodes() -> None:
    example = re.search(r"`([0-9a-f ]+)`, a Read", section("Errors"))
    assert example is not None
    assert wire.decode_request(bytes.fromhex(example[1])) == Read(key=b"k", epoch=5)


@pytest.mark.parametrize("cells", rows("Errors"), ids=lambda cells: cells[0].strip("`"))
def test_errors(cells: list[str]) -> None:
    expected = getattr(errors, cells[0].strip("`"))
    with pytest.raises(expected) as raised:
        wire.decode_request(hex_in(cells[2]))
    assert type(raised.value) is expected


def test_every_error_of_the_codec_is_on_the_page() -> None:
    named = {cells[0].strip("`") for cells in rows("Errors")}
    kinds = [kind for kind in errors.CodecError.__subclasses__() if kind.__module__ == errors.__name__]
    assert named == {kind.__name__ for kind in kinds}


def test_limits() -> None:
    limits = {definition.name: definition.limit for definition in parse(SCHEMA.read_text("utf-8"))}
    types = {
        "key": "Key",
        "value": "Value",
        "lineage": "Lineage",
        "writes of a fold before the last one": "Folded",
        "writes in a Carry": "CarriedWrites",
        "session": "Session",
        "replicas, former voters": "Voters",
        "url": "Url",
        "reason of a failure": "Reason",
        "messages in a frame": "Requests",
    }
    shown = {cells[0]: cells[1] for cells in rows("Limits")}
    assert number(shown.pop("encoding")) == wire.MAX_ENCODED_BYTES
    assert shown.keys() == types.keys()
    for name, kind in types.items():
        limit = limits[kind]
        assert limit is not None
        assert number(shown[name]) == limit.high, name


def number(text: str) -> int:
    amount, *unit = text.split(" to ")[-1].split()
    return int(amount) << (20 if unit == ["MiB"] else 0)
