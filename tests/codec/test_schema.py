"""The schema language: what it reads, and where it says a mistake is."""

import pytest

from epoxy.codec.schema import (
    Data,
    Definition,
    Enum,
    Field,
    FixedData,
    Limit,
    List,
    Named,
    Optional,
    RecordType,
    Scalar,
    SchemaError,
    Union,
    UnionMember,
    Void,
    parse,
)

EVERYTHING = """
# a comment
type Number uint
#! limit 1..16
type Name str    # another
#! limit 0..9
type Blob data
type Hash data[32]
type Colour enum { RED = 0 DARK_BLUE = 7 }
#! limit 0..3
type Names list<Name>
type Pair struct { left: Number right: optional<Hash> flag: bool wide: u64 }
type Nothing void
type Choice union { Pair = 0 | Nothing = 127 }
"""


def test_everything_is_read() -> None:
    pair = (
        Field("left", Named("Number")),
        Field("right", Optional(Named("Hash"))),
        Field("flag", Scalar("bool")),
        Field("wide", Scalar("u64")),
    )
    assert parse(EVERYTHING) == (
        Definition("Number", Scalar("uint")),
        Definition("Name", Data("str"), Limit(1, 16)),
        Definition("Blob", Data("data"), Limit(0, 9)),
        Definition("Hash", FixedData(32)),
        Definition("Colour", Enum((UnionMember("RED", 0), UnionMember("DARK_BLUE", 7)))),
        Definition("Names", List(Named("Name")), Limit(0, 3)),
        Definition("Pair", RecordType(pair)),
        Definition("Nothing", Void()),
        Definition("Choice", Union((UnionMember("Pair", 0), UnionMember("Nothing", 127)))),
    )


def test_an_empty_schema_defines_nothing() -> None:
    assert parse("") == ()
    assert parse("# only words\n\n") == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("type A uint\ntype  a uint", "line 2, column 7: a type name expected, not 'a'"),
        ("type A uint type A bool", "line 1, column 18: A is defined twice"),
        ("type A B", "line 1, column 8: B is no type defined above"),
        ("type A struct { a: A }", "line 1, column 20: A is no type defined above"),
        ("type A string", "line 1, column 8: string is no type defined above"),
        ("type A int", "line 1, column 8: int is no type defined above"),
        ("type A map<str><str>", "line 1, column 8: map is no type defined above"),
        ("typo A uint", "line 1, column 1: 'type' expected, not 'typo'"),
        ("type A", "line 1, column 7: the end is no type defined above"),
        ("type A struct {", "line 1, column 16: a field expected, not 'the end'"),
        ("type A struct {}", "line 1, column 16: a field expected, not '}'"),
        ("type A struct { B: uint }", "line 1, column 17: a field expected, not 'B'"),
        ("type A struct { b uint }", "line 1, column 19: ':' expected, not 'uint'"),
        ("type A struct {\n b: uint\n b: bool }", "line 3, column 2: field b twice"),
        ("type A struct { b: str }", "line 1, column 20: str needs a name of its own here"),
        ("type A struct { b: list<uint> }", "line 1, column 20: list needs a name of its own here"),
        ("type A struct { b: struct { c: uint } }", "line 1, column 20: struct needs a name of its own here"),
        ("type V void type A struct { b: V }", "line 1, column 32: V is void, which only a union can hold"),
        ("type A data", "line 1, column 6: A needs a line `#! limit LOW..HIGH` above it"),
        ("type A list<uint>", "line 1, column 6: A needs a line `#! limit LOW..HIGH` above it"),
        ("#! limit 0..9\ntype A uint", "line 2, column 6: A has no length to limit"),
        ("#! limit 9..1\ntype A data", "line 1, column 1: a limit from 9 down to 1"),
        ("#! limit 9\ntype A data", "line 1, column 1: only `#! limit LOW..HIGH` is understood, not '#! limit 9'"),
        ("type A data[x]", "line 1, column 13: a number expected, not 'x'"),
        ("type A data[3", "line 1, column 14: ']' expected, not 'the end'"),
        ("type A optional uint", "line 1, column 17: '<' expected, not 'uint'"),
        ("type A data[0]", "line 1, column 13: data of no bytes"),
        ("type A optional<optional<uint>>", "line 1, column 8: an optional inside an optional"),
        ("type A optional<bool> type B A type C optional<B>", "line 1, column 39: an optional inside an optional"),
        ("type V void type W V type A optional<W>", "line 1, column 38: W is void, which only a union can hold"),
        ("type A enum { }", "line 1, column 15: a member expected, not '}'"),
        ("type A enum { X }", "line 1, column 17: '=' expected, not '}'"),
        ("type A enum { x = 0 }", "line 1, column 15: a member expected, not 'x'"),
        ("type A enum { X = 0 Y = 0 }", "line 1, column 21: Y = 0: the name or the tag is taken"),
        ("type A enum { X = 0 X = 1 }", "line 1, column 21: X = 1: the name or the tag is taken"),
        ("type A enum { X = 128 }", "line 1, column 19: tag 128 takes more than one byte"),
        ("type A union { B = 0 }", "line 1, column 16: B is no type defined above"),
        ("type V void type A union { V }", "line 1, column 30: '=' expected, not '}'"),
        ("type V void type W void type A union { V = 0 W = 1 }", "line 1, column 46: '|' expected, not 'W'"),
        ("type B uint type A union { B = 0 }", "line 1, column 28: B is neither a struct nor void"),
        ("type A uint;", "line 1, column 12: ';' has no meaning here"),
        ("type A uint\n\n  %", "line 3, column 3: '%' has no meaning here"),
    ],
)
def test_mistakes_are_placed(text: str, problem: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(text)
    assert str(caught.value) == problem
