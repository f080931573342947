"""How a shard leaves a node: what is under way ends here, is durable and forgotten, before another node has it."""

from collections.abc import Callable
from functools import partial

from epoxy.model.shards import shard_of
from epoxy.node.keys.driver import Driver
from epoxy.ports import Clock

QUIESCE_MS = 10.0
"""Between two looks at the writes of a shard that is to be handed over."""

QUIESCE_LOOKS = 500
"""A write ends within a few round trips, or its quorum is away: after five seconds the shard stays for now."""


class ShardHandover:
    """`runs`: whether the rules of a key run here by the table of owners. `gone` is called when a shard has left: what
    is cached of its keys may change elsewhere."""

    def __init__(
        self,
        driver: Driver,
        when_durable: Callable[[Callable[[], None]], None],
        clock: Clock,
        runs: Callable[[bytes], bool],
    ) -> None:
        self._driver = driver
        self._when_durable = when_durable
        self._clock = clock
        self._runs = runs
        self._ending: set[int] = set()
        """Shards that are to be handed over, whose writes under way end here."""
        self.gone: Callable[[], None] = lambda: None
        driver.replica.owns = self.owns

    def owns(self, key: bytes) -> bool:
        return self._runs(key) or shard_of(key) in self._ending

    @property
    def is_busy(self) -> bool:
        """Whether writes of any shard are under way."""
        return any(True for _ in self._driver.busy_keys())

    def quiesce(self, shard: int, done: Callable[[bool], None], looks: int = QUIESCE_LOOKS) -> None:
        """By `runs` the shard is not owned here any more. Call with True when what was under way has ended, is durable
        and forgotten; with False if it does not end."""
        is_busy = any(shard_of(key) == shard for key in self._driver.busy_keys())
        if is_busy and looks:
            self._ending.add(shard)
            self._clock.call_later(QUIESCE_MS, partial(self.quiesce, shard, done, looks - 1))
            return
        self._ending.discard(shard)
        if is_busy:
            done(False)
        else:
            self._when_durable(partial(self._leave, done))

    def _leave(self, done: Callable[[bool], None]) -> None:
        self._driver.replica.forget_states()
        self._driver.leases.forget_others()
        self.gone()
        done(True)
