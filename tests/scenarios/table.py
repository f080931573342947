"""What all worlds of scenarios have in common: a network that moves only when told to."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tests.scenarios.prose import name


class ScenarioError(Exception):
    """The script asks for something that makes no sense here."""


class Table:
    """Messages wait on their link, oldest first, until the script moves them. `say` takes a line of the story."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.links: dict[tuple[int, int], list[Any]] = {}

    @property
    def names(self) -> list[int]:
        raise NotImplementedError

    def deliver(self, sender: int, to: int, nth: int) -> None:
        raise NotImplementedError

    def ring(self, owner: int) -> None:
        raise NotImplementedError

    def crash(self, owner: int) -> None:
        raise NotImplementedError

    def restart(self, owner: int) -> None:
        raise NotImplementedError

    def tell_state(self) -> None:
        raise NotImplementedError

    def take(self, sender: int, to: int, nth: int) -> Any:
        waiting = self.links.get((sender, to), [])
        if not 1 <= nth <= len(waiting):
            raise ScenarioError(f"no message {nth} from {name(sender)} to {name(to)}")
        return waiting.pop(nth - 1)

    def duplicate(self, sender: int, to: int, nth: int) -> Any:
        packet = self.take(sender, to, nth)
        self.links[sender, to][nth - 1 : nth - 1] = [packet, packet]
        return packet

    def busy_links(self) -> list[tuple[int, int]]:
        return sorted(link for link, waiting in self.links.items() if waiting)


class Letter(Struct, frozen=True):
    """A message, and what happens when it arrives."""

    words: str
    arrive: Callable[[], None]

    def __str__(self) -> str:
        return self.words


class LetterTable(Table):
    """One whose replicas are up or down."""

    def __init__(self, say: Callable[[str], None], ids: tuple[int, ...]) -> None:
        super().__init__(say)
        self.up = dict.fromkeys(ids, True)

    @property
    def names(self) -> list[int]:
        return list(self.up)

    def post(self, sender: int, to: int, words: str, arrive: Callable[[], None]) -> None:
        self.links.setdefault((sender, to), []).append(Letter(words, arrive))

    def deliver(self, sender: int, to: int, nth: int) -> None:
        letter = self.take(sender, to, nth)
        if self.up[to]:
            letter.arrive()
        else:
            self.say(f"{name(to)} is down, lost: {letter}")

    def must_be_up(self, owner: int) -> None:
        if not self.up[owner]:
            raise ScenarioError(f"{name(owner)} is down")

    def crash(self, owner: int) -> None:
        self.must_be_up(owner)
        self.up[owner] = False
        self.say(f"{name(owner)} crashes")

    def restart(self, owner: int) -> None:
        if self.up[owner]:
            raise ScenarioError(f"{name(owner)} is up")
        self.up[owner] = True
        self.say(f"{name(owner)} is back, with what was on its disk")
