"""The rules of the sandbox, taken away one by one: an attempt that each of them ends then succeeds."""

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from lupa import lua51

from epoxy.model.strings import Command, Fault, Reply, ScriptEnded
from epoxy.scripting import interpreter, scripts
from epoxy.scripting.limits import MIB, ScriptLimits
from epoxy.scripting.scripts import LuaScripts
from tests.scripting.test_sandbox import KEYS, tried

Edit = Callable[[str, str, str], None]


def ticking() -> Callable[[], float]:
    """A clock that goes on by a hundredth of a script's time when it is looked at."""
    looks = count()
    return lambda: next(looks) * 0.00005


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edit:
    """Lua files of ours with a rule replaced."""
    here = tmp_path / "lua"
    here.mkdir()
    for path in interpreter.HERE.glob("*.lua"):
        shutil.copy(path, here)
    monkeypatch.setattr(interpreter, "HERE", here)

    def edit(name: str, rule: str, instead: str) -> None:
        text = (here / name).read_text("utf-8")
        assert rule in text
        (here / name).write_text(text.replace(rule, instead), "utf-8")

    return edit


@pytest.mark.parametrize(
    ("name", "rule", "instead", "attempt"),
    [
        (
            "api.lua",
            "of_strings.__index, of_strings.__metatable = libraries.string, false",
            "of_strings.__index = libraries.string",
            "getmetatable('').__index = function() return 'ESCAPED' end return ('x').y",
        ),
        (
            "api.lua",
            "__newindex = readonly, __metatable = false",
            "__metatable = false",
            "found = 1 return 'ESCAPED'",
        ),
        (
            "api.lua",
            "__newindex = readonly, __metatable = false",
            "__newindex = readonly",
            "getmetatable(string).__index.rep = nil return string.rep or 'ESCAPED'",
        ),
        (
            "bounds.lua",
            "finish(MEMORY)",
            "",
            "for i = 1, 9 do pcall(error, 'not enough memory', 0) end return 'ESCAPED'",
        ),
        (
            "bounds.lua",
            "        check()\n    end\n    return ok, ...",
            "    end\n    return ok, ...",
            # Where the stack is full the hook itself fails, and is caught.
            """
            local n = 0
            local function f()
                n = n + 1
                if n > 9999 then return 'ESCAPED' end
                pcall(f)
                return f()
            end
            return f()
            """,
        ),
        (
            "patterns.lua",
            "if cost > MOST_STEPS then",
            "if false then",
            "return string.find(string.rep('a', 25), string.rep('a*', 5) .. 'b') or 'ESCAPED'",
        ),
        (
            "libraries.lua",
            "if size > MOST_BYTES then",
            "if false then",
            "return string.rep('x', 2^21 + 1) and 'ESCAPED'",
        ),
        (
            "libraries.lua",
            "> MOST_SORTED then",
            "< 0 then",
            "local t = {} for i = 1, 600 do t[i] = i end table.sort(t) return 'ESCAPED'",
        ),
        (
            "libraries.lua",
            "if compared > MOST_SEARCHED then",
            "if false then",
            "return string.find(string.rep('ab', 20000), string.rep('a', 2000), 1, true) or 'ESCAPED'",
        ),
        (
            "api.lua",
            "if depth >= MOST_DEPTH then",
            "if false then",
            "local t = {'ESCAPED'} for i = 1, 40 do t = {t} end return t",
        ),
        (
            "cjson.lua",
            "if depth >= MOST_DEPTH then",
            "if false then",
            "return cjson.decode(string.rep('[', 1001) .. string.rep(']', 1001)) and 'ESCAPED'",
        ),
        (
            "api.lua",
            "count > MOST_ARGUMENTS then",
            "false then",
            "local t = {} for i = 1, 1001 do t[i] = 'x' end redis.call(unpack(t)) return 'ESCAPED'",
        ),
    ],
)
def test_without_its_rule_an_attempt_succeeds(edited: Edit, name: str, rule: str, instead: str, attempt: str) -> None:
    """With the rule, the same script gets an error. The clock stands still, or counts how
    often it is looked at, so that nothing depends on the machine."""

    clock = ticking() if "while true" in attempt or "local function f" in attempt else lambda: 0.0
    assert "ESCAPED" not in str(tried(LuaScripts(clock=clock), attempt))
    edited(name, rule, instead)
    assert "ESCAPED" in str(tried(LuaScripts(clock=clock), attempt))


