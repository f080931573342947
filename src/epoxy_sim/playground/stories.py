"""Sessions at the table to begin with: each is a list of steps, as a link holds it, and what to look at.

`last` is the step that shows what the story is about. It is left to the visitor.
"""

from msgspec import Struct


class Story(Struct, frozen=True, kw_only=True):
    title: str
    text: str
    n: int = 3
    seed: int = 1
    mutant: str | None = None
    steps: tuple[str, ...]
    last: str


STORIES = (
    Story(
        title="One write, one round trip",
        text="A client reserves a name. A and B have voted: that is a fast quorum. Deliver message 3: it is decided.",
        steps=("q1r:ada", "d1"),
        last="d3",
    ),
    Story(
        title="A race for one name",
        text="Clients at A and C asked at the same moment, and B voted for A's. Deliver message 5 for the winner, then "
        "all the others for the loser: it is told “taken”, and by whom.",
        steps=("q1r:ada", "q3r:cy", "d1", "d4"),
        last="d5",
    ),
    Story(
        title="The winner crashes before it can tell the others",
        text="A committed, answered its client and crashed; no other replica has heard of it. C wants the name and was "
        "refused by B. Let time pass, deliver all, and see what C finds.",
        steps=("q1r:ada", "d1", "x2", "d3", "x4", "x5", "c1", "q3r:cy", "d7", "d8"),
        last="t",
    ),
    Story(
        title="Without “one vote in the fast round”",
        text="B has voted for ada. Deliver message 4, and it votes for cy as well.",
        mutant="two-fast-votes",
        steps=("q1r:ada", "q3r:cy", "d1"),
        last="d4",
    ),
    Story(
        title="Without “a proposer votes first”",
        text="A and B each have the other's vote in the mail, because neither had voted for itself. Deliver message 5.",
        mutant="own-vote-missing",
        steps=("q1r:ada", "q2r:bob", "d3", "d2", "d6"),
        last="d5",
    ),
    Story(
        title="Without “a recovery keeps what may be decided”",
        text="A client was told that the name is cy's. B recovers, has seen that vote, and goes on with bob all the "
        "same. Deliver message 14.",
        mutant="recover-ignores-votes",
        steps=("q3r:cy", "q2r:bob", "d4", "d1", "d6", "t", "d9", "d11", "d12"),
        last="d14",
    ),
    Story(
        title="Without “a read waits for what is under way”",
        text="ada was acknowledged to its client, and B reads with a quorum that does not know yet. Deliver message 9.",
        mutant="stale-linearizable-read",
        steps=("q1r:ada", "d2", "d3", "q2l", "d4", "d7"),
        last="d9",
    ),
)
