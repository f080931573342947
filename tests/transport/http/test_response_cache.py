"""Answers kept for ever, as long as there is room."""

from epoxy.transport.http.response_cache import ANSWER_BYTES, ENTRY_BYTES, ResponseCache


def room_for(entries: int) -> ResponseCache:
    """In each generation, for questions and answers of one byte."""
    return ResponseCache(entries * (ENTRY_BYTES + 2))


def test_what_is_kept_is_found() -> None:
    cache = ResponseCache()
    assert cache.find(b"q") is None
    cache.keep(b"q", b"a")
    assert cache.find(b"q") == b"a"
    assert len(cache) == 1


def test_what_nobody_asks_for_is_forgotten_and_what_is_asked_for_stays() -> None:
    cache = room_for(2)
    cache.keep(b"w", b"1")
    cache.keep(b"u", b"2")
    for question in (b"a", b"b", b"c", b"d", b"e", b"f"):
        cache.keep(question, b"x")
        assert cache.find(b"w") == b"1"
    assert cache.find(b"u") is None


def test_there_is_never_more_than_two_generations() -> None:
    cache = room_for(8)
    for number in range(100):
        cache.keep(bytes([number]), b"x")
        assert len(cache) <= 16
        assert len(cache.young) <= 8


def test_long_answers_take_more_room() -> None:
    cache = ResponseCache(4 * (ENTRY_BYTES + 1 + ANSWER_BYTES))
    for number in range(20):
        cache.keep(bytes([number]), bytes(ANSWER_BYTES))
        assert len(cache.young) <= 4
    assert len(cache) == 8


def test_a_long_answer_is_not_kept() -> None:
    cache = ResponseCache()
    cache.keep(b"q", bytes(ANSWER_BYTES + 1))
    assert cache.find(b"q") is None
    cache.keep(b"q", bytes(ANSWER_BYTES))
    assert cache.find(b"q") == bytes(ANSWER_BYTES)


def test_kept_twice_is_counted_once() -> None:
    cache = room_for(2)
    for _ in range(10):
        cache.keep(b"q", b"a")
    cache.keep(b"r", b"b")
    assert set(cache.young) == {b"q", b"r"}


def test_what_is_dropped_is_gone_from_both_generations_and_its_room_is_free() -> None:
    cache = room_for(2)
    cache.keep(b"q", b"a")
    cache.keep(b"r", b"b")
    cache.keep(b"s", b"c")
    cache.find(b"q")
    cache.drop(b"q")
    assert cache.find(b"q") is None
    cache.keep(b"t", b"d")
    assert set(cache.young) == {b"s", b"t"}
    cache.drop(b"never there")
    assert len(cache) == 3


def test_cleared_is_empty_and_can_be_filled_again() -> None:
    cache = room_for(2)
    for question in (b"q", b"r", b"s"):
        cache.keep(question, b"a")
    cache.clear()
    assert [cache.find(question) for question in (b"q", b"r", b"s")] == [None] * 3
    cache.keep(b"q", b"b")
    assert cache.find(b"q") == b"b"
