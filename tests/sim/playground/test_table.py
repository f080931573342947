"""One small cluster, by hand: what steps do, and that the same steps do the same again."""

import pytest

from epoxy_sim.history import Lost, Won
from epoxy_sim.playground.actions import BadStep
from epoxy_sim.playground.table import MAX_STEPS, HandTable, Settings, play_on, replay

WON = "'ada' is committed, version 1, by your write (fast)"
TAKEN = "taken already, with 'ada'"


def after(*steps: str, n: int = 3, mutant: str | None = None) -> HandTable:
    return replay(Settings(n=n, mutant=mutant), steps)


def committed(table: HandTable) -> list[str | None]:
    values = [state.committed and state.committed.value for state in table.states()]
    return [value.decode() if value else None for value in values]


def words(table: HandTable) -> str:
    return " ".join(table.told[-1].words)


@pytest.mark.parametrize(("n", "votes"), [(3, 1), (5, 2)])
def test_a_write_commits_with_the_votes_of_a_fast_quorum(n: int, votes: int) -> None:
    table = after("q1r:ada", n=n)
    assert len(table.network.held) == n - 1
    for number in range(1, votes + 1):
        table.do(f"d{number}")
    assert committed(table) == [None] * n
    for number in range(n, n + votes):
        table.do(f"d{number}")
    assert committed(table) == ["ada"] + [None] * (n - 1)
    assert table.clients[0].told == WON
    play_on(table, MAX_STEPS)
    assert committed(table) == ["ada"] * n
    assert table.failure is None


def test_each_step_is_told_in_words() -> None:
    table = after("q1r:ada", "d1", "d3")
    assert [" ".join(told.words) for told in table.told] == [
        "The client at A asks: reserve 'ada'. A votes for 'ada' (fast round). A sends to B, C: “Vote for 'ada'?”",
        "B gets “Vote for 'ada'?” from A. B votes for 'ada' (fast round). B sends to A: “Yes: voted”",
        "A gets “Yes: voted” from B. A commits 'ada' as version 1. "
        f"The client at A is told: {WON}. A sends to B, C: “Decided: 'ada'”",
    ]


def test_of_two_that_race_one_wins_in_whatever_order_messages_arrive() -> None:
    for first in ("d1", "d4"):
        table = after("q1r:ada", "q3r:cy", first)
        for _ in range(10):
            play_on(table, MAX_STEPS)
            table.do("t")
        assert table.failure is None
        told = {client.told for client in table.clients if client.told}
        winner = "ada" if first == "d1" else "cy"
        assert committed(table) == [winner] * 3
        assert told == {WON.replace("ada", winner), TAKEN.replace("ada", winner)}


def test_dropped_messages_cost_time_and_nothing_else() -> None:
    table = after("q1r:ada", "x1", "x2")
    assert (table.network.held, committed(table)) == ({}, [None] * 3)
    table.do("t")
    assert "ms pass, and a timer rings." in words(table)
    play_on(table, MAX_STEPS)
    assert committed(table) == ["ada"] * 3
    assert table.clients[0].told.endswith("(slow)")


def test_a_message_that_is_repeated_changes_nothing_the_second_time() -> None:
    table = after("q1r:ada", "u1")
    assert "keeps a copy" in words(table)
    once = table.states()
    table.do("d1")
    assert table.states() == once
    play_on(table, MAX_STEPS)
    assert committed(table) == ["ada"] * 3


def test_a_crashed_winner_is_found_by_the_next_writer() -> None:
    table = after("q1r:ada", "d1", "x2", "d3", "x4", "x5", "c1", "q3r:bob")
    assert committed(table) == ["ada", None, None]
    for _ in range(4):
        play_on(table, MAX_STEPS)
        table.do("t")
    assert committed(table)[1:] == ["ada", "ada"]
    assert table.clients[2].told == TAKEN


def test_a_restart_keeps_the_vote_and_is_admitted_again() -> None:
    table = after("q1r:ada", "d1", "c2")
    assert table.machines[1].life is None
    table.do("r2")
    life = table.machines[1].life
    assert life is not None
    assert life.votes
    vote = table.states()[1].vote
    assert vote is not None
    assert vote.proposal.value == b"ada"
    assert "starts again" in words(table)


def test_alone_a_restart_is_not_admitted() -> None:
    table = after("c1", "c2", "c3", "r1")
    assert "Too few of the others are up" in words(table)
    with pytest.raises(BadStep, match="no replica is up that takes requests"):
        table.do("q1r:ada")


def test_a_message_to_a_replica_that_is_down_reaches_nothing() -> None:
    table = after("q1r:ada", "c2", "d1")
    assert words(table) == "B is down: “Vote for 'ada'?” from A reaches nothing. Nothing else changes."


def test_other_questions() -> None:
    table = after("q1a")
    play_on(table, MAX_STEPS)
    table.do("q2a")
    play_on(table, MAX_STEPS)
    assert committed(table) == ["2"] * 3
    table.do("q3l")
    play_on(table, MAX_STEPS)
    assert table.clients[2].told == "the key has '2', version 2"
    table.do("q3g")
    assert table.clients[2].told == "the key has '2', version 2"
    table.do("q1x")
    play_on(table, MAX_STEPS)
    table.do("q1p:new")
    play_on(table, MAX_STEPS)
    assert committed(table) == ["new"] * 3
    assert table.failure is None


def test_the_same_steps_are_the_same_session() -> None:
    steps = ("q1r:ada", "q3r:cy", "d1", "x2", "u3", "c2", "t", "r2", "d4", "t")
    one, other = after(*steps), after(*steps)
    assert one.told == other.told
    assert one.states() == other.states()
    assert one.world.now_us == other.world.now_us
    assert [held.card for held in one.network.held.values()] == [held.card for held in other.network.held.values()]


def test_a_broken_rule_is_found_in_step_mode_and_its_steps_hold_without_the_fault() -> None:
    steps = ("q3r:cy", "q2r:bob", "d2")
    broken = after(*steps, mutant="two-fast-votes")
    assert broken.failure is not None
    assert broken.failure.rule == "second vote"
    with pytest.raises(BadStep, match="the judge has found"):
        broken.do("t")
    assert after(*steps).failure is None


def test_a_history_that_cannot_be_true_is_found() -> None:
    """Replicas agree, and a read that answers without what is in flight is wrong all the same."""
    table = after("q1r:ada", "d1", "d3")
    told = table.recorder.operations[1]
    assert isinstance(told.outcome, Won)
    table.recorder.answer(1, Lost(value=b"another", version=1, mutable=False))
    table.do("q2g")
    assert table.failure is not None
    assert table.failure.rule == "linearizability"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (("d1",), "no message 1 is in flight"),
        (("q9r:ada",), "there is no replica 9"),
        (("q1r:ada", "q1r:bob"), "the client at A still waits"),
        (("r1",), "A is up already"),
        (("c1", "c1"), "A is down already"),
        (("c9",), "there is no replica 9"),
        (("fly",), "'fly' is no step"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(steps: tuple[str, ...], words: str) -> None:
    with pytest.raises(BadStep, match=words):
        after(*steps)


def test_settings_are_checked() -> None:
    with pytest.raises(BadStep, match="3 or 5 replicas, not 4"):
        Settings(n=4)
    with pytest.raises(BadStep, match="no broken rule is called 'x'"):
        Settings(mutant="x")


def test_a_session_has_an_end() -> None:
    table = after("q1r:ada")
    for _ in range(MAX_STEPS - 1):
        table.do("u1")
    with pytest.raises(BadStep, match="at most 400 steps"):
        table.do("u1")
