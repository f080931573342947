"""Turns the schema into straight-line Python: `python -m epoxy.codec.generate` rewrites `epoxy_v4.py`.

One pair of functions for each named type, with statements for each field in turn: no table is consulted and no type is
inspected while encoding or decoding. Calls are slow in Python, so the short forms of numbers and lengths are inline, a
record of numbers alone is inline in the record that holds it, and so is an empty list. An encoder appends pieces to a
list, which is the cheapest way, compiled or not; `wire` joins them. The result is committed, so that it is read,
type-checked and compared like other code.

The generator also compares the schema with the model: same fields in the same order, same members.
"""

import enum
import re
from pathlib import Path
from types import ModuleType
from typing import assert_never, get_args

from epoxy.codec import bare
from epoxy.codec.refusals import REFUSALS, Refusals
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
    RecordType,
    Scalar,
    SchemaError,
    Union,
    Void,
    parse,
)
from epoxy.model import ballot, cluster, frames, messages, quorum, records, transactions
from epoxy.model import instances as ordered
from epoxy.model import members as membership

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = ROOT / "schema" / "epoxy-v4.bare"
TARGET = Path(__file__).with_name("epoxy_v4.py")

MODELS = (ballot, quorum, cluster, records, transactions, ordered, messages, frames, membership)
"""Low to high, as they import each other."""

ALONE = frozenset(("Ballot",))
"""Records of numbers alone that are stored by themselves. The others are inline in what holds them."""

HEADER = '''"""Made by `python -m epoxy.codec.generate` from schema/{schema}: change that, not this."""

# ruff: noqa: A001, C901, PERF401 (fields keep their names; a union of thirteen members is one flat match)

'''

PREFIXES = ("encode_", "decode_", "unknown_", "wrong_", "length_", "uint", "BYTES")
PRIMITIVES = [name for name in vars(bare) if name.startswith(PREFIXES)]
LINE = 120

TAKEN = frozenset(("out", "record", "buffer", "position", "length", "flag"))
"""Variables of the generated functions. A field of such a name gets a variable with another."""

SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


def generate(text: str, name: str, models: tuple[ModuleType, ...] = MODELS, refusals: Refusals = REFUSALS) -> str:
    """The source of the codec for the schema `text`, whose values are the classes of `models`."""
    generator = Generator(parse(text), models, refusals)
    body = "\n".join(generator.body())
    above = generator.constants(body)
    head = [*generator.imports("\n".join((*above, body))), *(["", *above] if above else [])]
    return HEADER.format(schema=name) + "\n".join(head) + "\n" + body + "\n"


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def local(name: str) -> str:
    """The variable for a field."""
    return f"{snake(name)}_" if snake(name) in TAKEN else snake(name)


def constant(name: str) -> str:
    """The name of the only value of a type without fields."""
    return snake(name).upper()


def enclosed(head: str, items: list[str]) -> list[str]:
    """`head(items)` on one line if it fits, otherwise the items on a line, or each on its own, as ruff formats it."""
    line, inside = f"{head}({', '.join(items)})", ", ".join(items)
    if len(line) + 4 <= LINE:
        return [line]
    return [f"{head}(", *indented([inside] if len(inside) + 8 <= LINE else [f"{item}," for item in items]), ")"]


def returned(name: str, items: list[str]) -> list[str]:
    """The record that was decoded, and where the next one begins."""
    line = f"return {name}({', '.join(items)}), position"
    return [line] if len(line) + 4 <= LINE else [*enclosed(f"record = {name}", items), "return record, position"]


def imported(module: str, names: list[str]) -> list[str]:
    ordered = sorted(names, key=lambda name: (not name.isupper(), name.lower()))
    line = f"from {module} import {', '.join(ordered)}"
    return (
        [line] if len(line) <= LINE else [f"from {module} import (", *indented([f"{name}," for name in ordered]), ")"]
    )


