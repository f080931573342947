"""Numbers that stand next to each other in a record are written, and read, in one go.

Nearly all of them are below 128, and then a uint takes one byte, as a bool does: a run of them has a fixed size, and
one call of `struct` moves all of it. No spelling of a run is shorter, so bytes that do not hold that much are
truncated. A larger number, or a flag that is neither 0 nor 1, sends the whole run the other way, one number after the
other.

Each function returns lines of Python for the generator.
"""

import struct
from collections.abc import Iterable, Sequence

from msgspec import Struct

from epoxy.codec.schema import Scalar

SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
CODES = {"uint": "B", "u8": "B", "u16": "H", "u32": "I", "u64": "Q"}


class Atom(Struct, frozen=True):
    """One number: its type, and the variable that holds it."""

    kind: Scalar
    local: str


Run = Sequence[Atom]


def indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def packers(kinds: Iterable[tuple[str, ...]]) -> list[str]:
    """The functions of `struct` that the runs of these types call."""
    lines: list[str] = []
    for names in kinds:
        written = "".join(CODES.get(name, "?") for name in names)
        read = written.replace("?", "B")  # A flag is looked at, not believed.
        lines += [f'pack_{"_".join(names)} = Struct("<{written}").pack']
        lines += [f'unpack_{"_".join(names)} = Struct("<{read}").unpack_from']
    return lines


def names_of(run: Run) -> tuple[str, ...]:
    return tuple(atom.kind.name for atom in run)


def locals_of(run: Run, kind: str) -> list[str]:
    return [atom.local for atom in run if atom.kind.name == kind]


def encode_run(run: Run) -> list[str]:
    if len(run) == 1:
        return encode_number(run[0])
    pack = f"out += pack_{'_'.join(names_of(run))}({', '.join(atom.local for atom in run)})"
    variable = locals_of(run, "uint")
    if not variable:
        return [pack]
    one_by_one = [line for atom in run for line in encode_number(atom, short=False)]
    return [f"if 0 <= {' | '.join(variable)} <= 0x7F:", f"    {pack}", "else:", *indented(one_by_one)]


def encode_number(atom: Atom, *, short: bool = True) -> list[str]:
    """`short`: with the short form of a uint inline."""
    name, local = atom.kind.name, atom.local
    match name:
        case "uint":
            call = f"encode_uint(out, {local})"
            inline = [f"if 0 <= {local} <= 0x7F:", f"    out.append({local})", "else:", f"    {call}"]
            return inline if short else [call]
        case "bool":
            return [f"out.append(1 if {local} else 0)"]
        case _:
            return [f"encode_unsigned(out, {local}, {SIZES[name]})"]


def decode_run(run: Run) -> list[str]:
    """A bool may be left as the number 0 or 1: whoever makes the record turns it into one."""
    if len(run) == 1:
        return decode_number(run[0])
    names = names_of(run)
    size = struct.calcsize("<" + "".join(CODES.get(name, "?") for name in names))
    read = f"{', '.join(atom.local for atom in run)} = unpack_{'_'.join(names)}(buffer, position)"
    variable = locals_of(run, "uint")
    conditions = [f"{' | '.join(variable)} <= 0x7F"] if variable else []
    conditions += [f"{flag} <= 1" for flag in locals_of(run, "bool")]
    if not conditions:
        return [read, f"position += {size}"]
    one_by_one = [line for atom in run for line in decode_number(atom, short=False)]
    return [read, f"if {' and '.join(conditions)}:", f"    position += {size}", "else:", *indented(one_by_one)]


def decode_number(atom: Atom, *, short: bool = True) -> list[str]:
    name, local = atom.kind.name, atom.local
    match name:
        case "uint":
            call = f"{local}, position = decode_uint(buffer, position)"
            inline = [f"{local} = buffer[position]", f"if {local} <= 0x7F:", "    position += 1", "else:"]
            return [*inline, f"    {call}"] if short else [call]
        case "bool":
            return [f"{local}, position = decode_flag(buffer, position)"]
        case _:
            return [f"{local}, position = decode_unsigned(buffer, position, {SIZES[name]})"]
