"""The generator: its output is the file that is committed, and it notices when schema and model part ways."""

from typing import Any

import pytest

from epoxy.codec import bare, wire
from epoxy.codec.generate import MODELS, SCHEMA, TARGET, generate
from epoxy.codec.refusals import REFUSALS, Refusals
from epoxy.codec.schema import Limit, SchemaError, parse
from epoxy.model.errors import InvalidValue, NonCanonical, UnknownTag
from epoxy.model.instances import MAX_BATCH, MAX_DEPENDENCIES, MAX_PAGE
from epoxy.model.members import MAX_FIGURES_BYTES, MAX_PAGE_ROWS, MAX_STRETCHES, MAX_VALUE_ROWS
from epoxy.model.quorum import MAX_REPLICAS
from epoxy.model.records import LINEAGE_LENGTH, MAX_FOLD_WRITES, MAX_KEY_BYTES, MAX_VALUE_BYTES, SESSION_ID_BYTES
from epoxy.model.transactions import MAX_PARTS
from epoxy.store.limits import MAX_ROW_KEY_BYTES, MAX_ROW_VALUE_BYTES
from tests.codec import toy_model
from tests.codec.toy_model import Colour, Nothing, Pair, Point, Spot

TOY = """
type Hash data[3]
#! limit 0..5
type Name str
#! limit 1..2
type Names list<Name>
type Colour enum { RED = 0 DARK_BLUE = 7 }
#! limit 0..2
type Colours list<Colour>
type Pair struct {
  leftSide: uint
  hash: optional<Hash>
  flag: bool
  narrow: u16
  names: Names
  colours: optional<Colours>
  maybe: optional<bool>
}
type Nothing void
type Choice union { Pair = 3 | Nothing = 5 }
"""
PAIR = Pair(left_side=300, hash=b"abc", flag=True, narrow=1, names=("x",), colours=(Colour.DARK_BLUE,), maybe=False)
PAIR_BYTES = bytes.fromhex("03 ac02 01616263 01 0100 010178 010107 0100")


def toy(text: str = TOY, refusals: Refusals | None = None) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(generate(text, "toy.bare", (toy_model,), refusals or {}), namespace)
    return namespace


@pytest.mark.pure("reads the schema that lies beside the sources")
def test_the_committed_codec_is_up_to_date() -> None:
    assert TARGET.read_text("utf-8") == generate(SCHEMA.read_text("utf-8"), SCHEMA.name), (
        "run python -m epoxy.codec.generate"
    )


@pytest.mark.parametrize(("value", "data"), [(PAIR, PAIR_BYTES), (Nothing(), b"\x05")])
def test_a_toy_codec_works(value: object, data: bytes) -> None:
    codec = toy()
    out: list[bytes] = []
    codec["encode_choice"](out, value)
    assert b"".join(out) == data
    assert codec["decode_choice"](data, 0) == (value, len(data))


SPOT = """
#! limit 2..300
type Buffer data
type Point struct { x: uint y: uint }
type Spot struct {
  position: Point
  flag: bool
  length: u32
  buffer: Buffer
}
"""
SPOTS = [
    (Spot(position=Point(1, 2), flag=True, length=3, buffer=b"ab"), "01 02 01 03000000 02 6162"),
    (Spot(position=Point(1, 127), flag=False, length=1 << 31, buffer=b"a" * 127), "01 7f 00 00000080 7f" + "61" * 127),
    (Spot(position=Point(300, 2), flag=True, length=3, buffer=b"a" * 300), "ac02 02 01 03000000 ac02" + "61" * 300),
    (Spot(position=Point(1, 128), flag=True, length=3, buffer=b"ab"), "01 8001 01 03000000 02 6162"),
]


@pytest.mark.parametrize(("spot", "data"), SPOTS)
def test_neighbouring_numbers_of_every_length(spot: Spot, data: str) -> None:
    codec = toy(SPOT)
    out: list[bytes] = []
    codec["encode_spot"](out, spot)
    assert b"".join(out) == bytes.fromhex(data)
    assert codec["decode_spot"](bytes.fromhex(data), 0) == (spot, len(bytes.fromhex(data)))


def test_neighbouring_numbers_of_no_length() -> None:
    codec = toy(SPOT, {"Point": (("{x} > {y}", "above"),)})
    for wrong in ("01 02 02 03000000 02 6162", "01 8200 01 03000000 02 6162", "8100 02 01 03000000 02 6162"):
        with pytest.raises(NonCanonical):
            codec["decode_spot"](bytes.fromhex(wrong), 0)
    for point in (Point(-1, 2), Point(1, 1 << 64)):
        with pytest.raises(InvalidValue):
            codec["encode_spot"]([], Spot(position=point, flag=True, length=1, buffer=b"ab"))
    with pytest.raises(InvalidValue, match="above"):
        codec["decode_spot"](bytes.fromhex("02 01 01 03000000 02 6162"), 0)
    with pytest.raises(InvalidValue, match="above"):
        codec["encode_spot"]([], Spot(position=Point(2, 1), flag=True, length=1, buffer=b"ab"))


def test_a_toy_codec_knows_its_tags() -> None:
    codec = toy()
    with pytest.raises(UnknownTag, match="Choice has no member 4"):
        codec["decode_choice"](b"\x04", 0)
    with pytest.raises(UnknownTag, match="Colour has no member 1"):
        codec["decode_colour"](b"\x01", 0)


