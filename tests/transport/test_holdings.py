"""What all clients together may make a node hold."""

import pytest

from epoxy.transport.holdings import FREE_BYTES, MORE_BYTES, STALL_S, Holdings

UNIT = FREE_BYTES + 1


class Client:
    def __init__(self) -> None:
        self.aborted = 0

    def abort(self) -> None:
        self.aborted += 1


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_little_is_not_counted() -> None:
    holdings, client = Holdings(UNIT), Client()
    assert not holdings.note(client, FREE_BYTES)
    assert holdings.bytes == 0
    assert holdings.note(client, UNIT)
    assert holdings.bytes == UNIT
    assert holdings.is_full
    assert not holdings.note(client, 1)
    assert holdings.bytes == 0
    assert not holdings.is_full


def test_the_connection_without_progress_for_longest_is_aborted() -> None:
    clock = Clock()
    holdings, clients = Holdings(3 * UNIT, clock), [Client() for _ in range(4)]
    for client in clients[:3]:
        holdings.note(client, UNIT)
    clock.now_s += STALL_S
    holdings.forget(clients[0])  # It has read something.
    holdings.note(clients[0], UNIT)
    holdings.note(clients[3], UNIT)
    assert [client.aborted for client in clients] == [0, 1, 0, 0]
    assert holdings.aborted == 1
    holdings.note(clients[3], UNIT + 1)
    holdings.note(clients[1], 5 * UNIT)
    assert [client.aborted for client in clients] == [0, 1, 1, 0], "what is not free yet is counted, and aborted once"
    for client in clients:
        holdings.forget(client)
        holdings.forget(client)
    assert holdings.bytes == 0


def test_a_crowd_that_comes_at_once_does_not_get_a_second() -> None:
    holdings, clients = Holdings(8 << 20, Clock()), [Client() for _ in range(100)]
    for client in clients:
        holdings.note(client, 1 << 20)
        assert holdings.bytes - holdings._ending_bytes <= holdings.limit + MORE_BYTES
    assert [client.aborted for client in clients] == [1] * 84 + [0] * 16
    for client in clients:
        holdings.forget(client)
    alone = Client()
    holdings.note(alone, 100 << 20)
    assert not alone.aborted


def test_growing_is_no_progress_and_one_alone_may_be_too_much() -> None:
    clock = Clock()
    holdings, first, second = Holdings(3 * UNIT, clock), Client(), Client()
    holdings.note(first, UNIT)
    holdings.note(second, UNIT)
    holdings.note(first, 2 * UNIT)
    assert holdings.bytes == 3 * UNIT
    clock.now_s += STALL_S
    holdings.note(second, 4 * UNIT)
    assert (first.aborted, second.aborted) == (1, 1)


def test_a_client_that_may_still_read_is_not_aborted() -> None:
    clock = Clock()
    holdings, first, second = Holdings(UNIT, clock), Client(), Client()
    holdings.note(first, UNIT)
    clock.now_s += STALL_S / 2
    holdings.note(second, UNIT)
    assert (first.aborted, second.aborted) == (0, 0)
    assert holdings.is_full
    clock.now_s += STALL_S / 2
    holdings.note(second, UNIT + 1)
    assert (first.aborted, second.aborted) == (1, 0)


@pytest.mark.pure("plants a fault in the module")
def test_a_planted_fault_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the total, four connections hold what they like."""
    monkeypatch.setattr(Holdings, "_abort_stalled", lambda *_: None)
    with pytest.raises(AssertionError):
        test_the_connection_without_progress_for_longest_is_aborted()
