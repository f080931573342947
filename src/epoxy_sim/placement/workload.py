"""Requests to simulated actors: each adds a mark of its own to the actor's list, or reads it, and the answer tells all
of it. So an answer shows which changes it rests on, and in which order they came."""

import enum

import msgspec
from msgspec import Struct

from epoxy.model.homes import epoch_of


class ActorDoes(enum.Enum):
    """What a request asks the code of an actor to do."""

    NOTHING = "nothing"
    """Answer without a look at the state."""
    READ = "read"
    ADD = "add"
    """Its mark, at the end of the list."""
    BREAK = "break"
    """Add it, and then fail: the change must be undone."""
    FAIL = "fail"
    """Fail, in code that a function is: the actor ends, and is started again."""
    ALARM = "alarm"
    """Set the alarm."""
    SLEEP = "sleep"
    """Add it, and fall asleep."""
    LONG = "long"
    """Take longer than the lease of a home lasts."""


class Form(enum.Enum):
    """Of the code of an actor, by the name it is registered under."""

    CLASS = "list"
    FUNCTION = "function"
    LOCAL = "local"
    """A class whose state stays in its datacenter."""


def form_of(name: str) -> Form:
    return Form(name)


class ActorTask(Struct, frozen=True, kw_only=True):
    """The body of a request. `mark` is unique in a run: `#` and six digits. `attempt`: it may be asked again, with the
    same idempotency key. `in_ms`: until an alarm is due."""

    does: ActorDoes
    mark: str
    attempt: int = 1
    in_ms: int = 0

    @property
    def word(self) -> str:
        """Of this very attempt."""
        return f"{self.mark}/{self.attempt}"


def mark_of(number: int) -> str:
    return f"#{number:06d}"


class ActorReport(Struct, frozen=True, kw_only=True):
    """The body of an answer: which actor gave it, and what its list held then."""

    form: Form
    actor_id: str
    generation: int
    marks: tuple[str, ...]

    @property
    def life(self) -> str:
        """What its list lasts for: the actor, or, if its state stays in a datacenter, the home."""
        return self.actor_id if self.form is not Form.LOCAL else f"{self.actor_id} in {epoch_of(self.generation)}"


CHANGES = (ActorDoes.ADD, ActorDoes.ALARM, ActorDoes.SLEEP)

encode = msgspec.json.encode
decode_task = msgspec.json.Decoder(ActorTask).decode
decode_report = msgspec.json.Decoder(ActorReport).decode
