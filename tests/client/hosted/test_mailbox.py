"""What waits for an actor's turn, and how much of it."""

import pytest

from epoxy.client.hosted import mailbox as module
from epoxy.client.hosted.mailbox import MAX_QUEUED, Mail, Mailbox, MailKind
from epoxy.client.hosted.requests import Request


def asked(number: int, size: int = 0) -> Mail:
    return Mail(MailKind.REQUEST, request=Request(number, b"", lambda *_: None), size=size)


def test_first_come_first_served_and_a_bound_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNREAD_MESSAGES", 2)
    mailbox = Mailbox()
    for number in range(MAX_QUEUED):
        assert not mailbox.is_full
        mailbox.put(asked(number))
    assert (mailbox.is_full, mailbox.overflows) == (True, False)
    mailbox.put(Mail(MailKind.MESSAGE))
    mailbox.put(Mail(MailKind.MESSAGE))
    assert mailbox.overflows
    mailbox.remove({0, 2})
    assert (len(mailbox), mailbox.is_full) == (MAX_QUEUED, False)
    taken = [mailbox.take() for _ in range(2)]
    assert [each.request.number for each in taken if each and each.request] == [1, 3]
    assert mailbox.has(MailKind.MESSAGE)
    assert not mailbox.has(MailKind.ALARM)


def test_bytes_are_bounded_whatever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNREAD_BYTES", 10)
    mailbox = Mailbox()
    mailbox.put(asked(1, size=11))
    assert (mailbox.is_full, mailbox.overflows) == (True, True)
    mailbox.take()
    assert (mailbox.is_full, mailbox.overflows, mailbox.take()) == (False, False, None)
