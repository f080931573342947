"""The measurement of starts: it finds what it laid down, and a limit that is not kept ends it with an error."""

import asyncio
import sys
from pathlib import Path

import pytest

from benchmarks.starts import lay_asleep, main
from benchmarks.store import opened
from epoxy.actors import listing
from epoxy.actors.directory import named
from epoxy.model.actors import ActorName, ActorState


def test_actors_are_laid_asleep_with_their_alarms(tmp_path: Path) -> None:
    async def body() -> None:
        await lay_asleep(tmp_path, 1, 3)
        store = opened(tmp_path)
        view = store.durable()
        actor = named(view, ActorName("default", "sleeper", "2"))
        assert actor is not None
        assert actor.state is ActorState.ASLEEP
        assert listing.next_alarm(view) == actor.due_ms - 2
        store.close()

    asyncio.run(body())


def test_a_start_that_takes_longer_than_the_limit_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--keys", "100", "--actors", "5", "--writes", "20", "--rounds", "1", "--nodes", "1"]
    monkeypatch.setattr(sys, "argv", ["starts", *few, "--limit-s", "0.001"])
    with pytest.raises(SystemExit, match=r"^/readyz took .* s, more than 0\.00$"):
        main()
    kinds = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert kinds == ["stopped", "killed"]
