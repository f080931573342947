"""Alarms, sleep, calls and the end of an actor."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.client.hosted import Actor, Ending, Request, Socket, activation
from epoxy.client.hosted.activation import ENDING_MS, SOCKET_BYTES, SOON_MS
from epoxy.client.hosted.calls import MAX_CALLS
from epoxy.model.envoy_messages import AlarmDue, AskAnswer
from epoxy.model.errors import ConnectionLost, InvalidRequest, Timeout, Unavailable
from epoxy.model.exchanges import MAX_CHAIN
from tests.client.hosted.bench import START, Stage, play, restarted


class Does(Actor):
    """What it is asked."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def on_request(self, request: Request) -> Any:
        match request.text:
            case "alarm":
                self.alarm(5.0)
            case "sleep":
                self.sleep()
            case "destroy":
                self.destroy()
            case "destroy and fail":
                self.destroy()
                raise ValueError
            case "call":
                self.state["n"] = 1
                answer = await self.call("other", "y", {"a": 1}, path="/p?q", timeout=2.0, idempotency_key="k")
                return f"{answer.status} {answer.text}"
            case "call and fail":
                self.state["n"] = 1
                await self.call("other", "y")
                self.state["n"] = 2
                raise ValueError
            case "tell":
                self.state["n"] = 1
                self.tell("other", "y", b"psst", namespace="m", pool="p")
            case _:
                self.state["n"] = self.state.get("n", 0) + 1
        return str(self.state.get("n", ""))

    async def on_alarm(self) -> None:
        self.notes.append("alarm")
        if self.key == "fails":
            raise ValueError
        self.state["rang"] = True

    async def on_stop(self) -> None:
        self.notes.append("stop")


def notes(stage: Stage) -> list[str]:
    return getattr(stage.task.actor, "notes", [])


def due(stage: Stage, at_ms: int) -> None:
    stage.hear(AlarmDue(actor_id="01aa", generation=7, at_ms=at_ms))


def test_an_alarm_is_saved_rings_once_and_is_cleared_by_the_save_of_its_turn() -> None:
    async def story() -> None:
        stage = Stage(Does, saving=True)
        stage.ask(1, b"alarm")
        await stage.until(lambda: stage.responses)
        assert (stage.saves[-1].alarm_ms, stage.task.actor.alarm_at) == (5_000, 5.0)
        due(stage, 4_000)
        due(stage, 5_000)
        due(stage, 5_000)
        await stage.until(lambda: len(stage.saves) == 2)
        await stage.quiet()
        due(stage, 5_000)
        await stage.quiet()
        assert (notes(stage), stage.saves[-1].alarm_ms, stage.task.actor.alarm_at) == (["alarm"], 0, None)

    play(story)


def test_an_alarm_whose_turn_fails_stays_and_ends_the_actor() -> None:
    async def story() -> None:
        stage = Stage(Does, replace(START, key="fails", alarm_ms=5_000))
        due(stage, 5_000)
        await stage.until(lambda: stage.ends)
        assert (stage.ends, stage.saves, notes(stage)) == ([Ending(failed=True)], [], ["alarm"])

    play(story)


def test_times_of_alarms() -> None:
    async def story() -> None:
        actor = Stage(Does).task.actor
        actor.alarm(datetime(2026, 1, 1, tzinfo=UTC))
        assert actor.alarm_at == 1767225600.0
        actor.alarm(0.0)
        assert actor.alarm_at == 0.001, "at once"
        actor.alarm(None)
        assert actor.alarm_at is None
        with pytest.raises(InvalidRequest, match="time zone"):
            actor.alarm(datetime(2026, 1, 1))
        for never in (1e16, float("inf"), float("nan")):
            with pytest.raises(InvalidRequest, match="unix time in seconds"):
                actor.alarm(never)
        actor.alarm(float("-inf"))
        assert actor.alarm_at == 0.001, "at once"

        async def function(actor: Actor) -> None:
            actor.alarm(1.0)

        stage = Stage(function)
        await stage.until(lambda: stage.ends)
        assert stage.ends[0].failed, "alarms need a class"

    play(story)


