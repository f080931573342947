"""What a script may take: it runs inside the event loop of its node, so each of these bounds how long others wait."""

from msgspec import Struct

KIB = 1 << 10
MIB = 1 << 20


class ScriptLimits(Struct, frozen=True, kw_only=True):
    """`cpu_s`: processor time of one run, looked at every `interval` instructions; every `heavy_interval` when the
    interpreter holds more than `heavy_bytes`, because then one instruction may copy as much. `instructions` ends a
    run also where the clock of the processor's time is coarse. Lua 5.1 refuses memory above `memory_bytes` at once,
    and collects when what it holds has doubled: half of it is what a script can count on."""

    cpu_s: float = 0.005
    # All runs of a node together: what they take beyond `least_s` each comes out of `saved_s`, which is filled again at
    # `share` of the time that passes. While it is empty a run has `least_s`, several times what a lock's script takes.
    saved_s: float = 0.02
    share: float = 0.25
    least_s: float = 0.0003
    instructions: int = 2_000_000
    interval: int = 100
    heavy_interval: int = 4
    heavy_bytes: int = 1536 * KIB
    memory_bytes: int = 8 * MIB
    # What stays between runs, compiled scripts above all: some hundreds of them. More is collected, then they go.
    resident_bytes: int = 1 * MIB
    # A few milliseconds of compiling at worst; scripts of libraries have less.
    source_bytes: int = 32 * KIB
    # Sources that EVALSHA may name. The least recently used go first.
    cached_scripts: int = 1000
    cached_bytes: int = 4 * MIB
    error_bytes: int = 1 * KIB
