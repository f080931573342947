"""Plans of who owns what: they lead to an even spread, by as few moves as there must be."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.shards import KEY_SHARDS, SYSTEM_SHARD
from epoxy.store.shared.database import SessionRow, ShardTable
from epoxy.store.shared.shares import AWAKE, NextStep, ShardMove, heir, key_shards, next_step

LEASE_MS = 5_000.0

AWAKE_MS, ASLEEP_MS, DEAD_MS = LEASE_MS, AWAKE * LEASE_MS, -1.0


def table_of(left_ms: dict[int, float], owners: list[int]) -> ShardTable:
    sessions = [SessionRow(each, f"http://n{each}", "1", left, False) for each, left in left_ms.items()]
    return ShardTable(sessions, owners, [0] * len(owners))


def spread_by(dice: Random, sessions: list[int]) -> list[int]:
    return [dice.choice(sessions) for _ in range(KEY_SHARDS + 1)]


class Room:
    """Sessions that plan in turns, at random, and a database that does what they ask for."""

    def __init__(self, seed: int, left_ms: dict[int, float], owners: list[int]) -> None:
        self.dice = Random(seed)
        self.left_ms = left_ms
        self.owners = owners
        self.moved = 0

    @property
    def table(self) -> ShardTable:
        return table_of(self.left_ms, self.owners)

    def plan(self, session: int) -> NextStep:
        return next_step(self.table, session, LEASE_MS, fences=True)

    def apply(self, session: int, step: NextStep) -> None:
        for dead in step.dead:
            self.left_ms.pop(dead, None)
        for shard in step.take:
            if self.owners[shard] not in self.left_ms:
                self.owners[shard] = session
        if step.give is not None:
            self.owners[step.give.shard] = step.give.to
            self.moved += 1

    def settle(self, *, together: bool) -> None:
        """Until no session plans anything. `together`: all plan from the same table before any step is done."""
        for _ in range(4 * KEY_SHARDS):
            awake = [each for each, left in self.left_ms.items() if left == AWAKE_MS]
            self.dice.shuffle(awake)
            planned = {each: self.plan(each) for each in awake} if together else {}
            steps = 0
            for each in awake:
                step = planned[each] if together else self.plan(each)
                steps += step != NextStep()
                self.apply(each, step)
            if not steps:
                return
        raise AssertionError("the sessions plan for ever")

    def held(self) -> dict[int, int]:
        return {each: len(key_shards(self.table, each)) for each in self.left_ms}


states = st.sampled_from([AWAKE_MS, AWAKE_MS, ASLEEP_MS, DEAD_MS])


@given(
    st.integers(),
    st.dictionaries(st.integers(2, 9), states, max_size=6),
    st.booleans(),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
)
def test_the_spread_is_even_and_nothing_moves_twice(
    seed: int, others: dict[int, float], together: bool, owners: list[int]
) -> None:
    """From any spread, free shards and shards of sessions that are gone among them."""
    room = Room(seed, {1: AWAKE_MS, **others}, spread_by(Random(seed), owners))
    system = room.owners[SYSTEM_SHARD]
    asleep = {each: room.held()[each] for each, left in room.left_ms.items() if left == ASLEEP_MS}
    room.settle(together=together)
    awake = [count for each, count in room.held().items() if room.left_ms[each] == AWAKE_MS]
    assert max(awake) - min(awake) <= 1
    assert {each: room.held()[each] for each in asleep} == asleep, "neither given to nor taken from"
    assert sum(room.held().values()) == KEY_SHARDS, "every shard has an owner"
    assert room.owners[SYSTEM_SHARD] in room.left_ms
    if others.get(system, AWAKE_MS if system == 1 else DEAD_MS) != DEAD_MS:
        assert room.owners[SYSTEM_SHARD] == system, "the system shard stays"


@given(st.integers(), st.integers(1, 6), st.booleans())
def test_no_more_shards_move_than_must(seed: int, sessions: int, together: bool) -> None:
    room = Room(seed, dict.fromkeys(range(1, sessions + 1), AWAKE_MS), spread_by(Random(seed), [1, 1, 1, sessions]))
    held = sorted(room.held().values(), reverse=True)
    share, rest = divmod(KEY_SHARDS, sessions)
    needed = sum(max(0, count - share - (rank < rest)) for rank, count in enumerate(held))
    room.settle(together=together)
    assert room.moved == needed


@given(st.integers(), st.lists(st.tuples(st.sampled_from(["come", "go", "sleep", "wake"]), st.integers(2, 6))))
def test_sessions_that_come_and_go_move_their_part_alone(seed: int, changes: list[tuple[str, int]]) -> None:
    room = Room(seed, {1: AWAKE_MS}, [1] * (KEY_SHARDS + 1))
    for what, session in changes:
        before = room.moved
        if what == "come":
            room.left_ms.setdefault(session, AWAKE_MS)
        elif session in room.left_ms:
            room.left_ms[session] = {"go": DEAD_MS, "sleep": ASLEEP_MS, "wake": AWAKE_MS}[what]
        room.settle(together=False)
        awake = [each for each, left in room.left_ms.items() if left == AWAKE_MS]
        counts = [room.held()[each] for each in awake]
        assert max(counts) - min(counts) <= 1
        if what in ("go", "sleep"):
            assert room.moved == before, "shards of one that is gone are taken, and no other is touched"
        else:
            assert room.moved - before <= KEY_SHARDS // len(awake) + 1


def test_an_even_spread_stays() -> None:
    owners = [3] + [1 + shard % 3 for shard in range(KEY_SHARDS)]
    table = table_of({1: AWAKE_MS, 2: AWAKE_MS, 3: AWAKE_MS}, owners)
    assert [next_step(table, each, LEASE_MS, fences=True) for each in (1, 2, 3)] == [NextStep()] * 3


def test_a_dead_session_is_fenced_by_one_that_may() -> None:
    owners = [2] * (KEY_SHARDS + 1)
    table = table_of({1: AWAKE_MS, 2: DEAD_MS}, owners)
    assert next_step(table, 1, LEASE_MS, fences=False) == NextStep()
    step = next_step(table, 1, LEASE_MS, fences=True)
    assert (step.dead, len(step.take), step.take[0]) == ([2], KEY_SHARDS + 1, SYSTEM_SHARD)


def test_a_session_without_shards_takes_none_from_those_that_have_some() -> None:
    """It may be one that no other reaches: with another secret, or with an address that is not its own."""
    owners = [1] + [1 + shard % 2 for shard in range(KEY_SHARDS)]
    table = table_of({1: AWAKE_MS, 2: DEAD_MS, 3: AWAKE_MS}, owners)
    assert not next_step(table, 3, LEASE_MS, fences=True).take
    assert len(next_step(table, 1, LEASE_MS, fences=True).take) == KEY_SHARDS // 2, "all, and not a half of them"


def test_a_session_without_shards_takes_them_if_none_has_any() -> None:
    table = table_of({1: DEAD_MS, 3: AWAKE_MS, 4: AWAKE_MS}, [1] * (KEY_SHARDS + 1))
    assert [len(next_step(table, each, LEASE_MS, fences=True).take) for each in (3, 4)] == [KEY_SHARDS // 2 + 1] * 2


def test_shards_go_to_sessions_that_are_reached() -> None:
    table = table_of(dict.fromkeys((1, 2, 3), AWAKE_MS), [1] * (KEY_SHARDS + 1))
    assert next_step(table, 1, LEASE_MS, fences=True, reaches={3}.__contains__).give == ShardMove(KEY_SHARDS, 3)
    assert next_step(table, 1, LEASE_MS, fences=True, reaches={4}.__contains__) == NextStep()
    assert [heir(table, 1, LEASE_MS, {each}.__contains__) for each in (3, 4)] == [3, 0]


def test_sessions_that_one_reaches_and_another_does_not_end_with_a_spread() -> None:
    """Each plans with those that it reaches; a move is never undone by another session's plan."""
    owners = [1] * (KEY_SHARDS + 1)
    reached = {1: {2, 3}, 2: {1}, 3: {1, 2}}
    moves = 0
    while steps := [
        step.give
        for each, near in reached.items()
        if (
            step := next_step(
                table_of(dict.fromkeys(reached, AWAKE_MS), owners),
                each,
                LEASE_MS,
                fences=True,
                reaches=near.__contains__,
            )
        ).give
    ]:
        owners[steps[0].shard] = steps[0].to
        moves += 1
        assert moves <= KEY_SHARDS
    held = [owners[1:].count(each) for each in reached]
    assert max(held) - min(held) <= 2