def test_an_idle_actor_sleeps_when_all_is_saved() -> None:
    async def story() -> None:
        stage = Stage(Does, sleep_after=10.0)
        stage.ask(1, b"add")
        await stage.until(lambda: stage.saves)
        await stage.quiet()
        stage.link.clock.advance(10_000)
        await stage.quiet()
        assert stage.ends == [], "a save is under way"
        stage.saved()
        stage.link.clock.advance(9_999)
        stage.ask(2, b"add")
        await stage.quiet()
        stage.saved()
        stage.link.clock.advance(9_999)
        await stage.quiet()
        assert stage.ends == [], "it was asked meanwhile"
        stage.link.clock.advance(1)
        await stage.until(lambda: stage.ends)
        assert (stage.ends, notes(stage)) == ([Ending(asleep=True)], ["stop"])
        woken = Stage(Does, restarted(stage), saving=True)
        woken.ask(1, b"add")
        await woken.until(lambda: woken.responses)
        assert woken.bodies() == [b"3"]

    play(story)


def test_sleep_at_once_waits_for_what_is_under_way() -> None:
    async def story() -> None:
        stage = Stage(Does)
        stage.ask(1, b"add")
        stage.ask(2, b"sleep")
        stage.ask(3, b"add")
        await stage.until(lambda: stage.saves)
        await stage.quiet(40)
        stage.saved()
        stage.link.clock.advance(SOON_MS)
        assert stage.ends == []
        stage.saved()
        stage.link.clock.advance(SOON_MS)
        await stage.until(lambda: stage.ends)
        assert (stage.ends[0].asleep, len(stage.responses)) == (True, 3)

    play(story)


def test_a_clean_up_that_does_not_end_is_interrupted() -> None:
    class Stuck(Actor):
        async def on_stop(self) -> None:
            await asyncio.Event().wait()

    async def story() -> None:
        stage = Stage(Stuck)
        stage.task.actor.sleep()
        await stage.quiet()
        stage.link.clock.advance(ENDING_MS - 1)
        assert stage.link.interrupted == 0
        stage.link.clock.advance(1)
        await stage.until(lambda: stage.ends)
        assert (stage.link.interrupted, stage.ends) == (1, [Ending(failed=True)])

    play(story)


def test_an_actor_that_destroys_itself_ends_for_ever_unless_that_turn_fails() -> None:
    async def story() -> None:
        stage = Stage(Does)
        stage.ask(1, b"destroy and fail")
        await stage.until(lambda: stage.responses)
        await stage.quiet()
        assert (stage.ends, stage.task.stopping.is_set()) == ([], False)
        stage.ask(2, b"destroy")
        await stage.until(lambda: stage.ends)
        assert (stage.ends, notes(stage)) == ([Ending(destroyed=True)], ["stop"])
        assert [each.request_id for each in stage.responses] == [1, 2]

    play(story)


def test_a_call_leaves_when_what_was_changed_before_it_is_saved() -> None:
    async def story() -> None:
        stage = Stage(Does)
        stage.ask(1, b"call", chain=("02bb",))
        await stage.until(lambda: stage.saves)
        await stage.quiet()
        assert stage.asks == []
        stage.saved()
        (ask,) = stage.asks
        assert (ask.name.namespace, ask.name.name, ask.name.key, ask.body) == ("n", "other", "y", b'{"a":1}')
        assert (ask.head.path, ask.head.query, ask.head.chain) == ("/p", "q", ("02bb", "01aa"))
        assert ask.head.idempotency_key == "k"
        assert (ask.reply, ask.actor_id, ask.generation) == (True, "01aa", 7)
        stage.hear(AskAnswer(call=ask.call, status=404, body=b"who?"))
        await stage.until(lambda: stage.responses)
        assert stage.bodies() == [b"404 who?"]
        assert stage.link.calls == set()

    play(story)


