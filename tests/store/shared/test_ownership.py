"""A session with its lease and its shards, over a database in memory with a clock that tests turn."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from epoxy.model.shards import ALL_SHARDS, KEY_SHARDS, SYSTEM_SHARD
from epoxy.store.shared.ownership import TICK_MS, Ownership
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase, Statement
from epoxy_sim.world import Event, World

LEASE_MS = 2_000.0
STATEMENT_US = 1_000


class Datacenter:
    """One world, one database, and nodes on it. Statements are answered after a while, unless a test takes them."""

    def __init__(self) -> None:
        self.world = World()
        self.tables = DatabaseTables(lambda: self.world.now_us / 1000)
        self.nodes: list[SessionNode] = []

    def node(self) -> "SessionNode":
        node = SessionNode(self)
        self.nodes.append(node)
        node.ownership.open(node.ownership.start)
        return node

    def run(self, ms: float) -> None:
        over: list[bool] = []
        self.world.after(int(ms * 1000), lambda: over.append(True))
        self.world.run_until(lambda: bool(over), self.world.now_us + int(ms * 1000))

    def until(self, finished: Callable[[], bool], ms: float = 60_000) -> None:
        assert self.world.run_until(finished, self.world.now_us + int(ms * 1000)), "not in time"

    def held(self) -> list[int]:
        return [len(node.ownership.owned - {SYSTEM_SHARD}) for node in self.nodes if node.ended is None]

    def is_spread(self, nodes: int) -> bool:
        held = self.held()
        return len(held) == nodes and sum(held) == KEY_SHARDS and max(held) - min(held) <= 1


class SessionNode:
    """The clock and the database of one ownership, and what it told its node."""

    def __init__(self, datacenter: Datacenter) -> None:
        self.datacenter = datacenter
        self.paused = False
        self.is_away = False
        self.asking = 0
        self.most_asked = 0
        self.fate: Callable[[Statement], bool] = lambda _: False
        """Takes a statement in the place of the network."""
        self.ended: str | None = None

        self._backlog: list[Callable[[], None]] = []
        database = MemoryDatabase(datacenter.tables, self._carry)
        self.ownership = Ownership(database, self, url="http://node", version="1", lease_ms=LEASE_MS)
        self.ownership.fenced = self._fenced

    def _fenced(self, why: str) -> None:
        assert self.ended is None, "once"
        self.ended = why

    def _carry(self, statement: Statement) -> None:
        self.asking += 1
        self.most_asked = max(self.most_asked, self.asking)
        after = self.datacenter.world.after
        if self.fate(statement):
            return
        if self.is_away:
            after(STATEMENT_US, partial(self.act, partial(self.over, statement.lose)))
            return

        def arrive() -> None:
            statement.run()
            after(STATEMENT_US, partial(self.act, partial(self.over, statement.answer)))

        after(STATEMENT_US, arrive)

    def over(self, then: Callable[[], None]) -> None:
        self.asking -= 1
        then()

    def act(self, action: Callable[[], None]) -> None:
        if self.paused:
            self._backlog.append(action)
        else:
            action()

    def resume(self) -> None:
        self.paused = False
        for action in self._backlog:
            self.datacenter.world.after(0, action)
        self._backlog.clear()

    def now_ms(self) -> float:
        return self.datacenter.world.now_us / 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        return self.datacenter.world.after(int(delay_ms * 1000), partial(self.act, then))


def test_the_first_node_takes_everything_and_the_next_one_gets_its_half() -> None:
    datacenter = Datacenter()
    first = datacenter.node()
    datacenter.until(lambda: first.ownership.owned == set(ALL_SHARDS))
    second = datacenter.node()
    datacenter.until(lambda: datacenter.is_spread(2))
    assert SYSTEM_SHARD in first.ownership.owned
    assert first.most_asked == second.most_asked == 1, "one question at a time"
    datacenter.run(2_000)
    moved = sum(shard.epoch for shard in datacenter.tables.shards.values())
    assert moved == len(ALL_SHARDS) + KEY_SHARDS // 2, "each was taken once, half of them moved, and then all is still"
    owner = first.ownership.owner_of(SYSTEM_SHARD)
    assert owner is not None
    assert owner.id == first.ownership.session


def test_nodes_that_start_together_share() -> None:
    datacenter = Datacenter()
    for _ in range(3):
        datacenter.node()
    datacenter.until(lambda: datacenter.is_spread(3))


def test_a_node_that_is_gone_is_fenced_when_its_lease_is_over_and_not_before() -> None:
    datacenter = Datacenter()
    first, second = datacenter.node(), datacenter.node()
    datacenter.until(lambda: datacenter.is_spread(2))
    first.paused = True
    datacenter.run(LEASE_MS * 0.9)
    assert not datacenter.tables.sessions[first.ownership.session].fenced
    assert datacenter.held() == [KEY_SHARDS // 2] * 2, "not one of its shards was touched"
    datacenter.until(lambda: second.ownership.owned == set(ALL_SHARDS), LEASE_MS * 0.1 + 3 * TICK_MS)
    first.resume()
    datacenter.until(lambda: first.ended is not None)
    assert datacenter.tables.owner(1) == second.ownership.session


def test_a_fenced_session_does_nothing_more() -> None:
    datacenter = Datacenter()
    node = datacenter.node()
    datacenter.until(lambda: bool(node.ownership.owned))
    datacenter.tables.sessions[node.ownership.session].fenced = True
    datacenter.until(lambda: node.ended is not None)
    node.fate = lambda statement: pytest.fail(f"asked for {statement.name}")
    datacenter.run(5_000)
    node.ownership.end("again")


def test_while_the_database_is_away_the_session_goes_on() -> None:
    """Longer than all leases: the node that reaches it first again must not fence the others for that."""
    datacenter = Datacenter()
    nodes = [datacenter.node() for _ in range(3)]
    datacenter.until(lambda: datacenter.is_spread(3))
    owned = [set(node.ownership.owned) for node in nodes]
    for node in nodes:
        node.is_away = True
    datacenter.run(5 * LEASE_MS)
    for node in nodes:
        node.is_away = False
        datacenter.run(LEASE_MS * 0.15)
    datacenter.run(5 * LEASE_MS)
    assert [set(node.ownership.owned) for node in nodes] == owned
    assert all(node.ended is None for node in nodes)


def test_a_node_that_leaves_hands_everything_over_and_closes_its_session() -> None:
    datacenter = Datacenter()
    first, second, third = (datacenter.node() for _ in range(3))
    datacenter.until(lambda: datacenter.is_spread(3))
    left: list[bool] = []
    given: list[Statement] = []

    def note(statement: Statement) -> bool:
        if statement.name == "give":
            given.append(statement)
        return False

    first.fate = note
    first.ownership.hand_all_over(lambda: left.append(True))
    datacenter.until(lambda: bool(left))
    first.ended = "left"
    assert datacenter.tables.sessions[first.ownership.session].fenced
    assert max(datacenter.held()) - min(datacenter.held()) <= 1
    datacenter.until(lambda: datacenter.is_spread(2), 3 * TICK_MS)
    assert len(given) >= KEY_SHARDS // 3
    datacenter.until(lambda: any(SYSTEM_SHARD in node.ownership.owned for node in (second, third)), 3 * TICK_MS)


def test_no_shard_is_handed_to_a_node_that_leaves() -> None:
    """Nor comes one back while its last shards are on their way."""
    datacenter = Datacenter()
    first, second = datacenter.node(), datacenter.node()
    datacenter.until(lambda: datacenter.is_spread(2))
    slow: list[tuple[int, Callable[[bool], None]]] = []
    first.ownership.quiesce = lambda shard, done: slow.append((shard, done))
    first.ownership.hand_all_over(lambda: None)
    datacenter.run(2 * LEASE_MS)
    assert len(slow) == 1, "one after the other"
    assert len(second.ownership.owned - {SYSTEM_SHARD}) == KEY_SHARDS // 2, "it gave none to the one that leaves"
    slow[0][1](True)
    datacenter.until(lambda: slow[0][0] in second.ownership.owned)


def test_the_last_node_closes_its_session_with_all_its_shards() -> None:
    datacenter = Datacenter()
    node = datacenter.node()
    datacenter.until(lambda: len(node.ownership.owned) == len(ALL_SHARDS))
    served: list[Callable[[int], None]] = []
    node.ownership.farewell = served.append
    left: list[bool] = []
    node.ownership.hand_all_over(lambda: left.append(True))
    datacenter.run(2 * LEASE_MS)
    assert len(served) == 1
    assert not datacenter.tables.sessions[node.ownership.session].fenced, "it renews its lease until all is said"
    served[0](0)
    datacenter.until(lambda: bool(left))
    assert datacenter.tables.owner(SYSTEM_SHARD) == 0


def test_a_gateway_that_leaves_hands_the_system_shard_to_the_one_that_is_prepared() -> None:
    datacenter = Datacenter()
    first, second, third = datacenter.node(), datacenter.node(), datacenter.node()
    datacenter.until(lambda: datacenter.is_spread(3))
    assert SYSTEM_SHARD in first.ownership.owned
    served: list[Callable[[int], None]] = []
    first.ownership.farewell = served.append
    left: list[bool] = []
    first.ownership.hand_all_over(lambda: left.append(True))
    datacenter.until(lambda: bool(served))
    assert first.ownership.owned == {SYSTEM_SHARD}, "it serves it until it lets go"
    assert sorted(first.ownership.heirs()) == [second.ownership.session, third.ownership.session]
    first.ownership.let_go()
    datacenter.run(2 * LEASE_MS)
    assert (first.ownership.owned, first.ownership.leaving) == (set(), {SYSTEM_SHARD})
    assert datacenter.tables.owner(SYSTEM_SHARD) == first.ownership.session, "and has it until all is said"
    served[0](third.ownership.session)
    datacenter.until(lambda: bool(left))
    assert datacenter.tables.owner(SYSTEM_SHARD) == third.ownership.session
    datacenter.until(lambda: SYSTEM_SHARD in third.ownership.owned)


def test_a_system_shard_whose_heir_is_gone_is_free() -> None:
    datacenter = Datacenter()
    node = datacenter.node()
    datacenter.until(lambda: len(node.ownership.owned) == len(ALL_SHARDS))
    node.ownership.farewell = lambda then: (node.ownership.let_go(), then(77))[1]  # type: ignore[func-returns-value]
    left: list[bool] = []
    node.ownership.hand_all_over(lambda: left.append(True))
    datacenter.until(lambda: bool(left))
    assert datacenter.tables.owner(SYSTEM_SHARD) == 0


def test_shards_are_owned_when_they_can_be_served() -> None:
    datacenter = Datacenter()
    node = datacenter.node()
    prepared: list[Callable[[], None]] = []
    asked: list[Sequence[int]] = []

    def taken(shards: Sequence[int], then: Callable[[], None]) -> None:
        asked.append(shards)
        prepared.append(then)

    node.ownership.taken = taken
    datacenter.run(3 * TICK_MS)
    assert [shards[0] for shards in asked] == [SYSTEM_SHARD, 1], "the system shard by itself"
    assert node.ownership.owned == set()
    prepared[1]()
    assert node.ownership.owned == set(range(1, KEY_SHARDS + 1))
    prepared[0]()
    assert node.ownership.owned == set(ALL_SHARDS)


def test_a_node_that_leaves_does_not_wait_until_it_can_serve_what_came() -> None:
    """SIGTERM while it becomes the gateway: the process that would serve the system shard is not made any more."""
    datacenter = Datacenter()
    node = datacenter.node()
    node.ownership.taken = lambda shards, then: None if SYSTEM_SHARD in shards else then()
    datacenter.until(lambda: len(node.ownership.owned) == KEY_SHARDS)
    left: list[bool] = []
    node.ownership.hand_all_over(lambda: left.append(True))
    datacenter.until(lambda: bool(left), 3 * TICK_MS)
    assert datacenter.tables.sessions[node.ownership.session].fenced
    other = datacenter.node()
    datacenter.until(lambda: other.ownership.owned == set(ALL_SHARDS), 3 * TICK_MS)


def test_a_shard_that_does_not_come_to_rest_is_served_again_and_goes_another_time() -> None:
    datacenter = Datacenter()
    first = datacenter.node()
    datacenter.until(lambda: len(first.ownership.owned) == len(ALL_SHARDS))
    waiting: list[Callable[[bool], None]] = []
    first.ownership.quiesce = lambda _, done: waiting.append(done)
    datacenter.node()
    datacenter.until(lambda: bool(waiting))
    assert first.ownership.leaving == {KEY_SHARDS}
    waiting.pop()(False)
    assert len(first.ownership.owned) == len(ALL_SHARDS)
    datacenter.until(lambda: bool(waiting))
    waiting.pop()(True)
    datacenter.until(lambda: datacenter.tables.owner(KEY_SHARDS) != first.ownership.session)


@pytest.mark.parametrize("takes_effect", [False, True])
def test_a_hand_over_without_an_answer(takes_effect: bool) -> None:
    """The shard is served by none of them until it is known what became of it, and then by one."""
    datacenter = Datacenter()
    first = datacenter.node()
    datacenter.until(lambda: len(first.ownership.owned) == len(ALL_SHARDS))
    lost: list[Statement] = []

    def lose(statement: Statement) -> bool:
        if statement.name != "give" or lost:
            return False
        lost.append(statement)
        if takes_effect:
            statement.run()
        datacenter.world.after(STATEMENT_US, partial(first.over, statement.lose))
        return True

    first.fate = lose
    second = datacenter.node()
    datacenter.until(lambda: bool(lost))
    while not second.ownership.owned:
        assert KEY_SHARDS not in first.ownership.owned
        datacenter.run(1)
    datacenter.until(lambda: datacenter.is_spread(2))
    if not takes_effect:
        lost[0].run()
        datacenter.run(2 * TICK_MS)
        assert datacenter.is_spread(2), "the late one finds another epoch"


def test_a_session_is_asked_for_until_the_database_answers() -> None:
    datacenter = Datacenter()
    node = SessionNode(datacenter)
    node.is_away = True
    opened: list[bool] = []
    node.ownership.open(lambda: opened.append(True))
    datacenter.run(2_000)
    assert node.ownership.owner_of(1) is None
    node.is_away = False
    datacenter.until(lambda: bool(opened))
    assert datacenter.tables.sessions[node.ownership.session].lease_end_ms - node.now_ms() <= LEASE_MS / 2
    assert node.ownership.owned == set(), "it takes nothing before it starts"


def test_a_node_that_was_stopped_asks_no_more() -> None:
    datacenter = Datacenter()
    node = datacenter.node()
    datacenter.until(lambda: bool(node.ownership.owned))
    node.ownership.stop()
    node.fate = lambda statement: pytest.fail(f"asked for {statement.name}")
    datacenter.run(2_000)
    assert node.ended is None


def test_the_age_of_the_table_grows_while_the_database_is_away() -> None:
    datacenter = Datacenter()
    node = datacenter.node()
    datacenter.run(3 * TICK_MS)
    assert node.ownership.table_age_ms <= LEASE_MS / 5 + 1, "a session looks as often as it renews its lease"
    node.is_away = True
    datacenter.run(5_000)
    assert node.ownership.table_age_ms >= 5_000
    node.is_away = False
    datacenter.run(3 * TICK_MS)
    assert node.ownership.table_age_ms <= LEASE_MS / 5 + 1
