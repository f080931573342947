"""Flows around a table: they run until they wait for something that only the script can bring."""

from collections.abc import Generator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from epoxy.model.instances import InstanceId
from epoxy.protocol.effects import Also, Event, Expired, Local, Next, Open, Pause, Tell
from tests.scenarios.prose import name
from tests.scenarios.table import Table


class Running(Struct, kw_only=True, eq=False):
    """A flow under way. `id`: the instance it is about, if it is one of transactions."""

    owner: int
    steps: Generator[Any, Any, Any]
    id: InstanceId | None = None
    round: int = 0
    inbox: list[Event] = msgspec.field(default_factory=list)
    watching: tuple[InstanceId, ...] = ()
    pause: Pause | None = None
    awaits: Also[Any] | None = None
    """The commit that ends its round."""

    def waits_for(self, round_number: int) -> bool:
        return self.round == round_number and self.pause is None


class FlowTable(Table):
    def finish(self, running: Running, result: Any) -> None:
        raise NotImplementedError

    def perform_local(self, owner: int, op: Any) -> object:
        raise NotImplementedError

    def perform_other(self, _running: Running, effect: object) -> None:
        raise AssertionError(effect)

    def send(self, running: Running, verb: str, envelopes: Mapping[int, Any], *, waits: bool = True) -> None:
        raise NotImplementedError

    def resume(self, running: Running, value: object) -> None:
        while True:
            try:
                effect = running.steps.send(value)
            except StopIteration as stop:
                self.finish(running, stop.value)
                return
            if isinstance(effect, Next):
                running.watching = effect.watching
                if not running.inbox:
                    return
                value = running.inbox.pop(0)
            elif isinstance(effect, Pause):
                self.say(f"{name(running.owner)} waits {effect.delay_ms:g} ms")
                running.pause = effect
                return
            else:
                value = self._perform(running, effect)

    def _perform(self, running: Running, effect: object) -> object:
        match effect:
            case Local():
                return self.perform_local(running.owner, effect.op)
            case Open():
                running.round += 1
                running.awaits = None
                running.inbox.clear()
                self.send(running, "asks", effect.envelopes)
            case Also() if effect.key is not None:
                running.awaits = effect
                if effect.envelopes:
                    self.send(running, "asks, too,", effect.envelopes)
                self.say(f"{name(running.owner)} waits for the commit of @{effect.version}")
            case Also():
                self.send(running, "asks again", effect.envelopes)
            case Tell():
                self.send(running, "tells", effect.envelopes, waits=False)
            case _:
                self.perform_other(running, effect)
        return None

    def ring_for(self, running: Running) -> None:
        """The timer of its pause, or of its round."""
        self.say(f"{name(running.owner)}'s timer rings")
        if running.pause is not None:
            self.end_pause(running)
        else:
            self.end_round(running)

    def end_round(self, running: Running) -> None:
        running.awaits = None
        self.resume(running, Expired())

    def end_pause(self, running: Running) -> None:
        running.pause = None
        self.resume(running, None)

    def say_sent(self, owner: int, verb: str, envelopes: Mapping[int, Any], words: Any) -> None:
        for message in dict.fromkeys(envelopes.values()):
            names = " ".join(name(to) for to, asked in envelopes.items() if asked == message)
            self.say(f"{name(owner)} {verb} {names}: {words(message)}")