def test_what_was_saved_for_a_call_is_not_undone() -> None:
    async def story() -> None:
        stage = Stage(Does, saving=True)
        stage.ask(1, b"call and fail")
        await stage.until(lambda: stage.asks)
        stage.hear(AskAnswer(call=1))
        await stage.until(lambda: stage.responses)
        assert (stage.responses[0].error, stage.state) == (True, {"n": 1})

    play(story)


def test_a_tell_leaves_with_its_turn_and_waits_for_nothing() -> None:
    async def story() -> None:
        stage = Stage(Does)
        stage.ask(1, b"tell", chain=("02bb",))
        await stage.until(lambda: stage.saves)
        await stage.quiet()
        assert (stage.asks, stage.responses) == ([], [])
        stage.saved()
        (ask,) = stage.asks
        assert (ask.reply, ask.pool, ask.name.namespace, ask.head.chain) == (False, "p", "m", ())
        assert len(stage.responses) == 1

    play(story)


def test_calls_that_cannot_be_answered_raise() -> None:
    async def story() -> None:
        stage = Stage(Does)
        actor = stage.task.actor
        with pytest.raises(InvalidRequest, match="calls itself"):
            await actor.call("room", "x")
        with pytest.raises(InvalidRequest, match="begins with '/'"):
            await actor.call("other", "y", path="p")
        with pytest.raises(InvalidRequest, match="at most 1,048,576 bytes"):
            await actor.call("other", "y", bytes((1 << 20) + 1))
        late = asyncio.create_task(actor.call("other", "y", timeout=2.0))
        await stage.quiet()
        stage.link.clock.advance(2_000)
        with pytest.raises(Timeout):
            await late
        given_up = asyncio.create_task(actor.call("other", "y"))
        await stage.quiet()
        given_up.cancel()
        await stage.quiet()
        assert stage.link.calls == set()
        many = [asyncio.create_task(actor.call("other", "y")) for _ in range(MAX_CALLS + 1)]
        await stage.quiet()
        (refused,) = [each for each in many if each.done()]
        assert isinstance(refused.exception(), Unavailable)
        stage.task.lost()
        assert {type(each) for each in await asyncio.gather(*many, return_exceptions=True)} == {
            ConnectionLost,
            Unavailable,
        }
        chained = Stage(Does)
        chained.ask(1, b"call", chain=tuple(str(each) for each in range(MAX_CHAIN)))
        await chained.until(lambda: chained.responses)
        assert chained.bodies() == [b"the actor failed: Unavailable"]

    play(story)


def test_sockets_that_are_too_much_to_hold_keep_it_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listens(Actor):
        async def on_connect(self, socket: Socket) -> None: ...

    async def story() -> None:
        stage = Stage(Listens, sleep_after=10.0)
        stage.open(1, upgrade=True)
        await stage.quiet()
        monkeypatch.setattr(activation, "MAX_HELD_BYTES", SOCKET_BYTES)
        stage.link.clock.advance(10_000)
        assert stage.task.activation.ending is None, "its path is a byte too much"
        monkeypatch.setattr(activation, "MAX_HELD_BYTES", SOCKET_BYTES + 1)
        stage.link.clock.advance(10_000)
        assert stage.task.activation.ending == Ending(asleep=True)

    play(story)


def test_a_stop_lets_it_do_what_waits() -> None:
    async def story() -> None:
        stage = Stage(Does, saving=True)
        stage.ask(1, b"add")
        stage.ask(2, b"add")
        assert await stage.end() == Ending()
        assert (stage.bodies(), notes(stage), stage.task.stopping.is_set()) == ([b"1", b"2"], ["stop"], True)

    play(story)


def test_an_error_in_on_start_ends_it() -> None:
    class Fails(Actor):
        async def on_start(self) -> None:
            self.state["n"] = 1
            raise ValueError

    async def story() -> None:
        stage = Stage(Fails)
        stage.ask(1)
        await stage.until(lambda: stage.ends)
        assert (stage.ends, stage.saves) == ([Ending(failed=True)], [])
        assert [(each.request_id, each.refused) for each in stage.responses] == [(1, True)]

    play(story)
