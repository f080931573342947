"""WebSockets of an actor: accepted, refused, slow, closed by either end, and held across a sleep."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.client.hosted import Actor, Socket, activation, mailbox
from epoxy.client.hosted.sockets import MAX_UNSENT_BYTES
from epoxy.model.errors import InvalidRequest
from epoxy.model.exchanges import (
    MAX_PIECE_BYTES,
    WINDOW_BYTES,
    Credit,
    Head,
    HeldSocket,
    Piece,
    RequestHead,
    Reset,
    cost,
)
from tests.client.hosted.bench import START, Stage, play


class Room(Actor):
    """Does what its messages say, and notes what happens."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_connect(self, socket: Socket) -> None:
        self.seen.append(f"connect {socket.id}")
        match socket.path:
            case "/no":
                socket.close(4003, "not you")
            case "/fail":
                raise ValueError
            case "/second":
                socket.protocol = "two"
            case "/slow":
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            case _:
                pass
        socket.send(f"hello {socket.id}")

    async def on_message(self, socket: Socket, message: str | bytes) -> None:
        self.seen.append(f"{socket.id}: {message!r}")
        match message:
            case "all":
                self.state["n"] = self.state.get("n", 0) + 1
                for each in self.sockets.values():
                    each.send(f"n is {self.state['n']}")
            case "spoil":
                self.state["n"] = -1
                socket.send("never")
                socket.close()
                raise ValueError
            case "bye":
                socket.send("last words")
                socket.close(1000, "bye")
                socket.send("too late")
            case "flood":
                for _ in range(6):  # One is within the window.
                    socket.send(bytes(MAX_PIECE_BYTES))
            case _:
                pass

    async def on_disconnect(self, socket: Socket) -> None:
        self.seen.append(f"disconnect {socket.id}")


def seen(stage: Stage) -> list[str]:
    assert isinstance(stage.task.actor, Room)
    return getattr(stage.task.actor, "seen", [])


def connect(stage: Stage, stream: int, path: str = "/", **head: Any) -> None:
    stage.open(stream, upgrade=True, path=path, **head)


def say(stage: Stage, stream: int, message: str) -> None:
    stage.hear(Piece(stream=stream, body=message.encode(), text=True))


def texts(stage: Stage, stream: int) -> list[str]:
    return [each.body.decode() for each in stage.link.of(Piece) if each.stream == stream and each.text]


def test_messages_go_to_all_when_the_state_is_saved() -> None:
    async def story() -> None:
        stage = Stage(Room)
        connect(stage, 1, protocols=("one", "two"))
        connect(stage, 2, "/second", protocols=("one", "two"))
        say(stage, 1, "all")
        await stage.until(lambda: stage.saves)
        await stage.quiet()
        assert [(each.status, each.protocol) for each in stage.link.of(Head)] == [(101, "one"), (101, "two")]
        assert (texts(stage, 1), texts(stage, 2)) == (["hello 1"], ["hello 2"])
        assert stage.link.of(Credit) == [Credit(stream=1, amount=cost(b"all"))]
        stage.saved()
        assert (texts(stage, 1)[1:], texts(stage, 2)[1:]) == (["n is 1"], ["n is 1"])

    play(story)


def test_what_a_failed_turn_sent_and_closed_is_not() -> None:
    async def story() -> None:
        stage = Stage(Room, saving=True)
        connect(stage, 1)
        say(stage, 1, "spoil")
        say(stage, 1, "all")
        await stage.until(lambda: len(texts(stage, 1)) == 2)
        assert (texts(stage, 1), stage.link.of(Reset)) == (["hello 1", "n is 1"], [])
        assert stage.task.actor.sockets["1"].unsent_bytes == 0

    play(story)


def test_on_connect_may_refuse_and_may_fail() -> None:
    async def story() -> None:
        stage = Stage(Room)
        connect(stage, 1, "/no")
        connect(stage, 2, "/fail")
        await stage.until(lambda: len(stage.link.of(Reset)) == 2)
        refused, failed = stage.link.of(Reset)
        assert (refused.code, refused.reason, failed.code) == (4003, "not you", 1011)
        assert [each.stream for each in stage.link.of(Head)] == [1], "a code is seen after a handshake"
        await stage.quiet()
        assert seen(stage) == ["connect 1", "connect 2"]
        assert (stage.link.streams, dict(stage.task.actor.sockets)) == (set(), {})

    play(story)


