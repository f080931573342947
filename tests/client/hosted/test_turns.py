"""Turns of the class form: what is saved, what leaves when, and what a failure undoes. Each rule of the output gate is
also taken away, to show that its check would notice."""

import asyncio
from typing import Any

import pytest

from epoxy.client.hosted import Actor, Request
from epoxy.client.hosted.gate import OutputGate
from tests.client.hosted.bench import Stage, play, restarted


class Counter(Actor):
    async def on_request(self, request: Request) -> Any:
        match request.body:
            case b"add":
                self.state["count"] = self.state.get("count", 0) + 1
                return {"count": self.state["count"]}
            case b"spoil":
                self.state["count"] = -1
                self.state.setdefault("list", []).append("spoilt")
                raise ValueError("secret")
            case _:
                return str(self.state.get("count", 0))


def test_an_answer_waits_for_the_save_of_its_turn_and_changes_made_meanwhile_are_in_the_next() -> None:
    async def story() -> None:
        stage = Stage(Counter)
        for number in range(4):
            stage.ask(number, b"add")
        await stage.quiet(40)
        assert (stage.responses, len(stage.saves)) == ([], 1)
        assert (stage.saves[0].number, stage.saves[0].version, stage.saves[0].generation) == (1, 3, 7)
        stage.saved()
        assert stage.bodies() == [b'{"count":1}']
        assert (len(stage.saves), stage.saves[1].version) == (2, 4)
        stage.saved()
        assert stage.bodies() == [b'{"count":%d}' % count for count in (1, 2, 3, 4)]
        assert len(stage.saves) == 2, "three turns were one save"
        second = Stage(Counter, restarted(stage))
        second.ask(1, b"get")
        await second.until(lambda: second.responses)
        assert second.bodies() == [b"4"]
        assert second.saves == [], "reading changes nothing"

    play(story)


def test_a_turn_that_fails_is_undone_and_answered_and_the_actor_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        stage = Stage(Counter, saving=True)
        stage.ask(1, b"add")
        stage.ask(2, b"spoil")
        stage.ask(3, b"get")
        await stage.until(lambda: len(stage.responses) == 3)
        assert stage.bodies() == [b'{"count":1}', b"the actor failed: ValueError", b"1"]
        assert [each.error for each in stage.responses] == [False, True, False]
        assert stage.state == {"count": 1}
        assert stage.ends == []

    play(story)
    assert "actor room/x: on_request failed; its changes are undone" in caplog.text


async def fenced() -> Stage:
    stage = Stage(Counter)
    stage.ask(1, b"add")
    stage.ask(2, b"add")
    await stage.until(lambda: stage.saves)
    await stage.quiet()
    stage.ask(3, b"get")
    stage.refuse_save(fenced=True)
    await stage.until(lambda: stage.ends)
    return stage


def test_a_fenced_save_ends_the_actor_and_nothing_that_rests_on_it_leaves() -> None:
    async def story() -> None:
        stage = await fenced()
        assert stage.link.interrupted == 1
        assert (stage.ends[0].failed, len(stage.saves)) == (True, 1)
        assert [(each.request_id, each.error, each.refused) for each in stage.responses] == [
            (1, True, False),
            (2, True, False),
            (3, True, True),
        ]

    play(story)


def test_a_gate_that_opened_when_a_save_is_fenced_would_give_answers_that_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check above is the error in each answer to what the code has seen."""

    def let_out(self: OutputGate) -> None:
        for _, _, then in self._held:
            then()
        right_close(self)

    right_close = OutputGate.close
    monkeypatch.setattr(OutputGate, "close", let_out)

    async def story() -> None:
        stage = await fenced()
        assert [each.body for each in stage.responses if not each.error] == [b'{"count":1}', b'{"count":2}']

    play(story)


@pytest.mark.parametrize("saved", [False, True])
def test_the_end_of_the_event_loop_is_no_failure_and_waits_for_no_save(
    saved: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stages: list[Stage] = []

    async def story() -> None:
        stages.append(Stage(Counter, saving=saved))
        stages[0].ask(1, b"add")
        await stages[0].until(lambda: stages[0].saves)

    play(story)
    assert stages[0].ends[0].failed
    assert caplog.text == ""


def test_a_task_of_its_own_that_was_cancelled_fails_a_turn_and_no_more() -> None:
    class Impatient(Actor):
        async def on_request(self, request: Request) -> bytes:
            if request.body == b"cancel":
                task = asyncio.create_task(asyncio.sleep(3600))
                task.cancel()
                await task
            return b"fine"

    async def story() -> None:
        stage = Stage(Impatient)
        stage.ask(1, b"cancel")
        stage.ask(2)
        await stage.until(lambda: len(stage.responses) == 2)
        assert stage.bodies() == [b"the actor failed: CancelledError", b"fine"]

    play(story)