class Generator:
    """Knows every definition; each method returns lines of Python."""

    def __init__(self, schema: tuple[Definition, ...], models: tuple[ModuleType, ...], refusals: Refusals) -> None:
        self.schema = schema
        self.known = {definition.name: definition for definition in schema}
        self.models = models
        self.refusals = refusals

    # ---- the module

    def body(self) -> list[str]:
        """Of all definitions, without functions of records that are inline everywhere."""
        parts = {definition.name: self.functions(definition) for definition in self.schema}
        called = set(
            re.findall(r"(?:=|return) decode_(\w+)", "\n".join(line for lines in parts.values() for line in lines))
        )
        inline = {name for name in parts if snake(name) not in called and self.is_flat(Named(name))} - ALONE
        return [line for name, lines in parts.items() if name not in inline for line in lines]

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

    def constants(self, body: str) -> list[str]:
        used = set(re.findall(r"\w+", body))
        voids = [name for name, definition in self.known.items() if isinstance(definition.type, Void)]
        return [f"{constant(name)} = {name}()" for name in voids if constant(name) in used]

    def names_of(self, module: ModuleType, used: set[str]) -> list[str]:
        return [name for name in self.known if name in used and self.module_of(name) is module]

    def module_of(self, name: str) -> ModuleType | None:
        """Where a name is defined: the lowest module that has it, since the others import it from there."""
        return next((module for module in self.models if name in vars(module)), None)

    def model(self, name: str) -> object:
        module = self.module_of(name)
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
            case RecordType() | Union() | Enum() | Void():
                return name
            case _:
                assert_never(kind)

    def functions(self, definition: Definition) -> list[str]:
        """The pair for one named type. Named scalars and byte strings are inline, and have none."""
        name, kind = definition.name, definition.type
        match kind:
            case RecordType(fields):
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
                encode = self.encode_list(element, definition.limit)
                decode = self.decode_list(element, definition.limit)
            case Void():
                self.compare(name, [], self.model(name))
                return []
            case _:
                return []
        hint, suffix, given = self.hint(kind, name), snake(name), "record" if isinstance(kind, RecordType) else "value"
        if {f"encode_{suffix}", f"decode_{suffix}"} & set(PRIMITIVES):
            raise SchemaError(f"{name} would hide a primitive of the same name")
        return [
            *["", "", f"def encode_{suffix}(out: list[bytes], {given}: {hint}) -> None:", *indented(encode)],
            *["", "", f"def decode_{suffix}(buffer: bytes, position: int) -> tuple[{hint}, int]:", *indented(decode)],
        ]

    def compare(self, name: str, fields: list[str], model: object) -> None:
        """A field missing in the schema would be lost on the way to a disk."""
        if isinstance(model, type) and issubclass(model, enum.Enum):
            modelled = [member.name for member in model]
        elif isinstance(model, type):
            modelled = list(getattr(model, "__struct_fields__", ()))
        else:
            modelled = [member.__name__ for member in get_args(model)]
        if fields != modelled:
            raise SchemaError(f"{name} is {fields} in the schema, but {modelled} in the model")

    # ---- records

    def is_flat(self, kind: Outer) -> bool:
        """A record of numbers alone, which is written inline."""
        kind = self.resolved(kind)
        return isinstance(kind, RecordType) and all(
            isinstance(self.resolved(field.type), Scalar) or self.is_flat(field.type) for field in kind.fields
        )

    def resolved(self, kind: Outer) -> Outer:
        return self.resolved(self.known[kind.name].type) if isinstance(kind, Named) else kind

    def encode_record(self, name: str, fields: tuple[Field, ...]) -> list[str]:
        lines = self.refuse(name, {snake(field.name): local(field.name) for field in fields})
        for field in fields:
            lines += self.refuse_inside(field)
        for field in fields:
            lines += self.encode_field(field)
        return self.unfold("record", fields, lines)

    def encode_field(self, field: Field, prefix: str = "") -> list[str]:
        kind, name = self.resolved(field.type), f"{prefix}{snake(field.name)}"
        if isinstance(kind, RecordType) and self.is_flat(kind):
            return [line for inner in kind.fields for line in self.encode_field(inner, f"{name}_")]
        return self.encode(field.type, local(name))

    def unfold(self, source: str, fields: tuple[Field, ...], body: list[str], prefix: str = "") -> list[str]:
        """A variable for each field, and for each number of a flat record among them, if `body` needs it twice."""
        head: list[str] = []
        for field in fields:
            name, kind = f"{prefix}{snake(field.name)}", self.resolved(field.type)
            if isinstance(kind, RecordType) and self.is_flat(kind):
                body = self.unfold(local(name), kind.fields, body, f"{name}_")
            uses = re.compile(rf"(?<![\w.]){local(name)}(?!\w)")
            if sum(len(uses.findall(line)) for line in body) > 1:
                head += [f"{local(name)} = {source}.{snake(field.name)}"]
            else:
                body = [uses.sub(f"{source}.{snake(field.name)}", line) for line in body]
        return head + body

    def refuse_inside(self, field: Field, prefix: str = "") -> list[str]:
        """The rules of the flat records within a field."""
        kind, name = self.resolved(field.type), f"{prefix}{snake(field.name)}"
        if not isinstance(kind, RecordType) or not self.is_flat(kind):
            return []
        lines = [line for inner in kind.fields for line in self.refuse_inside(inner, f"{name}_")]
        return lines + self.refuse(
            self.type_name(field.type),
            {snake(inner.name): local(f"{name}_{snake(inner.name)}") for inner in kind.fields},
        )

    def type_name(self, kind: Inner) -> str:
        """Of the record behind a name, perhaps through other names for it."""
        assert isinstance(kind, Named), "a record has a name"
        target = self.known[kind.name].type
        return self.type_name(target) if isinstance(target, Named) else kind.name

    def decode_record(self, name: str, fields: tuple[Field, ...]) -> list[str]:
        """Rules are for whole records: data at the end may be cut short."""
        lines: list[str] = []
        for field in fields:
            lines += self.decode_field(field)
        rules = self.refuse(name, {snake(field.name): local(field.name) for field in fields})
        if rules and isinstance(self.resolved(fields[-1].type), Data):
            lines += ["if position > len(buffer):", '    raise IndexError("cut short")']
        lines += rules
        return lines + returned(name, self.items(fields))

    def decode_field(self, field: Field, prefix: str = "") -> list[str]:
        kind, name = self.resolved(field.type), f"{prefix}{snake(field.name)}"
        if not isinstance(kind, RecordType) or not self.is_flat(kind):
            return self.decode(field.type, local(name))
        lines = [line for inner in kind.fields for line in self.decode_field(inner, f"{name}_")]
        values = {snake(inner.name): local(f"{name}_{snake(inner.name)}") for inner in kind.fields}
        lines += self.refuse(self.type_name(field.type), values)
        return lines + enclosed(f"{local(name)} = {self.type_name(field.type)}", self.items(kind.fields, f"{name}_"))

    def items(self, fields: tuple[Field, ...], prefix: str = "") -> list[str]:
        return [f"{snake(field.name)}={local(f'{prefix}{snake(field.name)}')}" for field in fields]

    def refuse(self, name: str, values: dict[str, str]) -> list[str]:
        lines: list[str] = []
        for condition, reason in self.refusals.get(name, ()):
            lines += [f"if {condition.format_map(values)}:", f'    raise InvalidValue("{reason}")']
        return lines

    # ---- encoding: lines that append `value` to `out`

    def encode(self, kind: Outer, value: str, limit: Limit | None = None, name: str = "") -> list[str]:
        match kind:
            case Scalar("uint"):
                return [f"out.append(BYTES[{value}] if 0 <= {value} <= 0x7F else uint({value}))"]
            case Scalar("bool"):
                return [f"out.append(BYTES[1] if {value} else BYTES[0])"]
            case Scalar(width):
                return [f"encode_unsigned(out, {value}, {SIZES[width]})"]
            case Data("str"):
                assert limit is not None
                return [f"encode_str(out, {value}, {limit.low}, {limit.high})"]
            case Data():
                assert limit is not None
                return self.encode_data(value, limit)
            case FixedData(size):
                return [f"encode_fixed(out, {value}, {size})"]
            case Optional(element):
                present = indented(["out.append(BYTES[1])", *self.encode(element, value)])
                return [f"if {value} is None:", "    out.append(BYTES[0])", "else:", *present]
            case Named(reference):
                definition = self.known[reference]
                return self.encode(definition.type, value, definition.limit, reference)
            case List() if limit is not None and not limit.low:
                full = indented([f"encode_{snake(name)}(out, {value})"])
                return [f"if {value}:", *full, "else:", "    out.append(BYTES[0])"]
            case _:
                return [f"encode_{snake(name)}(out, {value})"]

    def encode_data(self, value: str, limit: Limit) -> list[str]:
        long = f"length_bytes(length, {limit.low}, {limit.high})"
        size = f"out.append(BYTES[length] if {self.short('length', limit)} else {long})"
        return [f"length = len({value})", size, f"out.append({value})"]

    def short(self, length: str, limit: Limit) -> str:
        """Whether a length is allowed and takes one byte."""
        above = f"{limit.low} <= " if limit.low else ""
        return f"{above}{length} <= 0x{min(limit.high, 0x7F):02X}"

    def encode_list(self, element: Inner, limit: Limit) -> list[str]:
        return [
            f"out.append(length_bytes(len(value), {limit.low}, {limit.high}))",
            "for item in value:",
            *indented(self.encode(element, "item")),
        ]

    def encode_union(self, union: Union) -> list[str]:
        lines = ["match value:"]
        for member in union.members:
            lines += [f"    case {member.name}():", f"        out.append(BYTES[{member.tag}])"]
            if isinstance(self.known[member.name].type, RecordType):
                lines += [f"        encode_{snake(member.name)}(out, value)"]
        return [*lines, "    case _:", "        assert_never(value)"]

    def encode_enum(self, name: str, kind: Enum) -> list[str]:
        lines = ["match value:"]
        for member in kind.members:
            lines += [f"    case {name}.{member.name}:", f"        out.append(BYTES[{member.tag}])"]
        return [*lines, "    case _:", "        assert_never(value)"]

    # ---- decoding: lines that bind `target` and move `position`

    def decode(self, kind: Outer, target: str, limit: Limit | None = None, name: str = "") -> list[str]:
        match kind:
            case Scalar("uint"):
                short = [f"{target} = buffer[position]", "position += 1"]
                return [*short, f"if {target} > 0x7F:", f"    {target}, position = decode_uint(buffer, position - 1)"]
            case Scalar("bool"):
                strict = ["flag = buffer[position]", "if flag > 1:", "    raise wrong_flag(buffer, position)"]
                return [*strict, f"{target} = flag == 1", "position += 1"]
            case Scalar(width):
                cut = f"buffer[position : position + {SIZES[width]}]"
                return [f'{target} = int.from_bytes({cut}, "little")', f"position += {SIZES[width]}"]
            case Data("str"):
                assert limit is not None
                return [f"{target}, position = decode_str(buffer, position, {limit.low}, {limit.high})"]
            case Data():
                assert limit is not None
                return self.decode_data(target, limit)
            case FixedData(size):
                return [f"{target}, position = decode_fixed(buffer, position, {size})"]
            case Optional(element):
                present = indented(self.decode(element, target))
                wrong = ["elif flag:", "    raise wrong_flag(buffer, position - 1)"]
                flag = ["flag = buffer[position]", "position += 1"]
                return [f"{target}: {self.hint(kind)} = None", *flag, "if flag == 1:", *present, *wrong]
            case Named(reference):
                definition = self.known[reference]
                return self.decode(definition.type, target, definition.limit, reference)
            case List() if limit is not None and not limit.low:
                full = indented([f"{target}, position = decode_{snake(name)}(buffer, position)"])
                empty = indented([f"{target} = ()", "position += 1"])
                return ["if buffer[position]:", *full, "else:", *empty]
            case _:
                return [f"{target}, position = decode_{snake(name)}(buffer, position)"]

    def decode_data(self, target: str, limit: Limit) -> list[str]:
        """A slice that is cut short leaves a position beyond the buffer, which the next read or `wire` notices."""
        short = ["length = buffer[position]", "position += 1"]
        is_long = f"not {self.short('length', limit)}" if limit.low else f"length > 0x{min(limit.high, 0x7F):02X}"
        long = f"    length, position = decode_length(buffer, position - 1, {limit.low}, {limit.high})"
        cut = [f"{target} = buffer[position : position + length]", "position += length"]
        return [*short, f"if {is_long}:", long, *cut]

    def decode_list(self, element: Inner, limit: Limit) -> list[str]:
        """The bound of the loop has a variable of its own: compiled code reads it again in every turn, and an element
        may use `length`."""
        return [
            f"count, position = decode_length(buffer, position, {limit.low}, {limit.high})",
            f"items: list[{self.hint(element)}] = []",
            "for _ in range(count):",
            *indented(self.decode(element, "item")),
            "    items.append(item)",
            "return tuple(items), position",
        ]

    def decode_union(self, name: str, union: Union) -> list[str]:
        lines = ["match buffer[position]:"]
        for member in union.members:
            lines += [f"    case {member.tag}:"]
            if isinstance(self.known[member.name].type, RecordType):
                lines += [f"        return decode_{snake(member.name)}(buffer, position + 1)"]
            else:
                lines += [f"        return {constant(member.name)}, position + 1"]
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