def test_each_end_may_close_and_on_disconnect_comes_once() -> None:
    async def story() -> None:
        stage = Stage(Room)
        for stream in (1, 2, 3):
            connect(stage, stream)
        say(stage, 1, "bye")
        say(stage, 1, "all")
        say(stage, 2, "last")
        await stage.until(lambda: stage.link.of(Reset))
        stage.hear(Reset(stream=2, code=1001))
        stage.hear(Reset(stream=2, code=1001))
        await stage.quiet(40)
        assert seen(stage)[3:] == ["1: 'bye'", "2: 'last'", "disconnect 1", "disconnect 2"]
        assert texts(stage, 1) == ["hello 1", "last words"]
        assert stage.link.of(Reset) == [Reset(stream=1, reason="bye", code=1000)]
        stage.task.lost()
        await stage.quiet()
        assert seen(stage)[-1] == "disconnect 3"

    play(story)


def test_a_client_that_left_during_on_connect_is_told_of() -> None:
    async def story() -> None:
        stage = Stage(Room)
        connect(stage, 1, "/slow")
        await stage.until(lambda: seen(stage))
        stage.hear(Reset(stream=1))
        connect(stage, 2)
        stage.hear(Reset(stream=2))
        await stage.until(lambda: "disconnect 1" in seen(stage))
        await stage.quiet()
        assert seen(stage) == ["connect 1", "disconnect 1"], "the second left before anything saw it"

    play(story)


def test_a_close_goes_behind_what_a_slow_client_has_not_read() -> None:
    async def story() -> None:
        stage = Stage(Room)
        connect(stage, 1)
        await stage.until(lambda: texts(stage, 1))
        socket = stage.task.actor.sockets["1"]
        socket.send(bytes(WINDOW_BYTES))
        socket.send("after")
        socket.close(1000)
        assert (len(texts(stage, 1)), stage.link.of(Reset)) == (1, [])
        stage.hear(Credit(stream=1, amount=2 * WINDOW_BYTES))
        assert texts(stage, 1)[-1] == "after"
        assert len(stage.link.of(Reset)) == 1

    play(story)


def test_a_client_that_does_not_read_is_cut_off_and_others_can_wait_for_theirs() -> None:
    async def story() -> None:
        stage = Stage(Room)
        connect(stage, 1)
        connect(stage, 2)
        say(stage, 1, "flood")
        await stage.until(lambda: stage.link.of(Reset))
        assert [(each.stream, each.code) for each in stage.link.of(Reset)] == [(1, 1013)]
        assert MAX_UNSENT_BYTES == 4 * MAX_PIECE_BYTES
        await stage.until(lambda: "disconnect 1" in seen(stage))
        socket = stage.task.actor.sockets["2"]
        await socket.drained()
        for _ in range(3):
            socket.send(bytes(WINDOW_BYTES))
        waiting = asyncio.create_task(socket.drained())
        await stage.quiet()
        assert not waiting.done()
        stage.hear(Credit(stream=2, amount=3 * WINDOW_BYTES))
        await waiting
        for _ in range(3):
            socket.send(bytes(WINDOW_BYTES))
        waiting = asyncio.create_task(socket.drained())
        await stage.quiet()
        stage.hear(Reset(stream=2))
        await waiting

    play(story)


def test_too_many_sockets_and_too_much_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "MAX_SOCKETS", 2)
    monkeypatch.setattr(mailbox, "MAX_UNREAD_MESSAGES", 3)

    async def story() -> None:
        stage = Stage(Room)
        for stream in (1, 2, 3):
            connect(stage, stream)
        assert [(each.stream, each.code) for each in stage.link.of(Reset)] == [(3, 1013)]
        await stage.until(lambda: len(texts(stage, 2)) == 1)
        for _ in range(4):
            say(stage, 1, "x")
        assert [(each.stream, each.code) for each in stage.link.of(Reset)][1:] == [(1, 1013)]
        await stage.quiet(40)
        stage.hear(Piece(stream=2, body=b"\xff", text=True))
        assert stage.link.of(Reset)[-1].code == 1007

    play(story)


