"""Turns the schema into straight-line Python: `python -m epoxy.codec.generate` rewrites `epoxy_v2.py`.

One pair of functions for each named type, one statement after the other for each field: no table is consulted and no
type is inspected while encoding or decoding. Numbers take most of the fields and are nearly always below 128, so their
one-byte form stands inline. The result is committed, so that it is read, type-checked and compared like other code.

The generator also compares the schema with the model: same fields in the same order, same members.
"""

import enum
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import assert_never, get_args

from epoxy.codec import bare
from epoxy.codec.schema import (
    Data,
    Definition,
    Enum,
    Field,
    FixedData,
    Inner,
    Limit,
    List,
    Named,
    Optional,
    Outer,
    Record,
    Scalar,
    SchemaError,
    Union,
    Void,
    parse,
)
from epoxy.model import ballot, cluster, frames, messages, quorum, records

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = ROOT / "schema" / "epoxy-v2.bare"
TARGET = Path(__file__).with_name("epoxy_v2.py")

MODELS = (ballot, quorum, cluster, records, messages, frames)
"""Low to high, as they import each other."""

Refusals = Mapping[str, tuple[tuple[str, str], ...]]

REFUSALS: Refusals = {
    "Ballot": (("{counter} == 0 and {replica_id} != 0", "counter 0 belongs to the ballot (0,0) alone"),),
    "Proposal": (("{value} is None and not {mutable}", "an immutable key holds no tombstone"),),
    "Prepare": (
        ("not {ballot}.is_classic", "the fast round has no phase 1"),
        ("{version} < 1", "version 0 is never voted on"),
    ),
    "Accept": (
        ("{ballot}.counter < 1", "a vote needs a ballot"),
        ("{proposal}.version < 1", "version 0 is never voted on"),
    ),
    "ClusterConfig": (
        ("{epoch} < 1", "epochs begin at 1"),
        ("{replicas}[0].id < 1", "replica id 0 belongs to legacy values"),
        ("any(a.id >= b.id for a, b in pairwise({replicas}))", "replica ids rise"),
        ("all(replica.status is not ReplicaStatus.ACTIVE for replica in {replicas})", "no replica is active"),
    ),
}
"""What the types of the model assert, said again as errors. Bytes are the world's doing, not a bug of ours, and asserts
vanish under `python -O`. Checked before encoding too: what nobody could read must not be written."""

HEADER = '''"""Made by `python -m epoxy.codec.generate` from schema/{schema}: change that, not this."""

# ruff: noqa: A001, C901 (fields keep their names; a union of thirteen members is one flat match)

'''

PRIMITIVES = [name for name in vars(bare) if name.startswith(("encode_", "decode_", "unknown_"))]
LINE = 120
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


def generate(text: str, name: str, models: tuple[ModuleType, ...] = MODELS, refusals: Refusals = REFUSALS) -> str:
    """The source of the codec for the schema `text`, whose values are the classes of `models`."""
    generator = Generator(parse(text), models, refusals)
    body = "\n".join(line for definition in generator.schema for line in generator.functions(definition))
    return HEADER.format(schema=name) + "\n".join(generator.imports(body)) + "\n" + body + "\n"


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def enclosed(head: str, items: list[str]) -> list[str]:
    """`head(items)` on one line if it fits with its indentation, otherwise one item on each, as ruff formats it."""
    line = f"{head}({', '.join(items)})"
    return [line] if len(line) + 4 <= LINE else [f"{head}(", *indented([f"{item}," for item in items]), ")"]


def imported(module: str, names: list[str]) -> list[str]:
    line = f"from {module} import {', '.join(sorted(names))}"
    return [line] if len(line) <= LINE else enclosed(f"from {module} import ", sorted(names))


