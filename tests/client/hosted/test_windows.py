"""Windows of streams: a sender stops when its credit is used up, and credit goes back with what was used."""

from epoxy.client.hosted.windows import BodyBuffer, SendWindow
from epoxy.model.exchanges import WINDOW_BYTES, Piece, cost


def piece(body: bytes) -> Piece:
    return Piece(stream=1, body=body)


def test_a_sender_without_credit_waits_and_its_last_piece_may_exceed_it() -> None:
    sent: list[Piece] = []
    changes: list[int] = []
    window = SendWindow(sent.append, lambda: changes.append(1))
    whole = piece(bytes(WINDOW_BYTES + 1))
    window.push(whole)
    window.push(piece(b"a"))
    window.push(piece(b"b"))
    assert (sent, window.unsent_bytes) == ([whole], 2)
    window.grant(cost(whole.body) - WINDOW_BYTES)
    assert len(sent) == 1
    window.grant(1)
    assert (sent[1:], window.unsent_bytes) == ([piece(b"a")], 1)
    ends: list[int] = []
    window.finish(lambda: ends.append(1))
    assert ends == []
    window.grant(WINDOW_BYTES)
    assert (sent[2:], ends, window.unsent_bytes) == ([piece(b"b")], [1], 0)
    assert len(changes) > 3
    window.grant(-WINDOW_BYTES)
    window.push(piece(b"c"))
    window.finish(lambda: ends.append(2))
    window.drop()
    window.grant(WINDOW_BYTES)
    assert (len(sent), ends, window.unsent_bytes) == (3, [1], 0)


def test_credit_goes_back_with_what_is_taken() -> None:
    given: list[int] = []
    body = BodyBuffer(given.append, lambda: None, gather=False)
    body.begin(b"head", fin=False)
    body.push(b"more", fin=False)
    assert (body.take(), given) == (b"head", []), "it came with the head, and took nothing"
    assert (body.take(), given, body.unread_bytes) == (b"more", [cost(b"more")], 0)
    assert body.take() is None
    body.push(b"last", fin=True)
    assert (body.take(), len(given), body.has_ended) == (b"last", 1, True)


def test_a_body_that_is_gathered_has_credit_before_it_is_taken_but_not_for_its_first_half_window() -> None:
    """Until then the request can be refused, and its node gives it again."""
    given: list[int] = []
    body = BodyBuffer(given.append, lambda: None, gather=True)
    part = bytes(WINDOW_BYTES // 4)
    body.push(part, fin=False)
    assert given == []
    body.push(part, fin=False)
    assert given == [2 * cost(part)]
    body.push(part, fin=False)
    body.push(part, fin=True)
    assert len(given) == 1
    assert b"".join(iter(body.take, None)) == 4 * part
    assert len(given) == 1
