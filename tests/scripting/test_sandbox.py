"""Attempts to escape from the sandbox, to leave something behind in it, and to hold the node up."""

from time import thread_time

import pytest

from epoxy.model.strings import Command, Fault, Reply, ScriptEnded
from epoxy.scripting.limits import ScriptLimits
from epoxy.scripting.scripts import LuaScripts
from tests.scripting.attempts import ESCAPES, HOLD_UPS, LEFT_BEHIND, Attempt

KEYS = (b"k",)


def call(command: Command) -> Reply:
    if command[0] == b"RAISE":
        raise LookupError("what a fault of ours raises")
    return b"value"


def tried(lua: LuaScripts, source: str) -> Reply:
    return lua.run(source.encode(), KEYS, (b"a", b"b"), call, 7)


def by_name(attempts: list[Attempt]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("attempt", attempts, ids=[attempt.name for attempt in attempts])


@pytest.fixture(scope="module")
def shared() -> LuaScripts:
    """One for all attempts: what one does to it, the next would notice. With five times the time, so that on a slow
    machine, too, each is ended by the rule that is meant, and as much for all of them together as they like."""
    return LuaScripts(ScriptLimits(cpu_s=0.025, saved_s=1000))


def test_there_are_many_attempts() -> None:
    assert len(ESCAPES + LEFT_BEHIND + HOLD_UPS) > 100


@by_name(ESCAPES)
def test_nothing_outside_can_be_reached(shared: LuaScripts, attempt: Attempt) -> None:
    reply = tried(shared, attempt.source)
    if attempt.instead == "nothing":
        assert reply is None
    else:
        assert isinstance(reply, Fault)
        assert attempt.instead in reply.text


@by_name(LEFT_BEHIND)
def test_nothing_is_left_for_the_next_script(shared: LuaScripts, attempt: Attempt) -> None:
    if attempt.instead == "return RANDOM":
        drawn = tried(shared, "return math.random(1e9)")
        tried(shared, attempt.source)
        assert tried(shared, "return math.random(1e9)") == drawn
        return
    tried(shared, attempt.source)
    found = tried(shared, attempt.instead)
    assert found is None or (isinstance(found, Fault) and "ESCAPED" not in found.text)


@by_name(HOLD_UPS)
def test_a_script_that_holds_the_node_up_is_ended(shared: LuaScripts, attempt: Attempt) -> None:
    """The time it took is printed; what is asserted depends on no clock's speed: it ended, by the right rule, and the
    hook was asked no more often than instructions allow."""
    began = thread_time()
    reply = tried(shared, attempt.source)
    print(f"{attempt.name}: {(thread_time() - began) * 1000:.1f} ms, {shared.budget.checks} checks")
    if attempt.instead == "nothing":
        assert not isinstance(reply, Fault)
    else:
        assert isinstance(reply, Fault)
        assert attempt.instead in reply.text
        assert isinstance(reply, ScriptEnded) == ("used up" in reply.text)
        assert len(reply.text) < 1200
    assert shared.budget.checks < shared.limits.instructions / shared.limits.heavy_interval
    assert tried(shared, "return string.rep('x', 3)") == b"xxx"


def test_what_a_script_wants_compiled_is_bounded(shared: LuaScripts) -> None:
    deep = "return " + "(" * 1000 + "1" + ")" * 1000
    assert "too many syntax levels" in str(tried(shared, deep)) or "C levels" in str(tried(shared, deep))
    long = "local a\n" + "if a then\n" + "elseif a then\n" * 2300 + "end"
    began = thread_time()
    assert tried(shared, long) is None
    print(f"a script of {len(long)} bytes: {(thread_time() - began) * 1000:.1f} ms")
    assert "at most 32768" in str(tried(shared, long + "-" * 32768))


@pytest.mark.parametrize("source", [b"\x1bLua", b"\x1bLJ", b"\x1b"])
def test_compiled_scripts_are_refused(shared: LuaScripts, source: bytes) -> None:
    assert "compiled scripts are refused" in str(shared.run(source, KEYS, (), call, 7))
    assert "compiled scripts are refused" in str(shared.load(source))


def test_the_number_of_instructions_ends_a_script_where_the_clock_stands_still() -> None:
    lua = LuaScripts(clock=lambda: 0.0)
    assert "used up its time" in str(tried(lua, "while true do end"))
    assert lua.budget.checks == lua.limits.instructions // lua.limits.interval + 2


def test_no_memory_is_lost_over_many_runs() -> None:
    lua = LuaScripts()
    sources = [f"local t = {{}} for i = 1, 10 do t[i] = KEYS[1] .. i .. '{n}' end return t" for n in range(20)]

    def held(runs: int) -> int:
        for i in range(runs):
            assert tried(lua, sources[i % 20]) is not None
            tried(lua, "error('failed')")
        assert lua.interpreter is not None
        lua.interpreter.collect()
        return lua.interpreter.held_bytes

    before = held(200)
    assert held(5000) <= before
