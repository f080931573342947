"""Parses the BARE schema language into a tree.

The part of the language our schema needs, and three rules of our own that make its types safe to decode:
1. A type is used below its definition: no recursion, so no nesting without end.
2. Every data, str and list is a named type under a line `#! limit LOW..HIGH`: no length without a limit.
3. Tags of unions and enums are written out and below 128: they never move, and take one byte.
Other tools see rule 2's line as a comment, so the file stays plain BARE.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

MAX_TAG = 0x7F
SCALARS = ("uint", "u8", "u16", "u32", "u64", "bool")
"""Types whose size the reader knows before reading: usable anywhere, under no limit."""


class SchemaError(ValueError):
    """The schema is wrong; the message names the place."""


class Scalar(Struct, frozen=True):
    name: str


class Data(Struct, frozen=True):
    """`data` or `str`, which differ in their Python type alone."""

    name: str


class FixedData(Struct, frozen=True):
    size: int


class Void(Struct, frozen=True):
    pass


class Named(Struct, frozen=True):
    name: str


class Optional(Struct, frozen=True):
    element: "Inner"


class List(Struct, frozen=True):
    element: "Inner"


class Field(Struct, frozen=True):
    name: str
    type: "Inner"


class RecordType(Struct, frozen=True):
    """`struct`"""

    fields: tuple[Field, ...]


class UnionMember(Struct, frozen=True):
    name: str
    tag: int


class Union(Struct, frozen=True):
    members: tuple[UnionMember, ...]


class Enum(Struct, frozen=True):
    members: tuple[UnionMember, ...]


Inner = Scalar | FixedData | Named | Optional
"""Types allowed inside another type; the others need a name of their own."""

Outer = Inner | Data | List | Void | RecordType | Union | Enum


class Limit(Struct, frozen=True):
    low: int
    high: int


class Definition(Struct, frozen=True):
    name: str
    type: Outer
    limit: Limit | None = None


class Token(Struct, frozen=True):
    kind: str
    text: str
    line: int
    column: int

    def error(self, problem: str) -> SchemaError:
        return SchemaError(f"line {self.line}, column {self.column}: {problem}")


TOKENS = re.compile(
    r"(?P<limit>#! limit \d+\.\.\d+(?=\n))|(?P<order>#![^\n]*)|(?P<comment>#[^\n]*)|(?P<space>\s+)"
    r"|(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<number>\d+)|(?P<sign>[{}<>\[\]|=:])|(?P<stranger>.)"
)
TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
FIELD_NAME = re.compile(r"[a-z][A-Za-z0-9]*")
ENUM_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def parse(text: str) -> tuple[Definition, ...]:
    return tuple(Parser(text).definitions())


def tokens(text: str) -> Iterator[Token]:
    line, start = 1, 0
    for match in TOKENS.finditer(text):
        kind, found = match.lastgroup or "", match.group()
        token = Token(kind, found, line, match.start() - start + 1)
        if kind == "order":
            raise token.error(f"only `#! limit LOW..HIGH` is understood, not {found!r}")
        if kind == "stranger":
            raise token.error(f"{found!r} has no meaning here")
        if kind not in ("comment", "space"):
            yield token
        if newlines := found.count("\n"):
            line, start = line + newlines, match.start() + found.rindex("\n") + 1
    yield Token("end", "the end", line, len(text) - start + 1)


class Parser:
    """Recursive descent with one token of look-ahead. `known`: the types defined so far."""

    def __init__(self, text: str) -> None:
        self.tokens = tokens(text)
        self.token = next(self.tokens)
        self.known: dict[str, Outer] = {}

    def definitions(self) -> Iterator[Definition]:
        while self.token.kind != "end":
            yield self.definition()

    def definition(self) -> Definition:
        limit = self.limit() if self.token.kind == "limit" else None
        self.sign("type")
        name = self.name(TYPE_NAME, "a type name")
        if name.text in self.known:
            raise name.error(f"{name.text} is defined twice")
        outer = self.outer()
        if isinstance(outer, Data | List) and limit is None:
            raise name.error(f"{name.text} needs a line `#! limit LOW..HIGH` above it")
        if limit is not None and not isinstance(outer, Data | List):
            raise name.error(f"{name.text} has no length to limit")
        self.known[name.text] = outer
        return Definition(name.text, outer, limit)

    def limit(self) -> Limit:
        token = self.advance()
        low, high = (int(number) for number in re.findall(r"\d+", token.text))
        if low > high:
            raise token.error(f"a limit from {low} down to {high}")
        return Limit(low, high)

    def outer(self) -> Outer:
        token = self.advance()
        match token.text:
            case "str":
                return Data("str")
            case "data":
                return self.data()
            case "list":
                return List(self.bracketed())
            case "optional":
                return Optional(self.certain(token))
            case "void":
                return Void()
            case "struct":
                return RecordType(self.fields())
            case "union":
                return Union(self.members(TYPE_NAME, "|"))
            case "enum":
                return Enum(self.members(ENUM_NAME, ""))
            case _:
                return Scalar(token.text) if token.text in SCALARS else self.reference(token)

    def inner(self) -> Inner:
        token = self.token
        found = self.outer()
        if not isinstance(found, Inner):
            raise token.error(f"{token.text} needs a name of its own here")
        if isinstance(self.resolve(found), Void):
            raise token.error(f"{token.text} is void, which only a union can hold")
        return found

    def reference(self, token: Token) -> Named:
        if token.text not in self.known:
            raise token.error(f"{token.text} is no type defined above")
        return Named(token.text)

    def resolve(self, kind: Outer) -> Outer:
        while isinstance(kind, Named):
            kind = self.known[kind.name]
        return kind

    def certain(self, token: Token) -> Inner:
        """What an optional may hold: anything but another one, because Python has only one None."""
        element = self.bracketed()
        if isinstance(self.resolve(element), Optional):
            raise token.error("an optional inside an optional")
        return element

    def data(self) -> Data | FixedData:
        if self.token.text != "[":
            return Data("data")
        self.advance()
        token, size = self.token, self.number()
        if not size:
            raise token.error("data of no bytes")
        self.sign("]")
        return FixedData(size)

    def bracketed(self) -> Inner:
        self.sign("<")
        element = self.inner()
        self.sign(">")
        return element

    def fields(self) -> tuple[Field, ...]:
        self.sign("{")
        found: dict[str, Field] = {}
        while not found or self.token.text != "}":
            name = self.name(FIELD_NAME, "a field")
            if name.text in found:
                raise name.error(f"field {name.text} twice")
            self.sign(":")
            found[name.text] = Field(name.text, self.inner())
        self.sign("}")
        return tuple(found.values())

    def members(self, pattern: re.Pattern[str], separator: str) -> tuple[UnionMember, ...]:
        self.sign("{")
        found = [self.member(pattern, ())]
        while self.token.text != "}":
            if separator:
                self.sign(separator)
            found.append(self.member(pattern, found))
        self.sign("}")
        return tuple(found)

    def member(self, pattern: re.Pattern[str], others: Sequence[UnionMember]) -> UnionMember:
        name = self.name(pattern, "a member")
        self.sign("=")
        tag_token = self.token
        member = UnionMember(name.text, self.number())
        if pattern is TYPE_NAME and not isinstance(self.known[self.reference(name).name], RecordType | Void):
            raise name.error(f"{name.text} is neither a struct nor void")
        if any(member.name == other.name or member.tag == other.tag for other in others):
            raise name.error(f"{name.text} = {member.tag}: the name or the tag is taken")
        if member.tag > MAX_TAG:
            raise tag_token.error(f"tag {member.tag} takes more than one byte")
        return member

    def name(self, pattern: re.Pattern[str], what: str) -> Token:
        token = self.advance()
        if token.kind != "name" or not pattern.fullmatch(token.text):
            raise token.error(f"{what} expected, not {token.text!r}")
        return token

    def number(self) -> int:
        token = self.advance()
        if token.kind != "number":
            raise token.error(f"a number expected, not {token.text!r}")
        return int(token.text)

    def sign(self, text: str) -> None:
        token = self.advance()
        if token.text != text:
            raise token.error(f"{text!r} expected, not {token.text!r}")

    def advance(self) -> Token:
        token = self.token
        self.token = next(self.tokens, token)
        return token
