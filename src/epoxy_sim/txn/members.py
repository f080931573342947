"""Changes of members as the ordered engine sees them: configurations and the ends of terms come from registers that do
not fail, and machines hear of them sooner or later. The simulation of members plays the real ones."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from random import Random

from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, both_sides
from epoxy.model.members import Pair
from epoxy.protocol.members.changes import is_enough, promote, undo
from epoxy.protocol.members.effects import Span
from epoxy.store.txn_pages import ValueSpace
from epoxy_sim.txn.judge import TxnJudge
from epoxy_sim.txn.machine import TxnLife, TxnMachine
from epoxy_sim.txn.plan import TxnMembersChange, TxnPlan
from epoxy_sim.world import World

TICK_US = 10_000
"""Between two checks of how far the members are: a few in each phase of a change."""

LONGEST_US = 60_000
"""From a machine to a register, or back."""

GIVEN_UP = 0.2
"""The chance at each check: before a term's end is decided, after it, or when newcomers have copied the term."""

PAGE = 2
"""Values in one page: a few keys must make several, or nothing happens between two of them."""


class Members:
    def __init__(
        self, plan: TxnPlan, config: ClusterConfig, world: World, judge: TxnJudge, machines: Sequence[TxnMachine]
    ) -> None:
        self.config = config
        self.ends: dict[int, bytes] = {}
        self.calm = False
        self._changes = list(plan.changes)
        self._hearing = {machine.id: 0.0 if machine.id in plan.deaf else plan.hearing for machine in machines}
        self._dice = Random(f"members/{plan.seed}")
        self._world = world
        self._judge = judge
        self._machines = {machine.id: machine for machine in machines}
        self._given_up = False
        self._copying: dict[int, TxnLife] = {}

    @property
    def done(self) -> bool:
        return not self._changes and not self.config.is_joint

    @property
    def lives(self) -> list[TxnLife]:
        return [each.life for each in self._machines.values() if isinstance(each.life, TxnLife)]

    def start(self) -> None:
        if self._changes:
            self._tick()

    def _tick(self) -> None:
        for life in self.lives:
            if self._hears(life):
                self._world.after(self._dice.randrange(LONGEST_US), partial(self._tell, life, self.config))
        if self.config.is_joint:
            self._see_to_newcomers()
            self._end_joint()
        elif self._changes and self._world.now_us >= self._changes[0].at_us:
            self._begin_joint(self._changes.pop(0))
        if not self._is_known_everywhere():
            self._world.after(TICK_US, self._tick)

    def _is_known_everywhere(self) -> bool:
        """Only machines that are up hear of configurations, so this can be required only when faults have ended."""
        known = all(self._is_up_to_date(life) for life in self.lives)
        return self.done and self.calm and known and len(self.lives) == len(self._machines)

    def _is_up_to_date(self, life: TxnLife) -> bool:
        return life.replica.config == self.config and life.engine.replica.number >= self.config.term

    def _hears(self, life: TxnLife) -> bool:
        return self.calm or self._dice.random() < self._hearing[life.machine.id]

    def _tell(self, life: TxnLife, config: ClusterConfig) -> None:
        life.ends.update(islice(self.ends.items(), self._dice.randint(0, len(self.ends))))
        if life.machine.life is life and life.replica.config.epoch < config.epoch:
            life.hear(config)

    # The registers

    def decide_end(self, life: TxnLife, term: int, value: bytes, done: Callable[[bytes | None], None]) -> None:
        """A machine proposes how a term ended; the proposal may arrive late, and its answer may be lost."""

        def arrive() -> None:
            decided = self.ends.setdefault(term, value)
            known = decided if self._hears(life) else None
            self._world.after(self._dice.randrange(LONGEST_US), lambda: life.run(lambda: done(known)))

        self._world.after(self._dice.randrange(LONGEST_US), arrive)

    def _publish(self, config: ClusterConfig) -> None:
        self.config = config
        self._judge.members.setdefault(config.term, frozenset(config.electorate))
        self._world.note(f"epoch {config.epoch}: {config.previous} to {config.active}, term {config.term}")

    def _begin_joint(self, change: TxnMembersChange) -> None:
        for i in change.wiped:
            if i not in self.config.active:
                self._machines[i].wipe(self.config)
        old, new = set(self.config.active), set(change.members)
        replicas = tuple(
            ReplicaInfo(
                id=i,
                status=ReplicaStatus.ACTIVE if i in new else ReplicaStatus.LEAVING,
                identity=self._machines[i].identity,
            )
            for i in sorted(old | new)
        )
        self._given_up = change.given_up
        previous = self.config.active
        self._publish(replace(self.config, epoch=self.config.epoch + 1, replicas=replicas, previous=previous))

    def _end_joint(self) -> None:
        config = self.config
        heard = [life for life in self.lives if life.replica.config.epoch == config.epoch and not life.store.pending]
        assert config.sides is not None
        assert config.previous is not None
        if self._given_up and both_sides(config.sides, {life.machine.id for life in heard}):
            if self._dice.random() > GIVEN_UP:
                return
            self._publish(undo(config, set(config.previous), config.coordinator_id))
            return
        synced = {life.machine.id for life in heard if life.engine.terms.is_complete(config.term)}
        added = set(config.active) - set(config.previous)
        if is_enough(set(config.active), added, synced):
            self._publish(promote(config, config.coordinator_id))

    # Newcomers

    def _see_to_newcomers(self) -> None:
        sources = [life for life in self.lives if self._is_source(life)]
        for life in self.lives:
            if sources and self._is_new(life) and self._copying.get(life.machine.id) is not life:
                self._copying[life.machine.id] = life
                self._soon(partial(self._page, life, self._dice.choice(sources), None))

    def _is_source(self, life: TxnLife) -> bool:
        return self._is_here(life) and life.engine.terms.is_complete(self.config.term)

    def _is_new(self, life: TxnLife) -> bool:
        wanted = life.machine.id in self.config.active
        return self._is_here(life) and wanted and life.engine.terms.needs_copy(self.config.term)

    def _is_here(self, life: TxnLife) -> bool:
        return life.machine.life is life and life.replica.config == self.config and self.config.is_joint

    def _soon(self, action: Callable[[], None]) -> None:
        self._world.after(self._dice.randrange(LONGEST_US // 4), action)

    def _page(self, taker: TxnLife, giver: TxnLife, after: bytes | None) -> None:
        if not (self._is_new(taker) and self._is_source(giver)):
            self._copying.pop(taker.machine.id, None)
            return
        held = ValueSpace(giver.machine.id).held(giver.store.newest(), after, None)
        pairs = tuple(islice(held, PAGE))
        through = pairs[-1].key if len(pairs) == PAGE else None
        taker.run(lambda: self._take(taker, giver, Span(after=after, through=through), pairs))

    def _take(self, taker: TxnLife, giver: TxnLife, span: Span, pairs: tuple[Pair, ...]) -> None:
        space = ValueSpace(taker.machine.id)
        taker.store.transact(partial(space.replace, spans=(span,), pairs=pairs))
        if span.through is not None:
            self._soon(partial(self._page, taker, giver, span.through))
            return
        term = self.config.term
        taker.engine.terms.keep(tuple(giver.engine.terms.kept(None, 1 << 20)))
        taker.engine.terms.install(term)
        self._copying.pop(taker.machine.id, None)
        taker.store.when_durable(lambda: self._judge.copied(taker.machine.id, term))
