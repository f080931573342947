"""The grants that are in force at this node.

They are one value of the cluster. A node has it from its store at start and learns a change by its commit. Commits are
sent once and may be lost, so a node that asks for tokens also reads the value from a quorum every two seconds: a change
reaches every node that reaches a quorum within MISSED_S. A node that reaches none goes on with what it knows.

A value that cannot be read never opens a node: the last table that could be read stays in force, and if there was none,
no token is accepted.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial

from epoxy.model.access import ACCESS_KEY, AccessTable
from epoxy.model.errors import CodecError, InvalidRequest, RottenRow
from epoxy.model.records import KeyState, Proposal, Vote
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, Outcome, ReadFailed, ReadOutcome, Refused, Write
from epoxy.node.access.table_record import decode_table, encode_table
from epoxy.node.keys.driver import Driver
from epoxy.ports import Dice, Store, Timer
from epoxy.protocol.access.grants import PrincipalIndex
from epoxy.protocol.access.principal import Principal
from epoxy.protocol.access.tokens import TOKEN_LENGTH, digest_of

MISSED_S = 5.0
"""A change that was committed is in force everywhere it can be learned after this time at most: one pause between two
reads, and the rounds of one."""

POLL_MS = 2_000.0
"""Between two reads of the value, and half as much more or less: nodes that start together do not ask together."""

FIRST_POLL_MS = 250.0
"""Until the first read has succeeded: the store may be older than a grant that was revoked while the node was down."""

END_MS = 20.0
"""How late a grant may end. Two clocks are involved, so a timer may ring before the end."""

POLLS_UNDER_WAY = 2
"""A read that finds no quorum tries again for some seconds by itself. One more begins meanwhile, and no third."""

MAX_TRIES = 8
"""Of several operators at once, one writes first, and the others try again. More than a few at once are a mistake."""

Edit = Callable[[AccessTable], AccessTable]
"""Raises InvalidRequest. May be called several times."""

Edited = AccessTable | InvalidRequest | Refused | ConsensusFailed


class AccessControl:
    def __init__(
        self,
        driver: Driver,
        store: Store,
        dice: Dice,
        alarm: Callable[[str], None],
        *,
        is_open: bool,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        """`is_open`: clients are not asked for tokens. The table is followed all the same, so that tokens can be made
        before they are asked for."""
        self.is_open = is_open
        self.generation = 0
        """Changes with everything that is in force here: clients that were let in are looked up again."""
        self.watchers: list[Callable[[], None]] = []
        """Called when it has changed."""
        self.table = AccessTable()
        self.version = 0
        """Of the value in the cluster that the table was read from; 0: there is none."""
        self.confirmed_ms: float | None = None
        """When a read of the value from a quorum last succeeded; None: never since the start."""
        self._driver = driver
        self._replica = driver.replica
        self._store = store
        self._clock = driver.clock
        self._dice = dice
        self._alarm = alarm
        self._unix_s = unix_s
        self._unreadable = 0
        self._index = PrincipalIndex(self.table, self._now_s())
        self._polls = 0
        self._open_vote: Vote | None = None
        """Of this replica, for a version that was not decided when it was last looked at."""
        self._timer: Timer | None = None
        self._is_running = False
        self._replica.short_watchers.append((self._committed, None))
        self._load()

    def start(self) -> None:
        self._is_running = True
        if not self.is_open:
            self._poll()

    def stop(self) -> None:
        self._is_running = False
        if self._timer is not None:
            self._timer.cancel()

    # The principal of a client

    def of_token(self, token: bytes) -> Principal | None:
        """None: unknown, revoked or ended."""
        return self._index.of_digest(digest_of(token)) if len(token) == TOKEN_LENGTH else None

    def of_certificate(self, names: Iterable[str]) -> Principal | None:
        return self._index.of_certificate(names)

    def of_name(self, name: str) -> Principal | None:
        """For a client that was let in under this name, after `generation` has changed. One that came with a token asks
        `of_token` again, which may have been replaced under the same name."""
        return self._index.by_name.get(name)

    # Changes

    def change(self, edit: Edit, answered: Callable[[Edited], None], tries: int = MAX_TRIES) -> None:
        """Write the edited table, if no other change comes between; if one does, edit what that one made."""

        def found(outcome: ReadOutcome) -> None:
            if isinstance(outcome, ReadFailed):
                answered(Refused(reason=outcome.reason))
                return
            committed = outcome.committed
            try:
                before = decode_table(committed.value) if committed is not None else AccessTable()
                after = edit(before)
                value = encode_table(after)
            except CodecError as error:
                answered(Refused(reason=f"the grants that are in force cannot be changed: {error}"))
            except InvalidRequest as error:
                answered(error)
            else:
                version = committed.version if committed is not None else 0
                write = Write(key=ACCESS_KEY, value=value, mutable=True, if_version=version)
                self._driver.write(write, partial(written, after))

        def written(after: AccessTable, outcome: Outcome) -> None:
            match outcome:
                case Committed():
                    self._adopt(outcome.proposal)
                    answered(after)
                case Refused() | ConsensusFailed():
                    answered(outcome)
                case _ if tries > 1:
                    self.change(edit, answered, tries - 1)
                case _:
                    answered(Refused(reason="others change the grants at the same time"))

        self._driver.read(ACCESS_KEY, Consistency.LINEARIZABLE, found)

    # What is in force

    def _load(self) -> None:
        """What this store has. A row that is damaged is read from the other replicas instead."""
        try:
            here = self._replica.peek(ACCESS_KEY, use_cache=False)
        except RottenRow:
            return
        if here is not None and here.committed is not None:
            self._adopt(here.committed)

    def _committed(self, key: bytes, _before: KeyState, after: KeyState) -> None:
        """Only what is durable counts: what is not could be lost with this process."""
        if key == ACCESS_KEY and after.committed is not None:
            self._store.when_durable(partial(self._adopt, after.committed))

    def _adopt(self, committed: Proposal) -> None:
        """News come by several ways and in any order: an older version changes nothing."""
        if committed.version <= max(self.version, self._unreadable):
            return
        try:
            table = decode_table(committed.value)
        except CodecError as error:
            self._unreadable = committed.version
            self._alarm(
                f"the grants of version {committed.version} cannot be read, those before stay in force: {error}"
            )
            return
        self.table, self.version = table, committed.version
        self._renew()

    def _renew(self) -> None:
        self._index = PrincipalIndex(self.table, self._now_s())
        self.generation += 1
        for watcher in self.watchers:
            watcher()

    def _now_s(self) -> int:
        return int(self._unix_s())

    # What was missed

    def _poll(self) -> None:
        """Reading causes no sync: the answer of a replica waits for its disk only if something was written."""
        if self._is_running:
            self._end_what_is_over()
            if self._polls < POLLS_UNDER_WAY:
                self._polls += 1
                self._driver.read(ACCESS_KEY, Consistency.LINEARIZABLE, self._polled)
            self._timer = self._clock.call_later(self._pause_ms(), self._poll)

    def _polled(self, outcome: ReadOutcome) -> None:
        self._polls -= 1
        if isinstance(outcome, ReadFailed):
            return
        self.confirmed_ms = self._clock.now_ms()
        here = self._driver.serves(ACCESS_KEY)
        if outcome.committed is not None:
            if here:
                self._keep(outcome.committed)
            self._adopt(outcome.committed)
        if here:
            self._settle()

    def _keep(self, committed: Proposal) -> None:
        """The next start of this node knows it, too. A row that is damaged is left to its repair."""
        try:
            if committed.version > self._replica.version(ACCESS_KEY):
                self._replica.learn(ACCESS_KEY, committed)
        except RottenRow:
            pass

    def _settle(self) -> None:
        """A change that failed leaves the vote of its replica behind. If its proposer is silent, or the epoch has
        changed since, every read of a quorum asks all replicas for promises because of it, with a sync each, until the
        next change is decided. If this replica has such a vote, it makes that change: the same table once more."""
        try:
            newest, (_, vote) = self._replica.newest(ACCESS_KEY), self._replica.in_flight(ACCESS_KEY)
        except RottenRow:
            return
        version = newest.version if newest is not None else 0
        value = newest.value if newest is not None else encode_table(AccessTable())
        seen, self._open_vote = self._open_vote, vote if vote is not None and vote.proposal.version > version else None
        if self._open_vote is not None and self._open_vote == seen:
            self._driver.write(Write(key=ACCESS_KEY, value=value, mutable=True, if_version=version), lambda _: None)

    def _pause_ms(self) -> float:
        """Until the next read, or the next end of a grant."""
        pause_ms = (POLL_MS if self.confirmed_ms is not None else FIRST_POLL_MS) * (0.5 + self._dice.uniform())
        end_s = self._index.next_end_s
        return min(pause_ms, max(END_MS, 1000 * (end_s - self._unix_s()))) if end_s else pause_ms

    def _end_what_is_over(self) -> None:
        """By this node's clock."""
        if 0 < self._index.next_end_s <= self._unix_s():
            self._renew()
