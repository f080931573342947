"""Answers kept for ever, as long as there is room."""

from epoxy.transport.http.response_cache import ANSWER_BYTES, ENTRY_BYTES, ReadyAnswers


def room_for(entries: int) -> ReadyAnswers:
    """In each generation, for questions and answers of one byte."""
    return ReadyAnswers(entries * (ENTRY_BYTES + 2))


def test_what_is_kept_is_found() -> None:
    ready = ReadyAnswers()
    assert ready.find(b"q") is None
    ready.keep(b"q", b"a")
    assert ready.find(b"q") == b"a"
    assert len(ready) == 1


def test_what_nobody_asks_for_is_forgotten_and_what_is_asked_for_stays() -> None:
    ready = room_for(2)
    ready.keep(b"w", b"1")
    ready.keep(b"u", b"2")
    for question in (b"a", b"b", b"c", b"d", b"e", b"f"):
        ready.keep(question, b"x")
        assert ready.find(b"w") == b"1"
    assert ready.find(b"u") is None


def test_there_is_never_more_than_two_generations() -> None:
    ready = room_for(8)
    for number in range(100):
        ready.keep(bytes([number]), b"x")
        assert len(ready) <= 16
        assert len(ready.young) <= 8


def test_long_answers_take_more_room() -> None:
    ready = ReadyAnswers(4 * (ENTRY_BYTES + 1 + ANSWER_BYTES))
    for number in range(20):
        ready.keep(bytes([number]), bytes(ANSWER_BYTES))
        assert len(ready.young) <= 4
    assert len(ready) == 8


def test_a_long_answer_is_not_kept() -> None:
    ready = ReadyAnswers()
    ready.keep(b"q", bytes(ANSWER_BYTES + 1))
    assert ready.find(b"q") is None
    ready.keep(b"q", bytes(ANSWER_BYTES))
    assert ready.find(b"q") == bytes(ANSWER_BYTES)


def test_kept_twice_is_counted_once() -> None:
    ready = room_for(2)
    for _ in range(10):
        ready.keep(b"q", b"a")
    ready.keep(b"r", b"b")
    assert set(ready.young) == {b"q", b"r"}


def test_what_is_dropped_is_gone_from_both_generations_and_its_room_is_free() -> None:
    ready = room_for(2)
    ready.keep(b"q", b"a")
    ready.keep(b"r", b"b")
    ready.keep(b"s", b"c")
    ready.find(b"q")
    ready.drop(b"q")
    assert ready.find(b"q") is None
    ready.keep(b"t", b"d")
    assert set(ready.young) == {b"s", b"t"}
    ready.drop(b"never there")
    assert len(ready) == 3


def test_cleared_is_empty_and_can_be_filled_again() -> None:
    ready = room_for(2)
    for question in (b"q", b"r", b"s"):
        ready.keep(question, b"a")
    ready.clear()
    assert [ready.find(question) for question in (b"q", b"r", b"s")] == [None] * 3
    ready.keep(b"q", b"b")
    assert ready.find(b"q") == b"b"
