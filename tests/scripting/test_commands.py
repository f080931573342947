"""Scripts over the commands of the strings: those of redis-py's locks as it sends them, and others of their kind."""

from redis.lock import Lock

from epoxy.model.strings import KEEP, PERSIST, Evaluated, Fault, Register, Reply, ScriptEnded, SimpleString, Steps
from epoxy.protocol.strings.evaluation import evaluate
from epoxy.scripting.scripts import LuaScripts

NOW_MS = 1_700_000_000_123
SCRIPTS = LuaScripts()

RELEASE, EXTEND, REACQUIRE = [
    script.encode() for script in (Lock.LUA_RELEASE_SCRIPT, Lock.LUA_EXTEND_SCRIPT, Lock.LUA_REACQUIRE_SCRIPT)
]

# Others in the shape of those that locks and rate limiters send; the libraries themselves: tests/libraries.
UNLOCK = b"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
TAKE_ALL = b"""
for _, name in ipairs(KEYS) do
    if redis.call("exists", name) == 1 then return 0 end
end
for _, name in ipairs(KEYS) do redis.call("set", name, ARGV[1], "PX", ARGV[2]) end
return #KEYS
"""
COUNT = b"""
local amount = tonumber(ARGV[2])
local sum = redis.call("incrby", KEYS[1], amount)
if tonumber(sum) == amount then redis.call("expire", KEYS[1], ARGV[1]) end
return sum
"""
# A token bucket, with its state as JSON and the time of the server
BUCKET = b"""
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local state = redis.call('GET', KEYS[1])
local bucket = state and cjson.decode(state) or {tokens = tonumber(ARGV[1]), at = now}
bucket.tokens = math.min(tonumber(ARGV[1]), bucket.tokens + (now - bucket.at) * ARGV[2])
bucket.at = now
local allowed = bucket.tokens >= 1
if allowed then bucket.tokens = bucket.tokens - 1 end
redis.call('SET', KEYS[1], cjson.encode(bucket), 'PX', 60000)
return {allowed and 1 or 0, tostring(bucket.tokens)}
"""


def run(source: bytes, *arguments: bytes, value: bytes | None = None, ms: int | None = None) -> Evaluated:
    steps = Steps(commands=((b"EVAL", source, b"1", b"k", *arguments),), now_ms=NOW_MS, seed=7)
    return evaluate(steps, Register(value=value, remaining_ms=ms, version=3), SCRIPTS.run)


def told(done: Evaluated) -> tuple[Reply, bytes | None, int, bool]:
    (reply,) = done.replies
    return reply, done.value, done.expiry, done.changed


def test_a_lock_of_redis_py_is_released_by_its_holder_alone() -> None:
    assert told(run(RELEASE, b"mine", value=b"mine", ms=500)) == (1, None, PERSIST, True)
    assert told(run(RELEASE, b"mine", value=b"other", ms=500)) == (0, b"other", KEEP, False)
    assert told(run(RELEASE, b"mine")) == (0, None, KEEP, False)


def test_a_lock_of_redis_py_is_extended() -> None:
    assert told(run(EXTEND, b"mine", b"1000", b"0", value=b"mine", ms=500)) == (1, b"mine", 1500, True)
    assert told(run(EXTEND, b"mine", b"1000", b"1", value=b"mine", ms=500)) == (1, b"mine", 1000, True)
    assert told(run(EXTEND, b"mine", b"1000", b"0", value=b"mine")) == (0, b"mine", KEEP, False)
    assert told(run(REACQUIRE, b"mine", b"700", value=b"mine", ms=500)) == (1, b"mine", 700, True)
    assert told(run(REACQUIRE, b"mine", b"700", value=b"other", ms=500)) == (0, b"other", KEEP, False)


def test_scripts_of_locks() -> None:
    assert told(run(UNLOCK, b"mine", value=b"mine", ms=500)) == (1, None, PERSIST, True)
    assert told(run(UNLOCK, b"mine", value=b"other")) == (0, b"other", KEEP, False)
    assert told(run(TAKE_ALL, b"mine", b"900")) == (1, b"mine", 900, True)
    assert told(run(TAKE_ALL, b"mine", b"900", value=b"other")) == (0, b"other", KEEP, False)


def test_a_window_counts_and_keeps_its_end() -> None:
    assert told(run(COUNT, b"60", b"1")) == (1, b"1", 60_000, True)
    assert told(run(COUNT, b"60", b"1", value=b"1", ms=50)) == (2, b"2", KEEP, True)


def test_a_token_bucket() -> None:
    first = run(BUCKET, b"2", b"0.001")
    assert first.replies == ((1, b"1"),)
    assert first.value is not None
    later = run(BUCKET, b"2", b"0.001", value=first.value)
    assert later.replies == ((1, b"0"),)
    assert run(BUCKET, b"2", b"0.001", value=later.value).replies == ((0, b"0"),)


def test_a_script_that_is_ended_writes_nothing_and_the_commands_around_it_do() -> None:
    ends = b"redis.call('SET', KEYS[1], 'half') while true do end"
    steps = Steps(
        commands=((b"APPEND", b"k", b"1"), (b"EVAL", ends, b"1", b"k"), (b"APPEND", b"k", b"2")), now_ms=NOW_MS, seed=7
    )
    done = evaluate(steps, Register(value=b"v"), SCRIPTS.run)
    assert isinstance(done.replies[1], ScriptEnded)
    assert (done.replies[0], done.replies[2], done.value) == (2, 3, b"v12")


def test_a_script_that_fails_keeps_what_it_wrote() -> None:
    reply, value, _, _ = told(run(b"redis.call('SET', KEYS[1], 'half') error('boo')"))
    assert isinstance(reply, Fault)
    assert value == b"half"


def test_keys_that_were_not_declared_and_scripts_in_scripts() -> None:
    reply, *_ = told(run(b"return redis.pcall('GET', 'other').err"))
    assert isinstance(reply, bytes)
    assert b"non declared key" in reply
    assert told(run(b"return redis.pcall('EVAL', 'return 1', 0).err"))[0] == (
        b"ERR This Redis command is not allowed from script"
    )
    assert told(run(b"return redis.call('SET', KEYS[1], 'x')"))[0] == SimpleString("OK")
