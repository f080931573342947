"""Sources by their names, replies and errors, and the scripts of real libraries."""

import pytest

from epoxy.model.strings import Command, Fault, Reply, SimpleString
from epoxy.scripting.limits import ScriptLimits
from epoxy.scripting.scripts import LuaScripts, name_of

ONE = name_of(b"return 1")


def call(command: Command) -> Reply:
    """A few replies, by the first word."""
    replies: dict[bytes, Reply] = {
        b"GET": b"value",
        b"NIL": None,
        b"SET": SimpleString("OK"),
        b"MANY": (1, b"x", None, SimpleString("OK"), Fault("ERR in a list"), (2, ())),
        b"WRONG": Fault("WRONGTYPE no"),
        b"FEW": Fault("ERR wrong number of arguments for 'few' command"),
        b"ARGUMENTS": command[1:],
    }
    return replies.get(command[0].upper(), Fault(f"ERR unknown command '{command[0].decode()}'"))


def run(source: str, *arguments: bytes, lua: LuaScripts | None = None) -> Reply:
    return (lua or LuaScripts()).run(source.encode(), (b"k",), arguments, call, 7)


def text_of(reply: Reply) -> str:
    assert isinstance(reply, Fault)
    return reply.text


def at_line(text: str, source: str, line: int = 1) -> Fault:
    return Fault(f"{text} script: {name_of(source.encode())}, on @user_script:{line}.")


# Sources


def test_sources_are_kept_by_their_names() -> None:
    lua = LuaScripts()
    assert not lua.exists(ONE)
    assert lua.source(ONE) is None
    assert lua.load(b"return 1") == ONE
    assert lua.exists(ONE)
    assert lua.source(ONE.upper()) == b"return 1"
    lua.flush()
    assert not lua.exists(ONE)
    run("return 1", lua=lua)
    assert lua.exists(ONE)


def test_a_script_that_does_not_compile_is_not_kept() -> None:
    lua = LuaScripts()
    fault = Fault("ERR Error compiling script (new function): user_script:2: '=' expected near '<eof>'")
    assert lua.load(b"local a = 1\nb") == fault
    assert run("local a = 1\nb", lua=lua) == fault
    assert not lua.exists(name_of(b"local a = 1\nb"))


def test_the_least_recently_used_are_dropped() -> None:
    lua = LuaScripts(ScriptLimits(cached_scripts=2))
    names = [lua.load(b"return %d" % n) for n in range(2)]
    run("return 0", lua=lua)
    names.append(lua.load(b"return 2"))
    assert [lua.exists(str(name)) for name in names] == [True, False, True]
    lua = LuaScripts(ScriptLimits(cached_bytes=20))
    names = [lua.load(b"return %d" % n) for n in range(3)]
    assert [lua.exists(str(name)) for name in names] == [False, True, True]


def test_compiled_scripts_make_room() -> None:
    lua = LuaScripts(ScriptLimits(resident_bytes=256 << 10))
    for n in range(300):
        assert run(f"local t = {{{'1, 2, 3, ' * 20}}} return {n}", lua=lua) == n
    assert lua.interpreter is not None
    lua.interpreter.collect()
    assert lua.interpreter.held_bytes < 300 << 10


def test_no_script_runs_inside_another() -> None:
    lua = LuaScripts()

    def nested(_: Command) -> Reply:
        return lua.run(b"return 1", (), (), call, 7)

    reply = lua.run(b"return redis.call('EVAL')", (), (), nested, 7)
    assert text_of(reply).startswith("ERR This Redis command is not allowed from script")
    assert run("return 1", lua=lua) == 1


@pytest.mark.parametrize(
    ("source", "reply"),
    [
        ("#!lua\nreturn 1", 1),
        ("#!lua flags=no-writes\nerror('x')", at_line("ERR user_script:2: x", "#!lua flags=no-writes\nerror('x')", 2)),
        ("#!lua", Fault("ERR Invalid script shebang")),
        ("#!python\nreturn 1", Fault("ERR Unexpected engine in script shebang: python")),
    ],
)
def test_a_line_that_names_the_engine(source: str, reply: Reply) -> None:
    assert run(source) == reply


# Replies


