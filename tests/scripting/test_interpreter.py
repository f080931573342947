"""One interpreter: what its own Lua files may use, and what it holds."""

import struct
from collections.abc import Iterator

import pytest
from lupa import lua51

from epoxy.scripting import interpreter
from epoxy.scripting.budget import ScriptBudget
from epoxy.scripting.interpreter import Interpreter, ScriptError
from epoxy.scripting.limits import MIB, ScriptLimits

GET_GLOBAL, SET_GLOBAL = 5, 7
STRING, WIDTHS = 4, {1: 1, 3: 8}
"""Kinds of constants, and how many bytes booleans and numbers have."""
LIMITS = ScriptLimits()


def made() -> Interpreter:
    return Interpreter(LIMITS, ScriptBudget(LIMITS))


def test_it_holds_little_and_gives_back_what_a_script_took() -> None:
    lua = made()
    empty = lua.held_bytes
    assert empty < MIB / 4
    chunk = lua.compile(b"local t = {} for i = 1, 1e4 do t[i] = {} end")
    assert lua.run(chunk, (), (), lambda _: None, 7) is None
    assert lua.held_bytes > 2 * empty
    lua.collect()
    assert lua.held_bytes < empty + 20_000


def test_what_does_not_compile() -> None:
    assert made().compile(b"x") == ScriptError("user_script:1: '=' expected near '<eof>'")


class Dump:
    """Reads a function as Lua 5.1 dumps it, for the instructions of the functions in it."""

    def __init__(self, dumped: bytes) -> None:
        self.data = dumped
        self.at = 12

    def take(self, shape: str) -> int:
        value: int = struct.unpack_from(shape, self.data, self.at)[0]
        self.at += struct.calcsize(shape)
        return value

    def text(self) -> None:
        length = self.take("<Q")
        self.at += length

    def function(self, depth: int = 0) -> Iterator[tuple[int, int]]:
        """Depth and opcode of each instruction."""
        self.text()
        self.at += 12
        for _ in range(self.take("<i")):
            yield depth, self.take("<I") & 0x3F
        for _ in range(self.take("<i")):
            kind = self.take("<B")
            if kind == STRING:
                self.text()
            self.at += WIDTHS.get(kind, 0)
        for _ in range(self.take("<i")):
            yield from self.function(depth + 1)
        lines = self.take("<i")
        self.at += 4 * lines
        for _ in range(self.take("<i")):
            self.text()
            self.at += 8
        for _ in range(self.take("<i")):
            self.text()


@pytest.mark.parametrize("name", sorted(path.name for path in interpreter.HERE.glob("*.lua")))
def test_functions_of_the_sandbox_use_no_globals(name: str) -> None:
    """All globals are taken away after the files were loaded, so a name that is not local is missing in a script's
    run."""
    dump = lua51.LuaRuntime(encoding=None).eval(b"function(source) return string.dump(loadstring(source)) end")

    def global_uses(source: bytes) -> int:
        instructions = list(Dump(dump(source)).function())
        assert instructions
        return sum(depth > 0 and code in (GET_GLOBAL, SET_GLOBAL) for depth, code in instructions)

    assert global_uses(interpreter.HERE.joinpath(name).read_bytes()) == 0
    assert global_uses(b"local a = print return function() return print, 1.5, 'x', nil, true end") == 1
