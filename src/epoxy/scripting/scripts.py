"""Scripts of clients: their sources by sha1, and their runs."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha1
from time import thread_time

from epoxy.model.strings import Command, Fault, Reply, ScriptEnded
from epoxy.scripting.budget import ScriptBudget
from epoxy.scripting.interpreter import Call, Chunk, Interpreter, ScriptError
from epoxy.scripting.limits import ScriptLimits

NO_SCRIPT = Fault("NOSCRIPT No matching script. Please use EVAL.")
BYTECODE = b"\x1b"
"""Lua reads what begins so as compiled, and trusts it: it could reach any memory."""


class LuaScripts:
    """Runs scripts in one interpreter, made when the first one comes, and made anew when a script used up its memory.
    Sources are kept for EVALSHA, compiled ones as long as there is room."""

    def __init__(self, limits: ScriptLimits | None = None, clock: Callable[[], float] = thread_time) -> None:
        self.limits = limits or ScriptLimits()
        self.budget = ScriptBudget(self.limits, clock)
        self._sources: OrderedDict[str, bytes] = OrderedDict()
        self._source_bytes = 0
        self._chunks: dict[str, Chunk] = {}
        self.interpreter: Interpreter | None = None
        self._running = False

    # The sources

    def load(self, source: bytes) -> str | Fault:
        """SCRIPT LOAD: the name for EVALSHA, if the script compiles."""
        name = name_of(source)
        chunk = self._chunk(name, source)
        return chunk if isinstance(chunk, Fault) else name

    def exists(self, name: str) -> bool:
        return name.lower() in self._sources

    def source(self, name: str) -> bytes | None:
        """For EVALSHA. None: NO_SCRIPT is the answer."""
        source = self._sources.get(name.lower())
        if source is not None:
            self._sources.move_to_end(name.lower())
        return source

    def flush(self) -> None:
        self._sources.clear()
        self._chunks.clear()
        self._source_bytes = 0

    def _keep(self, name: str, source: bytes) -> None:
        if name in self._sources:
            self._sources.move_to_end(name)
            return
        self._sources[name] = source
        self._source_bytes += len(source)
        while len(self._sources) > self.limits.cached_scripts or self._source_bytes > self.limits.cached_bytes:
            oldest, dropped = self._sources.popitem(last=False)
            self._source_bytes -= len(dropped)
            self._chunks.pop(oldest, None)

    # The runs

    def run(self, source: bytes, keys: Command, arguments: Command, call: Call, seed: int) -> Reply:
        """EVAL. `call` is what redis.call does; `seed` is that of math.random."""
        if self._running:
            return Fault("ERR This Redis command is not allowed from script")
        with self.budget.charging():
            return self._run(source, keys, arguments, call, seed)

    def _run(self, source: bytes, keys: Command, arguments: Command, call: Call, seed: int) -> Reply:
        name = name_of(source)
        chunk = self._chunk(name, source)
        if isinstance(chunk, Fault):
            return chunk
        self._running = True
        try:
            outcome = self._ready().run(chunk, keys, arguments, as_called(call), seed)
        finally:
            self._running = False
        return self._fault(outcome, name, source) if isinstance(outcome, ScriptError) else outcome

    def _chunk(self, name: str, source: bytes) -> Chunk | Fault:
        chunk = self._chunks.get(name)
        if chunk is None:
            if len(source) > self.limits.source_bytes:
                return Fault(f"ERR the script has {len(source)} bytes; at most {self.limits.source_bytes}")
            body = body_of(source)
            chunk = body if isinstance(body, Fault) else self._compiled(body)
            if isinstance(chunk, Fault):
                return chunk
            self._chunks[name] = chunk
        self._keep(name, source)
        return chunk

    def _compiled(self, body: bytes) -> Chunk | Fault:
        chunk = self._ready().compile(body)
        if not isinstance(chunk, ScriptError):
            return chunk
        if chunk.damaged:
            self._discard()
        return Fault(f"ERR Error compiling script (new function): {chunk.text}")

    def _ready(self) -> Interpreter:
        """The interpreter, with room for a run: what stays from earlier ones is collected when it is much, and if that
        does not do, compiled scripts go."""
        if self.interpreter is None:
            self.interpreter = Interpreter(self.limits, self.budget)
        interpreter = self.interpreter
        if interpreter.held_bytes > self.limits.resident_bytes:
            interpreter.collect()
            if interpreter.held_bytes > self.limits.resident_bytes:
                self._chunks.clear()
                interpreter.collect()
        return interpreter

    def _discard(self) -> None:
        self.interpreter = None
        self._chunks.clear()

    def _fault(self, error: ScriptError, name: str, source: bytes) -> Fault:
        """As Redis 7 says it: with the script's name and line. A call in tail position has lost its line, unless there
        is only one."""
        if error.damaged:
            self._discard()
        if error.ended:
            return ScriptEnded(error.text)
        line = error.line or (0 if b"\n" in source.strip() else 1)
        text = error.text.encode()[: self.limits.error_bytes].decode(errors="ignore")
        return Fault(f"{text} script: {name}, on @user_script:{line}." if line else text)


def name_of(source: bytes) -> str:
    return sha1(source, usedforsecurity=False).hexdigest()


def body_of(source: bytes) -> bytes | Fault:
    """Without a line #!lua, whose flags say nothing that matters here; its end stays, so that lines keep their
    numbers."""
    if source.startswith(BYTECODE):
        return Fault("ERR Error compiling script (new function): compiled scripts are refused, send their source")
    if not source.startswith(b"#!"):
        return source
    shebang, newline, body = source.partition(b"\n")
    if not newline:
        return Fault("ERR Invalid script shebang")
    engine = shebang.split()[0]
    if engine != b"#!lua":
        return Fault(f"ERR Unexpected engine in script shebang: {engine[2:].decode(errors='replace')}")
    return newline + body


def as_called(call: Call) -> Call:
    """Redis words two errors in its own way when a script calls."""

    def called(command: Command) -> Reply:
        reply = call(command)
        if isinstance(reply, Fault):
            if reply.text.startswith("ERR unknown command"):
                return Fault("ERR Unknown Redis command called from script")
            if reply.text.startswith("ERR wrong number of arguments for"):
                return Fault("ERR Wrong number of args calling Redis command from script")
        return reply

    return called