class Generator:
    """Knows every definition; each method returns lines of Python."""

    def __init__(self, schema: tuple[Definition, ...], models: tuple[ModuleType, ...], refusals: Refusals) -> None:
        self.schema = schema
        self.known = {definition.name: definition for definition in schema}
        self.models = models
        self.refusals = refusals

    # ---- the module

    def imports(self, body: str) -> list[str]:
        used = set(re.findall(r"\w+", body))
        lines = ["from itertools import pairwise"] if "pairwise" in used else []
        lines += ["from typing import assert_never"] if "assert_never" in used else []
        lines += [""] if lines else []
        lines += imported("epoxy.codec.bare", [name for name in PRIMITIVES if name in used])
        errors = [name for name in ("InvalidValue",) if name in used]
        modules = {module.__name__: self.names_of(module, used) for module in self.models}
        for module, names in sorted([*modules.items(), ("epoxy.model.errors", errors)]):
            lines += imported(module, names) if names else []
        return lines

    def names_of(self, module: ModuleType, used: set[str]) -> list[str]:
        return [name for name in self.known if name in used and self.home(name) is module]

    def home(self, name: str) -> ModuleType | None:
        """Where a name is defined: the lowest module that has it, for the others import it from there."""
        return next((module for module in self.models if name in vars(module)), None)

    def model(self, name: str) -> object:
        module = self.home(name)
        if module is None:
            raise SchemaError(f"{name} is in the schema, but not in the model")
        return getattr(module, name)

    # ---- types

    def hint(self, kind: Outer, name: str = "") -> str:
        """The Python type of a schema type."""
        match kind:
            case Scalar("bool"):
                return "bool"
            case Scalar():
                return "int"
            case Data("str"):
                return "str"
            case Data() | FixedData():
                return "bytes"
            case Optional(element):
                return f"{self.hint(element)} | None"
            case List(element):
                return f"tuple[{self.hint(element)}, ...]"
            case Named(reference):
                return self.hint(self.known[reference].type, reference)
            case Record() | Union() | Enum() | Void():
                return name
            case _:
                assert_never(kind)

    def functions(self, definition: Definition) -> list[str]:
        """The pair for one named type; names for scalars and byte strings are only words, written inline."""
        name, kind = definition.name, definition.type
        match kind:
            case Record(fields):
                self.compare(name, [snake(field.name) for field in fields], self.model(name))
                encode, decode = self.encode_record(name, fields), self.decode_record(name, fields)
            case Union(members):
                self.compare(name, [member.name for member in members], self.model(name))
                encode, decode = self.encode_union(kind), self.decode_union(name, kind)
            case Enum(members):
                self.compare(name, [member.name for member in members], self.model(name))
                encode, decode = self.encode_enum(name, kind), self.decode_enum(name, kind)
            case List(element):
                assert definition.limit is not None
                encode, decode = (
                    self.encode_list(element, definition.limit),
                    self.decode_list(element, definition.limit),
                )
            case Void():
                self.compare(name, [], self.model(name))
                return []
            case _:
                return []
        hint, suffix = self.hint(kind, name), snake(name)
        if {f"encode_{suffix}", f"decode_{suffix}"} & set(PRIMITIVES):
            raise SchemaError(f"{name} would hide a primitive of the same name")
        return [
            *["", "", f"def encode_{suffix}(out: bytearray, value: {hint}) -> None:", *indented(encode)],
            *["", "", f"def decode_{suffix}(buffer: bytes, position: int) -> tuple[{hint}, int]:", *indented(decode)],
        ]

    def compare(self, name: str, ours: list[str], model: object) -> None:
        """A field the schema forgets would be lost on the way to a disk."""
        if isinstance(model, type) and issubclass(model, enum.Enum):
            theirs = [member.name for member in model]
        elif isinstance(model, type):
            theirs = list(getattr(model, "__struct_fields__", ()))
        else:
            theirs = [member.__name__ for member in get_args(model)]
        if ours != theirs:
            raise SchemaError(f"{name} is {ours} in the schema, but {theirs} in the model")

    # ---- encoding: lines that append `value` to `out`

    def encode(self, kind: Outer, value: str, limit: Limit | None = None, name: str = "") -> list[str]:
        match kind:
            case Scalar("uint"):
                return self.encode_small(value)
            case Scalar("bool"):
                return [f"out.append(1 if {value} else 0)"]
            case Scalar(width):
                return [f"encode_unsigned(out, {value}, {SIZES[width]})"]
            case Data(data):
                assert limit is not None
                return [f"encode_{data}(out, {value}, {limit.low}, {limit.high})"]
            case FixedData(size):
                return [f"encode_fixed(out, {value}, {size})"]
            case Optional(element):
                present = indented(["out.append(1)", *self.encode(element, value)])
                return [f"if {value} is None:", "    out.append(0)", "else:", *present]
            case Named(reference):
                definition = self.known[reference]
                return self.encode(definition.type, value, definition.limit, reference)
            case _:
                return [f"encode_{snake(name)}(out, {value})"]

    def encode_small(self, value: str) -> list[str]:
        return [f"if 0 <= {value} <= 0x7F:", f"    out.append({value})", "else:", f"    encode_uint(out, {value})"]

    def encode_record(self, name: str, fields: tuple[Field, ...]) -> list[str]:
        locals_ = {snake(field.name): f"value.{snake(field.name)}" for field in fields}
        lines = self.refuse(name, locals_)
        for field in fields:
            lines += self.encode(field.type, f"value.{snake(field.name)}")
        return lines

    def encode_list(self, element: Inner, limit: Limit) -> list[str]:
        return [
            f"encode_length(out, len(value), {limit.low}, {limit.high})",
            "for item in value:",
            *indented(self.encode(element, "item")),
        ]

    def encode_union(self, union: Union) -> list[str]:
        lines = ["match value:"]
        for member in union.members:
            lines += [f"    case {member.name}():", f"        out.append({member.tag})"]
            if isinstance(self.known[member.name].type, Record):
                lines += [f"        encode_{snake(member.name)}(out, value)"]
        return [*lines, "    case _:", "        assert_never(value)"]

    def encode_enum(self, name: str, kind: Enum) -> list[str]:
        lines = ["match value:"]
        for member in kind.members:
            lines += [f"    case {name}.{member.name}:", f"        out.append({member.tag})"]
        return [*lines, "    case _:", "        assert_never(value)"]

    # ---- decoding: lines that bind `target` and move `position`

    def decode(self, kind: Outer, target: str, limit: Limit | None = None, name: str = "") -> list[str]:
        match kind:
            case Scalar("uint"):
                return self.decode_small(target)
            case Scalar("bool"):
                return [f"{target}, position = decode_flag(buffer, position)"]
            case Scalar(width):
                return [f"{target}, position = decode_unsigned(buffer, position, {SIZES[width]})"]
            case Data(data):
                assert limit is not None
                return [f"{target}, position = decode_{data}(buffer, position, {limit.low}, {limit.high})"]
            case FixedData(size):
                return [f"{target}, position = decode_fixed(buffer, position, {size})"]
            case Optional(element):
                return [
                    f"{target}: {self.hint(kind)} = None",
                    "present, position = decode_flag(buffer, position)",
                    "if present:",
                    *indented(self.decode(element, target)),
                ]
            case Named(reference):
                definition = self.known[reference]
                return self.decode(definition.type, target, definition.limit, reference)
            case _:
                return [f"{target}, position = decode_{snake(name)}(buffer, position)"]

    def decode_small(self, target: str) -> list[str]:
        return [
            f"{target} = buffer[position]",
            f"if {target} <= 0x7F:",
            "    position += 1",
            "else:",
            f"    {target}, position = decode_uint(buffer, position)",
        ]

    def decode_record(self, name: str, fields: tuple[Field, ...]) -> list[str]:
        names = [snake(field.name) for field in fields]
        lines: list[str] = []
        for field in fields:
            lines += self.decode(field.type, snake(field.name))
        lines += self.refuse(name, {field: field for field in names})
        lines += enclosed(f"record = {name}", [f"{field}={field}" for field in names])
        return [*lines, "return record, position"]

    def refuse(self, name: str, values: dict[str, str]) -> list[str]:
        lines: list[str] = []
        for condition, reason in self.refusals.get(name, ()):
            lines += [f"if {condition.format_map(values)}:", f'    raise InvalidValue("{reason}")']
        return lines

    def decode_list(self, element: Inner, limit: Limit) -> list[str]:
        return [
            f"length, position = decode_length(buffer, position, {limit.low}, {limit.high})",
            f"items: list[{self.hint(element)}] = []",
            "for _ in range(length):",
            *indented(self.decode(element, "item")),
            "    items.append(item)",
            "return tuple(items), position",
        ]

    def decode_union(self, name: str, union: Union) -> list[str]:
        lines = ["match buffer[position]:"]
        for member in union.members:
            lines += [f"    case {member.tag}:"]
            if isinstance(self.known[member.name].type, Record):
                lines += [f"        return decode_{snake(member.name)}(buffer, position + 1)"]
            else:
                lines += [f"        return {member.name}(), position + 1"]
        return [*lines, "    case _:", f'        raise unknown_tag("{name}", buffer, position)']

    def decode_enum(self, name: str, kind: Enum) -> list[str]:
        lines = ["match buffer[position]:"]
        for member in kind.members:
            lines += [f"    case {member.tag}:", f"        return {name}.{member.name}, position + 1"]
        return [*lines, "    case _:", f'        raise unknown_tag("{name}", buffer, position)']


def main() -> None:
    TARGET.write_text(generate(SCHEMA.read_text("utf-8"), SCHEMA.name), "utf-8")


if __name__ == "__main__":
    main()