def test_either_of_two_rules_keeps_a_script_from_going_on_after_its_time(edited: Edit) -> None:
    """The hook that fails every instruction, and the check of what is caught."""
    source = "for i = 1, 50 do pcall(function() while true do end end) end return 'ESCAPED'"

    def outcome() -> str:
        return str(tried(LuaScripts(clock=ticking()), source))

    edited("bounds.lua", "        check()\n    end\n    return ok, ...", "    end\n    return ok, ...")
    assert "used up its time" in outcome()
    edited("bounds.lua", 'sethook(box.hook, "", 1)\n    error(why, 0)', "ended = nil error(why, 0)")
    assert "ESCAPED" in outcome()


def test_a_handler_of_errors_runs_under_the_hook(edited: Edit) -> None:
    """One of Lua's own xpcall would run inside the hook that failed, for as long as it likes."""
    source = b"""
        local n = 0
        local function handler() repeat n = n + 1 until n > 99999 redis.call('HELD UP') end
        xpcall(function() while true do end end, handler)
    """
    called: list[Command] = []

    def outcome() -> list[Command]:
        LuaScripts(clock=ticking()).run(source, KEYS, (), called.append, 7)
        return called

    assert outcome() == []
    edited(
        "bounds.lua",
        "function box.base.xpcall(body, handler)",
        "box.base.xpcall = xpcall\nfunction box.unused(body, handler)",
    )
    assert outcome() == [(b"HELD UP",)]


def test_without_the_filter_the_attributes_of_an_object_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should one ever get into a script's hands: given to it here as ARGV."""
    source = b"return ARGV.__class__ and 'ESCAPED'"

    class Leaky(interpreter.Interpreter):
        def run(self, chunk: object, *given: object) -> Reply | interpreter.ScriptError:
            self._lua = SimpleNamespace(table=lambda *_: object())
            return super().run(chunk, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(scripts, "Interpreter", Leaky)

    def outcome() -> str:
        return str(LuaScripts().run(source, KEYS, (), lambda _: None, 7))

    assert "ESCAPED" not in outcome()
    monkeypatch.setattr(interpreter, "no_attribute", lambda _, name, __: name)
    assert "ESCAPED" in outcome()


def test_without_its_refusal_bytecode_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    bytecode = lua51.LuaRuntime(encoding=None).execute(b"return string.dump(function() return 'ESCAPED' end)")
    assert isinstance(tried_bytes(bytecode), Fault)
    monkeypatch.setattr(scripts, "BYTECODE", b"never")
    assert tried_bytes(bytecode) == b"ESCAPED"


def tried_bytes(source: bytes) -> Reply:
    return LuaScripts().run(source, KEYS, (), lambda _: None, 7)


def test_without_the_limit_of_memory_a_script_takes_more() -> None:
    source = "local t = {} for i = 1, 20 do t[i] = string.rep('x', 1e6) .. i end return 'ESCAPED'"
    assert isinstance(tried(LuaScripts(clock=lambda: 0.0), source), ScriptEnded)
    roomy = LuaScripts(ScriptLimits(memory_bytes=64 * MIB), clock=lambda: 0.0)
    assert tried(roomy, source) == b"ESCAPED"


def test_after_a_script_without_memory_there_is_a_new_interpreter() -> None:
    lua = LuaScripts(clock=lambda: 0.0)
    tried(lua, "return 1")
    first = lua.interpreter
    tried(lua, "local s = 'x' while true do s = s .. s end")
    assert lua.interpreter is None
    assert tried(lua, "return 1") == 1
    assert lua.interpreter is not first
