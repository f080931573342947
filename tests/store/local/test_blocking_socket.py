import socket
from threading import Thread

import pytest
from msgspec import Raw, msgpack

from epoxy.model.errors import StoreUnavailable
from epoxy.store.local import blocking_socket
from epoxy.store.local.blocking_socket import BlockingSocket
from epoxy.store.local.database_messages import DatabaseAnswer, PositionAsk, framed


def answer(number: int, value: object, failure: str = "") -> bytes:
    return framed(DatabaseAnswer(number, Raw(msgpack.encode(value)), failure))


def test_an_answer_that_came_too_late_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    waiting = BlockingSocket(theirs)
    with ours, monkeypatch.context() as patch:
        patch.setattr(blocking_socket, "READ_S", 0.01)
        late = answer(1, "late")
        ours.sendall(late[:5])
        with pytest.raises(StoreUnavailable, match="timed out"):
            waiting.ask(PositionAsk(1))
        patch.undo()
        ours.sendall(late[5:] + answer(2, "now"))
        assert msgpack.decode(waiting.ask(PositionAsk(2))) == "now"
    waiting.close()


def test_what_could_not_be_read_is_said() -> None:
    ours, theirs = socket.socketpair()
    waiting = BlockingSocket(theirs)
    with ours:
        ours.sendall(answer(1, None, "a rotten row"))
        with pytest.raises(StoreUnavailable, match="a rotten row"):
            waiting.ask(PositionAsk(1))
    waiting.close()


def test_threads_ask_one_after_the_other() -> None:
    ours, theirs = socket.socketpair()
    waiting = BlockingSocket(theirs)
    found: list[object] = []
    threads = [Thread(target=lambda n=n: found.append(msgpack.decode(waiting.ask(PositionAsk(n))))) for n in (1, 2, 3)]
    with ours:
        for thread in threads:
            thread.start()
        for _ in threads:
            question = msgpack.decode(ours.recv(1000)[4:])
            ours.sendall(answer(question[1], question[1]))
        for thread in threads:
            thread.join(60)
    assert sorted(found, key=repr) == [1, 2, 3]
    waiting.close()