def test_refusals_bind_both_directions() -> None:
    codec = toy(refusals={"Pair": (("{left_side} > 200 and {flag}", "too far left"),)})
    with pytest.raises(InvalidValue, match="too far left"):
        codec["decode_choice"](PAIR_BYTES, 0)
    with pytest.raises(InvalidValue, match="too far left"):
        codec["encode_choice"]([], PAIR)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("  narrow: u16\n", "", "Pair is .* in the schema, but .*'narrow'.* in the model"),
        ("leftSide", "left", "Pair is .*'left'"),
        ("flag: bool\n  narrow: u16", "narrow: u16\n  flag: bool", "Pair is"),
        ("RED = 0 ", "", "Colour is .* in the schema, but .*'RED'"),
        (" | Nothing = 5", "", "Choice is .* in the schema, but .*'Nothing'"),
        ("type Nothing void", "type Nothing struct { some: uint }", "Nothing is"),
        ("type Hash", "type Stranger struct { some: uint }\ntype Hash", "Stranger is in the schema, but not in"),
    ],
)
def test_schema_and_model_may_not_part_ways(before: str, after: str, problem: str) -> None:
    assert before in TOY
    with pytest.raises(SchemaError, match=problem):
        toy(TOY.replace(before, after))


def test_a_type_may_not_hide_a_primitive() -> None:
    with pytest.raises(SchemaError, match="Length would hide a primitive"):
        toy("#! limit 0..1\ntype Length list<bool>")


@pytest.mark.pure("reads the schema that lies beside the sources")
def test_limits_are_those_of_the_model() -> None:
    limits = {definition.name: definition.limit for definition in parse(SCHEMA.read_text("utf-8"))}
    assert {name: limit for name, limit in limits.items() if limit is not None} == {
        "Key": Limit(1, MAX_KEY_BYTES),
        "Value": Limit(0, MAX_VALUE_BYTES),
        "Session": Limit(0, SESSION_ID_BYTES),
        "Imports": Limit(0, MAX_PARTS),
        "Folded": Limit(0, MAX_FOLD_WRITES - 1),
        "Lineage": Limit(0, LINEAGE_LENGTH),
        "CarriedWrites": Limit(1, MAX_FOLD_WRITES),
        "CarryAnswerList": Limit(1, MAX_FOLD_WRITES),
        "DeclinedIds": Limit(0, MAX_FOLD_WRITES),
        "Url": Limit(0, 2048),
        "Datacenter": Limit(0, 255),
        "Members": Limit(1, MAX_REPLICAS),
        "Voters": Limit(0, MAX_REPLICAS),
        "Reason": Limit(0, 1024),
        "Stamps": Limit(0, 64),
        "Requests": Limit(0, wire.MAX_BATCH),
        "Replies": Limit(0, wire.MAX_BATCH),
        "Entries": Limit(0, MAX_PAGE_ROWS),
        "UnsettledKeys": Limit(0, MAX_PAGE_ROWS),
        "RequestedMembers": Limit(1, MAX_REPLICAS),
        "Values": Limit(0, MAX_PARTS),
        "Compares": Limit(0, MAX_PARTS),
        "Operations": Limit(0, MAX_PARTS),
        "Keys": Limit(0, MAX_PARTS),
        "Txns": Limit(1, MAX_BATCH),
        "Ends": Limit(0, MAX_REPLICAS),
        "InstanceIds": Limit(0, MAX_REPLICAS * MAX_DEPENDENCIES),
        "Rivals": Limit(0, MAX_DEPENDENCIES),
        "Commits": Limit(0, MAX_PAGE),
        "Stretches": Limit(0, MAX_STRETCHES),
        "Places": Limit(0, MAX_STRETCHES),
        "Pairs": Limit(0, MAX_VALUE_ROWS),
        "KeptOnes": Limit(0, MAX_PAGE_ROWS),
        "RowKey": Limit(1, MAX_ROW_KEY_BYTES),
        "RowValue": Limit(0, MAX_ROW_VALUE_BYTES),
        "ActorRows": Limit(0, MAX_PAGE_ROWS),
        "FiguresJson": Limit(0, MAX_FIGURES_BYTES),
    }


@pytest.mark.pure("reads the schema that lies beside the sources")
def test_every_type_that_asserts_is_refused_politely() -> None:
    """A model class with invariants of its own needs an entry in REFUSALS, or bytes could trip its asserts."""
    names = {definition.name for definition in parse(SCHEMA.read_text("utf-8"))}
    found = {name for module in MODELS for name, kind in vars(module).items() if hasattr(kind, "__post_init__")}
    assert found & names <= set(REFUSALS)
    assert set(REFUSALS) <= names


@pytest.mark.pure("reads the schema that lies beside the sources")
def test_refusals_are_told_in_the_schema() -> None:
    text = SCHEMA.read_text("utf-8")
    for name in REFUSALS:
        comment = text[: text.index(f"type {name} struct")].rsplit("\n\n", 1)[1]
        assert "# Refused: " in comment, name


def test_generated_code_imports_nothing_unused() -> None:
    source = generate(TOY, "toy.bare", (toy_model,), {})
    assert "pairwise" not in source
    assert "InvalidValue" not in source
    assert bare.encode_fixed.__name__ in source
