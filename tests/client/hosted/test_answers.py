"""Answers that are kept for requests that are asked again."""

from epoxy.client.hosted.answers import KEPT_MS, MAX_KEPT, MAX_KEPT_BYTES, KeptAnswers
from epoxy.codec.actor_documents import KeptAnswer


def answer(key: str, at_ms: int = 0, body: bytes = b"so") -> KeptAnswer:
    return KeptAnswer(key=key, at_ms=at_ms, body=body)


def test_the_last_ones_are_kept_for_an_hour() -> None:
    answers = KeptAnswers(())
    for number in range(MAX_KEPT + 1):
        answers.keep(answer(str(number)))
    assert answers.get("0", 0) is None
    assert answers.get("1", KEPT_MS - 1) == answer("1")
    assert answers.get("1", KEPT_MS) is None
    assert len(answers.encoded()) == MAX_KEPT
    answers.keep(answer("new", KEPT_MS))
    assert answers.encoded() == (answer("new", KEPT_MS),), "the others are over"
    assert answers.bytes == KeptAnswers(answers.encoded()).bytes


def test_of_a_large_answer_only_that_it_was_given() -> None:
    answers = KeptAnswers(())
    answers.keep(answer("fits", body=bytes(MAX_KEPT_BYTES)))
    answers.keep(answer("large", body=bytes(MAX_KEPT_BYTES + 1)))
    assert answers.get("fits", 0) == answer("fits", body=bytes(MAX_KEPT_BYTES))
    assert answers.get("large", 0) == KeptAnswer(key="large", at_ms=0, too_large=True)


def test_an_undo_forgets_those_since_the_last_point() -> None:
    answers = KeptAnswers((answer("old"),))
    assert not answers.point()
    answers.keep(answer("a"))
    assert (answers.point(), answers.point()) == (True, False)
    before = answers.bytes
    answers.keep(answer("old", body=b"other"))
    answers.keep(answer("b"))
    answers.undo()
    assert (answers.encoded(), answers.bytes) == ((answer("old"), answer("a")), before)
    answers.undo()
    assert not answers.point()
