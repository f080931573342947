"""SCAN and DBSIZE: pages, cursors and patterns."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.api.resp import scan
from epoxy.api.resp.scan import MAX_COUNT, MAX_LISTED, MAX_PATTERN_BYTES, Cursors, Pattern
from epoxy.model.errors import InvalidRequest
from tests.api.resp.resp_world import Rope, proposal, run, until, world


async def page(client: Rope, command: str) -> tuple[int, list[str]]:
    client.send(command)
    assert await client.line() == "*2"
    await client.line()
    cursor = int(await client.line())
    keys = []
    for _ in range(int((await client.line())[1:])):
        await client.line()
        keys.append(await client.line())
    return cursor, keys


async def everything(client: Rope, options: str = "") -> list[str]:
    cursor, keys = await page(client, f"SCAN 0 {options}")
    while cursor:
        cursor, more = await page(client, f"SCAN {cursor} {options}")
        keys += more
    return keys


def test_a_scan_finds_every_living_key_once() -> None:
    async def story() -> None:
        async with world() as at:
            names = [f"k{i:03}" for i in range(95)]
            at.node.held |= {name.encode(): proposal(b"v") for name in names}
            at.node.held[b"k050"] = proposal(None)
            names.remove("k050")
            client, other = await at.connect(), await at.connect()
            assert await everything(client) == names
            assert await everything(client, "COUNT 1") == names
            assert await everything(client, "COUNT 1000 TYPE string") == names
            assert await everything(client, "TYPE list") == []
            assert await everything(client, "MATCH k00* COUNT 4") == names[:10]
            assert await everything(client, "match *7") == [name for name in names if name.endswith("7")]
            cursor, first = await page(client, "SCAN 0 COUNT 90")
            assert await page(other, f"SCAN {cursor}") == (0, names[len(first) :])
            assert await page(client, "SCAN 0 MATCH nothing*") == (0, [])

    run(story)


def test_a_page_that_ends_with_the_last_key_is_the_last() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= {b"a": proposal(b"v"), b"b": proposal(b"v")}
            assert await page(await at.connect(), "SCAN 0 COUNT 2") == (0, ["a", "b"])

    run(story)


def test_a_count_above_the_limit_is_cut_down() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= {b"%05d" % i: proposal(b"v") for i in range(MAX_COUNT + 1)}
            cursor, keys = await page(await at.connect(), "SCAN 0 COUNT 1000000")
            assert cursor > 0
            assert len(keys) == MAX_COUNT

    run(story)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("SCAN x", "not an integer"),
        ("SCAN 12345", "invalid cursor: start again from 0"),
        ("SCAN 0 COUNT", "syntax error"),
        ("SCAN 0 COUNT 0", "syntax error"),
        ("SCAN 0 COUNT x", "not an integer"),
        ("SCAN 0 FOO bar", "syntax error"),
        ("SCAN 0 MATCH " + "x" * (MAX_PATTERN_BYTES + 1), "at most 128 bytes"),
    ],
)
def test_what_is_no_scan(command: str, words: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send(command)
            line = await client.line()
            assert line.startswith("-ERR ")
            assert words in line

    run(story)


def test_dbsize_counts_living_keys_a_page_at_a_time_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            await client.says("DBSIZE", b":0\r\n")
            at.node.held |= {b"%04d" % i: proposal(b"v" if i % 10 else None) for i in range(1000)}
            await client.says("DBSIZE", b":900\r\n")
            client.send("DBSIZE", "PING")
            await client.expect(b":900\r\n+PONG\r\n")
            with monkeypatch.context() as patch:
                patch.setattr(scan, "MAX_COUNTED", scan.COUNTED_AT_ONCE)
                await client.says("DBSIZE", b":460\r\n")

    run(story)


def test_those_who_ask_for_the_size_at_a_time_share_a_count() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= {b"%05d" % i: proposal(b"v") for i in range(10 * scan.COUNTED_AT_ONCE)}
            clients = [await at.connect() for _ in range(20)]
            for client in clients:
                client.send("DBSIZE")
            for client in clients:
                await client.expect(b":%d\r\n" % len(at.node.held))
            assert at.node.counted <= 3 * 11, "the first, those who came meanwhile, and those who came last"

    run(story)


def test_who_asks_for_the_size_while_others_count_is_told_what_it_has_written() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= {b"%05d" % i: proposal(b"v") for i in range(4 * scan.COUNTED_AT_ONCE)}
            first, second = await at.connect(), await at.connect()
            first.send("DBSIZE")
            await until(lambda: at.node.counted == 1)
            at.node.held[b"!"] = proposal(b"v")
            await second.says("DBSIZE", b":%d\r\n" % len(at.node.held))
            await first.expect(b":%d\r\n" % (len(at.node.held) - 1))

    run(story)


def test_a_count_goes_on_when_the_first_who_asked_has_left() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= {b"%05d" % i: proposal(b"v") for i in range(4 * scan.COUNTED_AT_ONCE)}
            first, second = await at.connect(), await at.connect()
            first.send("DBSIZE")
            await until(lambda: at.node.counted == 1)
            first.writer.transport.abort()
            await second.says("DBSIZE", b":%d\r\n" % len(at.node.held))

    run(story)


def test_cursors_are_numbers_every_client_can_hold_and_old_ones_go_first() -> None:
    cursors = Cursors(limit=3)
    numbers = [cursors.number(b"place %d" % i) for i in range(3)]
    assert all(0 < number < 1 << 53 for number in numbers)
    assert cursors.number(b"place 0") == numbers[0]
    cursors.number(b"place 3")
    assert [cursors.place(numbers[0]), cursors.place(numbers[2])] == [b"place 0", b"place 2"]
    with pytest.raises(InvalidRequest):
        cursors.place(numbers[1])
    assert cursors.place(0) is None


def test_two_places_never_share_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CURSOR_BYTES", 1)
    cursors = Cursors()
    numbers = {cursors.number(b"place %d" % i): b"place %d" % i for i in range(300)}
    assert len(numbers) == 300
    assert all(cursors.place(number) == place for number, place in numbers.items())


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        (b"*", [b"", b"a", b"a\nb"], []),
        (b"h?llo", [b"hello", b"h\nllo"], [b"hllo", b"heello"]),
        (b"h[ae]llo", [b"hello", b"hallo"], [b"hillo"]),
        (b"h[^e]llo", [b"hallo"], [b"hello", b"hllo"]),
        (b"h[a-c]llo", [b"hbllo"], [b"hdllo"]),
        (b"h[c-a]llo", [b"hbllo"], [b"hdllo"]),
        (b"[a-]", [b"a", b"-"], [b"b"]),
        (b"[\\]x]", [b"]", b"x"], [b"\\"]),
        (b"[]", [], [b"", b"a", b"[]"]),
        (b"[^]", [b"a"], [b""]),
        (b"a\\*b", [b"a*b"], [b"axb"]),
        (b"a[b", [b"a[b"], [b"ab"]),
        (b"a\\", [b"a\\"], [b"a"]),
        (b"a.b", [b"a.b"], [b"axb"]),
        (b"*ab*ab", [b"abab", b"xabyabab"], [b"ab", b"abac"]),
        (b"user:*:name", [b"user::name", b"user:1:name"], [b"user:name", b"user:1:names"]),
    ],
)
def test_patterns(glob: bytes, yes: list[bytes], no: list[bytes]) -> None:
    pattern = Pattern(glob)
    assert [pattern.matches(key) for key in yes + no] == [True] * len(yes) + [False] * len(no)
    assert all(key.startswith(pattern.prefix) for key in yes)


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="ab", max_size=8))
def test_patterns_agree_with_the_standard_library(glob: str, key: str) -> None:
    matches = Pattern(glob.encode()).matches(key.encode())
    assert matches == fnmatch.fnmatchcase(key, glob)
    assert not matches or key.startswith(Pattern(glob.encode()).prefix.decode())


def test_no_pattern_takes_for_ever() -> None:
    """Each further star would multiply the time by the length of the key, if stars gave back what they took."""
    assert not Pattern(b"*a" * 60 + b"b").matches(b"a" * 1024)


def test_keys_are_listed_by_a_pattern_unless_there_are_too_many() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= {b"user/%05d" % i: proposal(b"v") for i in range(MAX_LISTED)}
            at.node.held |= {b"a/1": proposal(b"v"), b"a/2": proposal(b"v"), b"a/3": proposal(None)}
            client = await at.connect()
            await client.says("KEYS a/*", b"*2\r\n$3\r\na/1\r\n$3\r\na/2\r\n")
            await client.says("KEYS user/0000[17]", b"*2\r\n$10\r\nuser/00001\r\n$10\r\nuser/00007\r\n")
            client.send("KEYS *")
            assert (await client.line()).startswith("-ERR KEYS is refused: more than 10000 keys")

    run(story)