def test_what_cannot_be_sent_says_so() -> None:
    async def story() -> None:
        stage = Stage(Room)
        connect(stage, 1, query="a=1", headers=(("X", "y"),), caller="me")
        await stage.until(lambda: texts(stage, 1))
        socket = stage.task.actor.sockets["1"]
        assert (socket.query, socket.headers["x"], socket.caller, socket.protocols) == ("a=1", "y", "me", ())
        assert repr(socket) == "<Socket 1 />"
        with pytest.raises(TypeError, match="str or bytes, not dict"):
            socket.send({})  # type: ignore[arg-type]
        for bad in ("\ud800", bytes(MAX_PIECE_BYTES + 1)):
            with pytest.raises(InvalidRequest):
                socket.send(bad)
        for code in (999, 1001, 2999, 5000):
            with pytest.raises(InvalidRequest, match=f"not {code}"):
                socket.close(code)
        with pytest.raises(InvalidRequest, match="123 bytes"):
            socket.close(1000, "x" * 124)
        with pytest.raises(InvalidRequest, match="on_connect may choose"):
            socket.protocol = "x"
        with pytest.raises(TypeError, match="bytes, not str"):
            socket.attachment = "x"  # type: ignore[assignment]
        with pytest.raises(InvalidRequest, match="2,048"):
            socket.attachment = bytes(2049)

    play(story)


def test_sockets_are_held_across_a_sleep() -> None:
    async def story() -> None:
        stage = Stage(Room)
        connect(stage, 1, query="q")
        await stage.until(lambda: texts(stage, 1))
        stage.task.actor.sockets["1"].attachment = b"ann"
        stage.task.actor.sleep()
        await stage.until(lambda: stage.ends)
        (held,) = stage.ends[0].sockets
        head = RequestHead(path="/", query="q", upgrade=True)
        assert (stage.ends[0].asleep, held) == (True, HeldSocket(stream=1, head=head, attachment=b"ann"))
        assert stage.link.of(Reset) == []
        woken = Stage(Room, replace(START, sockets=(held,)), saving=True)
        say(woken, 1, "all")
        await woken.until(lambda: texts(woken, 1))
        assert (seen(woken), texts(woken, 1)) == (["1: 'all'"], ["n is 1"])
        assert woken.task.actor.sockets["1"].attachment == b"ann"
        woken.hear(Reset(stream=1))
        await woken.until(lambda: seen(woken)[-1] == "disconnect 1")

    play(story)


def test_a_message_that_came_too_late_is_left_to_its_node() -> None:
    """It has no credit for it, so it gives it to the next activation."""

    class Sleepy(Room):
        async def on_stop(self) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.seen.append("stopped")

    async def story() -> None:
        stage = Stage(Sleepy)
        connect(stage, 1)
        connect(stage, 2)
        await stage.until(lambda: texts(stage, 2))
        stage.task.actor.sleep()
        await stage.turn()
        await stage.turn()
        say(stage, 1, "late")
        connect(stage, 3)
        stage.ask(4)
        stage.hear(Reset(stream=2))
        await stage.until(lambda: stage.ends)
        assert seen(stage)[2:] == ["stopped", "disconnect 2"]
        assert stage.link.of(Credit) == []
        assert [(each.stream, each.refused) for each in stage.link.of(Reset)] == [(3, True)]
        assert [(each.request_id, each.refused) for each in stage.responses] == [(4, True)]
        assert [each.stream for each in stage.ends[0].sockets] == [1]

    play(story)


def test_actors_without_code_for_sockets_have_none() -> None:
    class Plain(Actor): ...

    async def story() -> None:
        stage = Stage(Plain)
        connect(stage, 1)
        assert "no on_connect" in stage.link.of(Reset)[0].reason
        stage.ask(2)
        await stage.until(lambda: stage.responses)
        assert stage.responses[0].status == 404

    play(story)