def test_a_session_never_fences_itself() -> None:
    """Its lease may be over, and it goes on as long as no other has fenced it."""
    table = table_of({1: DEAD_MS}, [1] * (KEY_SHARDS + 1))
    assert next_step(table, 1, LEASE_MS, fences=True) == NextStep()


def test_shards_go_to_sessions_that_renew_in_time() -> None:
    owners = [1] * (KEY_SHARDS + 1)
    assert next_step(table_of({1: AWAKE_MS, 2: ASLEEP_MS}, owners), 1, LEASE_MS, fences=True) == NextStep()
    assert next_step(table_of({1: AWAKE_MS, 2: AWAKE_MS}, owners), 1, LEASE_MS, fences=True) == NextStep(
        give=ShardMove(KEY_SHARDS, 2)
    )


def test_the_heir_of_a_session_that_leaves_has_the_fewest() -> None:
    owners = [1] + [1, 2, 2, 2, 3] + [1] * (KEY_SHARDS - 5)
    assert heir(table_of({1: ASLEEP_MS, 2: AWAKE_MS, 3: AWAKE_MS}, owners), 1, LEASE_MS) == 3
    assert heir(table_of({1: ASLEEP_MS, 2: AWAKE_MS, 3: ASLEEP_MS}, owners), 1, LEASE_MS) == 2
    assert heir(table_of({1: AWAKE_MS, 2: DEAD_MS}, owners), 1, LEASE_MS) == 0


def test_a_session_that_other_members_do_not_find_takes_no_system_shard() -> None:
    owners = [0, *[1] * KEY_SHARDS]
    table = table_of({1: AWAKE_MS}, owners)
    assert next_step(table, 1, LEASE_MS, fences=True).take == [SYSTEM_SHARD]
    assert next_step(table, 1, LEASE_MS, fences=True, takes_system=False) == NextStep()
    table = table_of({1: AWAKE_MS}, [0] * (KEY_SHARDS + 1))
    assert len(next_step(table, 1, LEASE_MS, fences=True, takes_system=False).take) == KEY_SHARDS