@pytest.mark.parametrize(
    ("source", "reply"),
    [
        ("", None),
        ("return nil", None),
        ("return false", None),
        ("return true", 1),
        ("return 3.99", 3),
        ("return -3.99", -3),
        ("return 2^53", 1 << 53),
        ("return 'text\\0\\255'", b"text\0\xff"),
        ("return {1, 'x', {2, {}}, false, true, nil, 3}", (1, b"x", (2, ()), None, 1)),
        ("return {ok = 'fine'}", SimpleString("fine")),
        ("return {ok = 'two\\r\\nlines'}", SimpleString("two  lines")),
        ("return {err = 'BAD thing'}", Fault("BAD thing")),
        ("return {1, {err = 'BAD thing'}, {ok = 'fine'}}", (1, Fault("BAD thing"), SimpleString("fine"))),
        ("return {double = 3.5}", b"3.5"),
        ("return {a = 1}", ()),
        ("return tostring", None),
        ("return cjson.null", None),
        ("return 1, 2", 1),
        ("return {KEYS[1], ARGV[1], ARGV[2], KEYS[2]}", (b"k", b"a", b"b")),
        ("return {#KEYS, #ARGV}", (1, 2)),
        ("return redis.status_reply('fine')", SimpleString("fine")),
        ("return redis.status_reply()", Fault("ERR wrong number or type of arguments")),
        ("return redis.error_reply('My Err')", Fault("My Err")),
        ("return redis.error_reply('-My Err')", Fault("My Err")),
        ("return redis.error_reply('Err')", Fault("ERR Err")),
        ("return redis.error_reply(1)", Fault("ERR wrong number or type of arguments")),
        ("return redis.sha1hex('')", b"da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}", (0, 1, 2, 3)),
        ("redis.log(redis.LOG_NOTICE, 'x') return redis.replicate_commands()", 1),
        ("return _VERSION", b"Lua 5.1"),
    ],
)
def test_what_a_client_gets(source: str, reply: Reply) -> None:
    assert run(source, b"a", b"b") == reply


@pytest.mark.parametrize(
    ("source", "reply"),
    [
        ("return redis.call('GET', KEYS[1])", b"value"),
        ("return redis.call('NIL') == false", 1),
        ("redis.setresp(3) return redis.call('NIL') == nil", 1),
        ("redis.setresp(3) redis.setresp(2) return redis.call('NIL') == false", 1),
        ("return redis.call('SET').ok", b"OK"),
        ("return redis.call('MANY')", (1, b"x", None, SimpleString("OK"), Fault("ERR in a list"), (2, ()))),
        ("local m = redis.call('MANY') return {m[3] == false, m[4].ok, m[5].err}", (1, b"OK", b"ERR in a list")),
        ("return redis.pcall('WRONG')", Fault("WRONGTYPE no")),
        ("return redis.pcall('WRONG').err", b"WRONGTYPE no"),
        ("return redis.pcall('FEW').err", b"ERR Wrong number of args calling Redis command from script"),
        ("return redis.pcall('OTHER').err", b"ERR Unknown Redis command called from script"),
        ("return redis.pcall().err", b"ERR Please specify at least one argument for this redis.call() call"),
        ("return redis.pcall('GET', {}).err", b"ERR Lua redis lib command arguments must be strings or integers"),
        ("return redis.call('ARGUMENTS', 1, 1.5, 2^53, -0.1, '')",
         (b"1", b"1.5", b"9007199254740992", b"-0.1", b"")),
        ("local ok, e = pcall(redis.call, 'WRONG') return {ok, e.err}", (None, b"WRONGTYPE no")),
        ("return {select(2, xpcall(function() error('x', 0) end, function(e) return e .. '!' end))}", (b"x!",)),
    ],
)  # fmt: skip
def test_what_a_script_gets(source: str, reply: Reply) -> None:
    assert run(source) == reply


