"""One Lua with its sandbox. The only module that knows lupa."""

from collections.abc import Callable
from hashlib import sha1
from pathlib import Path
from typing import Any

from msgspec import Struct

from epoxy.model.strings import Command, Fault, Reply, SimpleString
from epoxy.scripting.bits import operate
from epoxy.scripting.budget import ScriptBudget
from epoxy.scripting.limits import ScriptLimits
from epoxy.scripting.replies import ERROR, NULL, RAISED, STATUS, TABLE, VALUE, ReplyBuilder, line_of, reply_of

Call = Callable[[Command], Reply]
Chunk = Any
"""A compiled script."""

HERE = Path(__file__).parent
MEMORY = b"not enough memory"
OUT_OF_MEMORY = b"ERR " + MEMORY

BASE = (
    "assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "rawset", "select",
    "setmetatable", "tonumber", "tostring", "type", "unpack", "_VERSION",
)  # fmt: skip
"""Of Lua's own functions, those that reach nothing but their arguments and take no longer than an instruction."""


class ScriptError(Struct, frozen=True):
    """The error that a script raised, or that it was ended with. `line`: of the script, if known. `ended`: by a limit;
    `damaged`: Lua had no memory left."""

    text: str
    line: int | None = None
    ended: bool = False
    damaged: bool = False


NO_MEMORY = ScriptError(
    "ERR the script has used up its memory; what it had written is undone", ended=True, damaged=True
)


class Interpreter:
    """Scripts run one at a time, each in an environment of its own. After an error that says `damaged` make a new
    one."""

    def __init__(self, limits: ScriptLimits, budget: ScriptBudget) -> None:
        from lupa import lua51  # a node that is sent no script loads no Lua

        self._failures = (lua51.LuaError, lua51.LuaMemoryError)
        self._limits = limits
        self._budget = budget
        self._call: Call = refuse
        self._builder = ReplyBuilder()
        self._lua = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=no_attribute,
            max_memory=limits.memory_bytes,
        )
        self._box = self._sandbox()
        self._run, self._compile = self._box[b"run"], self._box[b"compile"]
        self._disarm, self._why_ended = self._box[b"disarm"], self._box[b"why_ended"]

    def _sandbox(self) -> Any:
        """Loads our Lua files, in the order in which they need each other, then takes everything else away."""
        lua = self._lua
        lua.execute(b"collectgarbage('setpause', 200) collectgarbage('setstepmul', 1000000)")
        everything = lua.globals()
        base = lua.table_from({name.encode(): everything[name.encode()] for name in BASE})
        box = lua.table_from({b"base": base, b"libraries": lua.table()})
        for name, given in (
            ("bounds", (self._budget.pace,)),
            ("patterns", ()),
            ("libraries", ()),
            ("bit", (operate,)),
            ("cjson", ()),
            ("api", (self._answer, digest, self._builder.add)),
        ):
            source = HERE.joinpath(f"{name}.lua").read_bytes()
            everything[b"loadstring"](source, f"={name}".encode())(box, *given)
        for name in list(everything):
            del everything[name]
        lua.gccollect()
        return box

    @property
    def held_bytes(self) -> int:
        return int(self._lua.get_memory_used(total=True))

    def collect(self) -> None:
        self._lua.gccollect()

    def compile(self, source: bytes) -> Chunk | ScriptError:
        try:
            chunk, wrong = self._compile(source), None
        except self._failures:
            return NO_MEMORY
        if isinstance(chunk, tuple):
            chunk, wrong = chunk
        return chunk if wrong is None else ScriptError(line_of(wrong))

    def run(self, chunk: Chunk, keys: Command, arguments: Command, call: Call, seed: int) -> Reply | ScriptError:
        self._call = call
        self._budget.begin()
        try:
            table = self._lua.table
            kind, value, line = self._run(chunk, seed, table(*keys), table(*arguments))
        except self._failures as failure:
            return self._ended(failure)
        finally:
            self._call = refuse
            built = self._builder.taken()
        if kind == RAISED:
            return ScriptError(line_of(value), line) if value != OUT_OF_MEMORY else NO_MEMORY
        return built if kind == TABLE else reply_of(kind, value)

    def _ended(self, failure: Exception) -> ScriptError:
        """Lua left its driver: by a limit, or by a fault of ours, after which it is not to be trusted. The hook may
        still fail every instruction; a C function switches it off without one."""
        self._disarm()
        if isinstance(failure, MemoryError):
            return NO_MEMORY
        why = self._why_ended()
        if why is None:
            return ScriptError("ERR internal error of the interpreter", ended=True, damaged=True)
        return NO_MEMORY if why == MEMORY else ScriptError(f"ERR {line_of(why)}", ended=True)

    def _answer(self, *command: bytes) -> tuple[int, object]:
        """Of redis.call: a kind and what Lua makes a value of. Never raises, never gives an object of Python's away."""
        reply = self._call(command)
        if isinstance(reply, SimpleString):
            return STATUS, reply.text.encode()
        if isinstance(reply, Fault):
            return ERROR, reply.text.encode()
        return (NULL, None) if reply is None else (VALUE, self._value_of(reply))

    def _value_of(self, reply: Reply) -> object:
        match reply:
            case None:
                return False
            case SimpleString(text):
                return self._lua.table_from({b"ok": text.encode()})
            case Fault(text):
                return self._lua.table_from({b"err": text.encode()})
            case tuple():
                return self._lua.table(*map(self._value_of, reply))
            case _:
                return reply


def refuse(command: Command) -> Reply:
    """No script is running."""
    return Fault(f"ERR no script calls {command[0]!r} now")


def no_attribute(_: object, name: object, __: bool) -> object:
    """Should an object of Python's ever come into a script's hands, nothing can be looked up in it."""
    raise AttributeError(f"{name!r} is not for scripts")


def digest(text: bytes) -> bytes:
    return sha1(text, usedforsecurity=False).hexdigest().encode()
