"""Commands in, replies and registers out: the entrance to this room.

`parse` finds all that is wrong with a command whatever the registers hold. `evaluate` runs steps on one register,
`MultiSession` on several. A command that fails has its error in its place, and the others are done, as in EXEC.
"""

from collections.abc import Mapping, Set
from itertools import chain

from epoxy.model.strings import Command, Evaluated, Fault, Register, Reply, ScriptEnded, Steps
from epoxy.protocol.strings import bits, expiry, numbers, ranges, scripts, values
from epoxy.protocol.strings.faults import CommandFault, wrong_arity
from epoxy.protocol.strings.parsing import Run, StringCommand, name_of
from epoxy.protocol.strings.registers import Registers
from epoxy.protocol.strings.scripts import NOT_IN_SCRIPT, READ_ONLY, RunScript, script_keys

COMMANDS: dict[str, StringCommand] = {
    command.name: command
    for command in chain(
        values.COMMANDS,
        ranges.COMMANDS,
        numbers.COMMANDS,
        bits.COMMANDS,
        expiry.COMMANDS,
        scripts.COMMANDS,
        scripts.SCRIPTS,
    )
}

SCRIPTS = frozenset([command.name for command in scripts.SCRIPTS])
NOT_FROM_SCRIPTS = SCRIPTS | {"unwatch"}


class Parsed:
    """A command whose arguments are sound: its name in lower case, the keys it names, and whether it may change
    them."""

    __slots__ = ("command", "keys", "name", "run", "writes")

    def __init__(self, command: Command, spec: StringCommand, run: Run) -> None:
        self.command = command
        self.name = spec.name
        self.keys = script_keys(command) if spec.name in SCRIPTS else spec.keys(command)
        self.writes = spec.writes and not (spec.name == "getex" and len(command) == 2)
        self.run = run


def find(command: Command) -> StringCommand | Fault:
    """What Redis checks before it queues a command: that it exists, and the number of its arguments."""
    name = name_of(command)
    spec = COMMANDS.get(name)
    if spec is None:
        return Fault(f"ERR unknown command '{name[:128]}'")
    return spec if spec.accepts(len(command)) else Fault(wrong_arity(name))


def parse(command: Command) -> Parsed | Fault:
    spec = find(command)
    if isinstance(spec, Fault):
        return spec
    try:
        return Parsed(command, spec, spec.build(command))
    except CommandFault as fault:
        return Fault(str(fault))


MAX_NAMED_BYTES = 16 << 20
"""Of the values that the commands of one session name, each time they are named: reading them, their bits and the
replies take the time of all other clients. No command of one key alone can name as much."""


class MultiSession:
    """Commands one after another on the registers of some keys, and on no others."""

    def __init__(
        self,
        registers: Mapping[bytes, Register],
        now_ms: int,
        run_script: RunScript | None = None,
        seed: int = 0,
    ) -> None:
        self._registers = Registers(registers, now_ms)
        self._run_script = run_script
        self._seed = seed
        self._named_bytes = 0

    def call(self, command: Command) -> Reply:
        parsed = parse(command)
        if isinstance(parsed, Fault):
            return parsed
        if parsed.name in ("eval", "eval_ro") and self._run_script is not None:
            return self._script(parsed, self._run_script)
        return self._too_much(parsed) or self._run(parsed, self._registers.views.keys())

    def _too_much(self, parsed: Parsed) -> Fault | None:
        """Scripts have a limit of time instead."""
        views = self._registers.views
        more = sum([len(views[key].value or b"") for key in parsed.keys if key in views])
        self._named_bytes += more
        if not more or self._named_bytes <= MAX_NAMED_BYTES:
            return None
        limit = f"the values that commands name at a time have at most {MAX_NAMED_BYTES} bytes"
        return Fault(f"ERR {parsed.name.upper()} was not done: {limit}")

    def changed(self) -> dict[bytes, Evaluated]:
        """The registers that were written. Their replies are with the caller."""
        evaluated = {key: view.evaluated() for key, view in self._registers.views.items()}
        return {key: each for key, each in evaluated.items() if each.changed}

    def _script(self, parsed: Parsed, run_script: RunScript) -> Reply:
        """A script sees the keys it declares. Each of a transaction has random numbers of its own. What a script wrote
        before it failed stays, as in Redis; one that a limit ended has written nothing."""
        undeclared = undeclared_key(parsed, self._registers.views.keys())
        if undeclared is not None:
            return undeclared
        self._seed += 1
        source, arguments = parsed.command[1], parsed.command[3 + len(parsed.keys) :]

        def call(command: Command) -> Reply:
            called = parse(command)
            if isinstance(called, Fault):
                return called
            if called.name in NOT_FROM_SCRIPTS:
                return Fault(NOT_IN_SCRIPT)
            if called.writes and not parsed.writes:
                return Fault(READ_ONLY)
            return self._run(called, frozenset(parsed.keys))

        before = self._registers.copied_views()
        reply = run_script(source, parsed.keys, arguments, call, self._seed)
        if isinstance(reply, ScriptEnded):
            self._registers.views = before
        return reply

    def _run(self, parsed: Parsed, declared: Set[bytes]) -> Reply:
        undeclared = undeclared_key(parsed, declared)
        if undeclared is not None:
            return undeclared
        try:
            return parsed.run(self._registers)
        except CommandFault as fault:
            return Fault(str(fault))


def undeclared_key(parsed: Parsed, declared: Set[bytes]) -> Fault | None:
    for key in parsed.keys:
        if key not in declared:
            return Fault(f"ERR Script attempted to access a non declared key {repr(key[:64])[1:]}")
    return None


class RegisterSession(MultiSession):
    """Commands on the register of one key."""

    def __init__(
        self, key: bytes, register: Register, now_ms: int, run_script: RunScript | None = None, seed: int = 0
    ) -> None:
        super().__init__({key: register}, now_ms, run_script, seed)
        self._key = key

    def evaluated(self, replies: tuple[Reply, ...]) -> Evaluated:
        return self._registers.views[self._key].evaluated(replies)


def evaluate(steps: Steps, register: Register, run_script: RunScript | None = None) -> Evaluated:
    """The key of the register is the one that the steps name."""
    named = [parsed.keys for parsed in map(parse, steps.commands) if isinstance(parsed, Parsed) and parsed.keys]
    session = RegisterSession(named[0][0] if named else b"", register, steps.now_ms, run_script, steps.seed)
    return session.evaluated(tuple([session.call(command) for command in steps.commands]))
