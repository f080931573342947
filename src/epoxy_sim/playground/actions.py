"""What can be done in one step, as text: a link holds a whole session as a list of these.

q1r:ada    the client at replica 1 asks to reserve the key with "ada"
d7 x7 u7   message 7 is delivered; dropped; delivered, and stays in the network as a repetition
c2 r2      replica 2 crashes; starts again
t          time passes, until something happens
"""

import enum
import re

from msgspec import Struct

MAX_VALUE_LETTERS = 12
"""A value is shown in a small card."""

PATTERN = re.compile(
    r"q(?P<home>\d)(?P<what>[a-z])(?::(?P<value>[\w-]*))?|(?P<do>[dxucr])(?P<number>\d{1,4})|t", re.ASCII
)


class BadStep(Exception):
    """The text is not a step, or not one that is possible now."""


class Doing(enum.Enum):
    DELIVER = "d"
    DROP = "x"
    REPEAT = "u"
    CRASH = "c"
    RESTART = "r"
    PASS_TIME = "t"
    ASK = "q"


class Question(enum.Enum):
    """What a client asks for."""

    RESERVE = "r"
    PUT = "p"
    ADD = "a"
    DELETE = "x"
    READ = "g"
    READ_QUORUM = "l"

    @property
    def words(self) -> str:
        return "read with a quorum" if self is Question.READ_QUORUM else self.name.lower()


WITH_VALUE = (Question.RESERVE, Question.PUT)


class Action(Struct, frozen=True, kw_only=True):
    """`number`: of a message, of a replica, or of the client's replica."""

    doing: Doing
    number: int = 0
    question: Question | None = None
    value: str = ""

    @property
    def text(self) -> str:
        if self.doing is Doing.PASS_TIME:
            return "t"
        if self.question is None:
            return f"{self.doing.value}{self.number}"
        value = f":{self.value}" if self.question in WITH_VALUE else ""
        return f"q{self.number}{self.question.value}{value}"


def parse(text: str) -> Action:
    match = PATTERN.fullmatch(text)
    if match is None:
        raise BadStep(f"{text[:40]!r} is no step")
    if text == "t":
        return Action(doing=Doing.PASS_TIME)
    if match["do"]:
        return Action(doing=Doing(match["do"]), number=int(match["number"]))
    value = match["value"] or ""
    if match["what"] not in [each.value for each in Question]:
        raise BadStep(f"{text[:40]!r} asks for nothing that is known")
    question = Question(match["what"])
    if bool(value) is not (question in WITH_VALUE) or len(value) > MAX_VALUE_LETTERS:
        raise BadStep(f"a value has 1 to {MAX_VALUE_LETTERS} letters, and stands where one is written: {text[:40]!r}")
    return Action(doing=Doing.ASK, number=int(match["home"]), question=question, value=value)