@pytest.mark.parametrize(
    ("source", "text", "line"),
    [
        ("return redis.call('WRONG')", "WRONGTYPE no", 1),
        ("local a = 1\nlocal b = redis.call('WRONG')\nreturn b", "WRONGTYPE no", 2),
        ("\n\nerror('boo')", "ERR user_script:3: boo", 3),
        ("error({err = 'MY error'})", "MY error", 1),
        ("error({})", "ERR unknown error", 1),
        ("error()", "ERR nil", 1),
        ("local a = nil + 1", "ERR user_script:1: attempt to perform arithmetic on a nil value", 1),
        ("found = 1", "ERR user_script:1: Attempt to modify a readonly table", 1),
        ("local a = found", "ERR user_script:1: Script attempted to access nonexistent global variable 'found'", 1),
        ("local a = string.rep({})", "ERR user_script:1: bad argument #1 to 'rep' (string expected, got table)", 1),
        (
            "local a = cjson.decode('[1,')",
            "ERR user_script:1: Expected value but found T_END at character 4",
            1,
        ),
    ],
)
def test_errors_name_their_line(source: str, text: str, line: int) -> None:
    assert run(source) == at_line(text, source, line)


def test_random_numbers_follow_from_the_seed() -> None:
    lua, source = LuaScripts(), b"return {math.random(1e9), math.random(1e9)}"
    first = lua.run(source, (), (), call, 1)
    assert first == lua.run(source, (), (), call, 1)
    assert first != lua.run(source, (), (), call, 2)


@pytest.mark.parametrize(
    ("source", "reply"),
    [
        ("return cjson.encode({1, 'a\"/\\n', true, {}, cjson.null})", rb'[1,"a\"\/\n",true,{},null]'),
        ("return cjson.encode({a = 1.5})", b'{"a":1.5}'),
        ("return cjson.encode({[1] = 1, [3] = 3})", b"[1,null,3]"),
        ("return cjson.encode('\\127\\0')", rb'"\u007f\u0000"'),
        ("return cjson.encode(0/0) ", "must not be NaN or Inf"),
        ("return cjson.encode({[true] = 1}) ", "table key must be a number or string"),
        ("return cjson.encode(tostring) ", "Cannot serialise function: type not supported"),
        (r"""return cjson.decode('{"a": [1, 2.5, "x\\u00e4\\ud83d\\ude00", {"b": null}], "c": false}').a[3]""",
         "xä😀".encode()),
        ("return cjson.decode('[1, [2, []], true]')", (1, (2, ()), 1)),
        ("return cjson.decode(' -1.5e2 ')", -150),
        ("return cjson.decode('null') == cjson.null", 1),
        ("return cjson.decode('01')", "Expected value"),
        ("return cjson.decode('[1 2]')", "Expected comma or array end but found T_NUMBER at character 4"),
        ("return cjson.decode('{1}')", "Expected object key string but found T_NUMBER at character 2"),
        ("return cjson.decode('1 x')", "Expected the end but found invalid token at character 3"),
        ("return cjson.decode()", "string expected, got nil"),
        ("return {bit.band(7, 13, 5), bit.bor(1, 2), bit.bxor(7, 2), bit.bnot(0)}", (5, 3, 5, -1)),
        ("return {bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-8, 1), bit.rol(0x80000001, 1)}",
         (-(1 << 31), 15, -4, 3)),
        ("return {bit.tohex(255), bit.tohex(255, 2), bit.tohex(-1, -4), bit.bswap(1), bit.ror(1, 1)}",
         (b"000000ff", b"ff", b"FFFF", 1 << 24, -(1 << 31))),
        ("return {('x-y'):find('-', 1, true), ('a1'):match('%d'), (('aXb'):gsub('%u', '.'))}", (2, b"1", b"a.b")),
        ("local t = {} for w in ('a b c'):gmatch('%a') do t[#t + 1] = w end return t", (b"a", b"b", b"c")),
        ("return {('abc'):gsub('%a', {a = '1', b = true and 'x'})}", (b"1xc", 3)),
        ("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t", (3, 2, 1)),
        ("local t = {1, 2} table.insert(t, 1, 0) table.remove(t) return {table.concat(t, ','), t[1]}", (b"0,1", 0)),
        ("return {string.rep('ab', 2500):len(), ('x'):rep(0), ('x'):rep(-1), ('x'):rep(2.9)}", (5000, b"", b"", b"xx")),
    ],
)  # fmt: skip
def test_libraries(source: str, reply: Reply | str) -> None:
    found = run(source)
    if isinstance(reply, str):
        assert reply in text_of(found)
    else:
        assert found == reply
