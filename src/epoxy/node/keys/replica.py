"""One message, one transaction.

For each request of a peer and each operation of a local flow, the key's state is loaded, a pure rule is applied, and
the change is stored, all in one transaction. The answer leaves when everything it rests on is durable, also what other
transactions wrote before it: a refusal, too, tells what was read.

A key's vote, its commit and its next version come close together, so the states of the last keys are cached.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from epoxy.codec.plain_requests import Incoming, PlainRequest, decoded
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig
from epoxy.model.errors import RottenRow, StoreUnavailable
from epoxy.model.instances import InTerm
from epoxy.model.messages import (
    Accept,
    Carry,
    CarryAnswers,
    CarryRequest,
    Commit,
    CommitConflict,
    ConfigOk,
    Failed,
    HigherBallot,
    Inspect,
    Inspected,
    KeyRequest,
    Prepare,
    Read,
    Reply,
    Request,
    UpdateConfig,
)
from epoxy.model.records import FRESH, ChangelogEntry, ExpiryEntry, KeyState, Proposal, Vote
from epoxy.model.writes import ReadResult, Source
from epoxy.node.keys.key_state_cache import KeyStateCache
from epoxy.node.keys.plain_requests import PlainRequests
from epoxy.node.keys.urgency import ends, is_news, rides
from epoxy.node.members import config_record
from epoxy.ports import Store, Transaction
from epoxy.protocol.effects import Adopt
from epoxy.protocol.keys import acceptor, local
from epoxy.protocol.keys.operations import Cache, Conclude, KeyOp, LocalOp, Peek, Reserve, Select
from epoxy.protocol.keys.restoring import restored
from epoxy.store.keyspace import Keyspace

KEYED = (Accept, Commit, Read, Prepare, Inspect, Carry, CarryAnswers, Select, Conclude, Reserve, Peek, Cache)
"""What is about one key."""

RULED = (Select, Conclude, Reserve, Commit)
"""Operations that apply a rule to the state of a key."""

Dispatch = Callable[[Sequence[Request], Callable[[Sequence[Reply]], None]], None]
"""Handles requests in order, and answers all of them."""

NOT_OWNED = Failed(reason="another node of this datacenter owns the key now")

INSPECTED_ROWS = 1_000
"""Rows of the changelog that an inspection reads: a few milliseconds of the event loop."""

INSPECTED_STAMPS = 64
"""As many as the schema allows."""

Watcher = Callable[[bytes, KeyState, KeyState], None]
"""Called after a change of a key's state, right after its transaction and before that is durable."""

ShortWatcher = Callable[[PlainRequest], bool]
"""Called with a Commit that came as a plain request, in place of a watcher that can do without states. False: it wants
them for this one."""


class Replica:
    def __init__(
        self, me: int, store: Store, config: ClusterConfig, alarm: Callable[[str], None], *, follows: bool = False
    ) -> None:
        """`config` is the operator's epoch 1, for a store that holds none yet. `follows`: another node of the
        datacenter adopts configurations for the replica, and this one is told of those that are durable."""
        self.me = me
        self._follows = follows
        self._held: deque[Callable[[], None]] | None = None
        self.watchers: list[Watcher] = []
        """Called for every change."""
        self.commit_watchers: list[Watcher] = []
        """Called for new versions."""
        self.short_watchers: list[tuple[Watcher, ShortWatcher | None]] = []
        """The same, each with its short form. None: values of clients' keys are nothing to it."""
        self.config_watchers: list[Watcher] = []
        """Called for new configurations."""
        self.ordered: Callable[[InTerm], Reply] = not_ordered_here
        """Handles requests of the ordered engine."""
        self.carried: Callable[[CarryRequest], Reply] = not_folded_here
        """Handles writes that are folded elsewhere than at their home."""
        self.refused: Callable[[Accept], None] = not_watched
        """Called for each Accept that was refused for another vote or promise."""
        self.queued: Callable[[bytes], tuple[int, int]] = none_queued
        """The owner of a key by this replica's hint, 0 if there is none, and how many writes wait."""
        self.learn_elsewhere: Callable[[Sequence[ChangelogEntry], Callable[[int], None]], None] = all_here
        """Decisions about keys that other nodes of this datacenter own: tries until they are learned there, and calls
        with the number of news."""
        self.rest_first: Callable[[Callable[[], None]], None] | None = None
        """At the gateway of a datacenter: lets the other nodes come to rest, before a configuration is adopted."""
        self.owns: Callable[[bytes], bool] = every_key
        """Whether the rules of this key run here, in a datacenter of several nodes."""
        self.early = False
        """Whether Accepts leave before the own vote is durable: see `node.members.early_accepts`."""
        self._store = store
        self._states = KeyStateCache()
        self.keyspace = Keyspace(me, shared=store.loads_ahead)
        self.plain = PlainRequests(self, store, self._states)
        self._alarm = alarm
        self.config = config
        self._begin(config)

    def handle(self, requests: Sequence[Incoming], answered: Callable[[Reply], None]) -> None:
        """Handle requests in order, and answer the last one."""
        self.handle_all(requests, lambda replies: answered(replies[-1]))

    def handle_all(self, requests: Sequence[Incoming], answered: Callable[[list[Reply]], None]) -> None:
        """A frame from a peer: each request is a transaction of its own, and all replies wait for one sync,
        which begins at once unless all requests are news."""
        if self._store.loads_ahead:
            whole = [decoded(each) for each in requests]
            self._when_near(whole, partial(self._handle_owned, whole, answered))
        else:
            replies = [self._request(request) for request in requests]
            self._store.when_durable(partial(answered, replies), urgent=not all(map(is_news, requests)))

    def _when_near(self, operations: Sequence[Request | LocalOp], then: Callable[[], None]) -> None:
        """When the rows of the keys that these name are in memory: rules do not wait."""
        keys = [each.key for each in operations if isinstance(each, KEYED)]
        self._store.load([row for key in keys for row in self.keyspace.rows_of(key)], then)

    def perform(self, op: LocalOp, done: Callable[[object], None]) -> None:
        """An operation of a local flow. Rows of a key whose state is known are not read."""
        if not self._store.loads_ahead:
            self._perform(op, done)
        elif isinstance(op, RULED) and self._states.get(op.key) is not None:
            self._perform_owned(op, done)
        else:
            self._when_near((op,), partial(self._perform_owned, op, done))

    def _perform(self, op: LocalOp, done: Callable[[object], None]) -> None:
        """The commonest first."""
        match op:
            case Select() | Conclude() | Reserve() | Commit():
                result = self._operation(op)
                if rides(op, result, early=self.early):
                    done(result)
                else:
                    self._store.when_durable(partial(done, result))
            case Peek():
                done(self.peek(op.key, use_cache=op.use_cache))
            case Cache():
                self._store.transact(lambda tx: self.keyspace.cache(tx, op.key, op.proposal))
                done(None)
            case Adopt():
                config = self._adopt(op.config)
                self._store.when_durable(partial(done, config))
            case _:
                assert_never(op)

    def _request(self, request: Incoming) -> Reply:
        """A key whose row is rotten has no reply: neither "nothing is committed" nor a vote. Other requests of the
        frame are not affected."""
        try:
            if isinstance(request, PlainRequest):
                reply = self.plain.handle(request)
                return reply if reply is not None else self._reply(request.decoded())
            return self._reply(request)
        except (RottenRow, StoreUnavailable) as error:
            return Failed(reason=str(error))

    def _reply(self, request: Request) -> Reply:
        match request:
            case Accept() | Commit() | Read() | Prepare():
                return self._key_request(request, urgent=not is_news(request))
            case UpdateConfig():
                return ConfigOk(epoch=self._adopt(request.config).epoch)
            case Inspect():
                return self._store.transact(lambda tx: self._inspect(tx, request.key))
            case Carry() | CarryAnswers():
                return self.carried(request)
            case _:
                return self.ordered(request)

    def _key_request(self, request: KeyRequest, *, urgent: bool = True) -> Reply:
        key = request.key
        before = self._state(key)
        after, reply = acceptor.step(before, request, self.config)
        if after is not before:
            self._move(key, before, after, urgent=urgent or ends(before.committed))
        else:
            self._states.put(key, after)
            if isinstance(reply, HigherBallot):
                if isinstance(request, Accept):
                    self.refused(request)
            elif isinstance(reply, CommitConflict):
                self._alarm(
                    f"two values for one instance: {request} against {reply.committed}; nothing was overwritten"
                )
        return reply

    def _inspect(self, tx: Transaction, key: bytes) -> Inspected:
        state = self.keyspace.load(tx, key)
        owner, waiting = self.queued(key)
        return Inspected(
            epoch=self.config.epoch,
            committed=state.committed,
            lineage=state.lineage,
            promised=state.promised,
            vote=state.vote,
            cached=self.keyspace.cached(tx, key),
            changelog=self.keyspace.stamps_of(tx.snapshot, key, INSPECTED_ROWS, INSPECTED_STAMPS),
            owner=owner,
            waiting=waiting,
        )

    def _operation(self, op: KeyOp) -> object:
        key = op.key
        before = self._state(key)
        after, result = local.perform(before, op, self.config)
        if after is not before:
            self._move(key, before, after, urgent=not rides(op, result, early=self.early))
        else:
            self._states.put(key, after)
        return result

    # The one transaction, in two halves: nothing comes between them, because nothing here waits.

    def _state(self, key: bytes) -> KeyState:
        known = self._states.get(key)
        return known if known is not None else self.keyspace.load(self._store.newest(), key)

    def _move(self, key: bytes, before: KeyState, after: KeyState, *, urgent: bool = True) -> None:
        rows, entry = self.keyspace.changes(self._store.newest(), key, before, after)
        self._store.put(rows, entry, urgent=urgent)
        self._states.put(key, after)
        self._changed(key, before, after)

    def _changed(self, key: bytes, before: KeyState, after: KeyState) -> None:
        if key == CONFIG_KEY and after.committed is not None:
            self.config = config_record.from_proposal(after.committed)
        for watcher in self.watchers:
            watcher(key, before, after)
        if after.committed is not before.committed:
            for watcher in self.commit_watchers:
                watcher(key, before, after)
            for watcher, _ in self.short_watchers:
                watcher(key, before, after)
            if key == CONFIG_KEY:
                for watcher in self.config_watchers:
                    watcher(key, before, after)

    def newest(self, key: bytes) -> Proposal | None:
        """The newest committed version, durable or not."""
        known = self._states.get(key)
        return known.committed if known is not None else self.keyspace.committed(self._store.newest(), key)

    def peek(self, key: bytes, *, use_cache: bool) -> ReadResult | None:
        """Only what is durable is shown: a commit record that is not could still be lost, and with it the value."""
        view = self._store.durable()
        committed = self.keyspace.committed(view, key)
        if committed is not None:
            return ReadResult(committed=committed, source=Source.LOCAL if committed.version else Source.LEGACY)
        cached = self.keyspace.cached(view, key) if use_cache else None
        return ReadResult(committed=cached, source=Source.CACHE) if cached is not None else None

    def expiring(self, after: bytes | None, limit: int) -> list[tuple[bytes, ExpiryEntry]]:
        """The next keys beyond `after` whose committed value ends."""
        return self.keyspace.expiring(self._store.newest(), after, limit)

    def in_flight(self, key: bytes) -> tuple[Ballot, Vote | None]:
        """Promise and vote of a key whose committed row cannot be read."""
        return self.keyspace.in_flight(self._store.newest(), key)

    def restore(self, key: bytes, found: Proposal) -> bool:
        """Write the rows of a key anew whose committed row is rotten, with what a quorum of the others knows. If the
        row was written meanwhile, that stays, and this is learned as any other decision. False: what was found does not
        fit this replica's own vote. Not durable yet."""
        view = self._store.newest()
        try:
            self.keyspace.committed(view, key)
        except RottenRow:
            state = restored(found, *self.keyspace.in_flight(view, key))
            if state is None:
                return False
            self._store.put(*self.keyspace.restored(view, key, state))
            self._states.put(key, state)
            short = [watcher for watcher, _ in self.short_watchers]
            for watcher in (*self.watchers, *self.commit_watchers, *short):
                watcher(key, KeyState(committed=found), state)
        else:
            self.learn(key, found)
        return True

    def learn(self, key: bytes, proposal: Proposal) -> None:
        """A decision found elsewhere. Not durable yet."""
        self._key_request(Commit(key=key, epoch=self.config.epoch, proposal=proposal))

    def learn_all(self, entries: Sequence[ChangelogEntry], beside: Callable[[Transaction], None]) -> int:
        """Decisions found elsewhere, in one transaction with what is written beside them. How many were news here. Not
        durable yet."""
        changes, conflicts = self._store.transact(partial(self._learn_all, entries, beside))
        for key, before, after in changes:
            if self._states.entry(key) is not None:
                self._states.put(key, after)
            self._changed(key, before, after)
        for entry in conflicts:
            self._alarm(f"two values for one instance: {entry} was found elsewhere; nothing was overwritten")
        return len(changes)

    def learn_owned(
        self, entries: Sequence[ChangelogEntry], beside: Callable[[Transaction], None], done: Callable[[int], None]
    ) -> None:
        """As `learn_all`, and call when it is durable with the number of news. Entries of keys that other nodes of this
        datacenter own are learned there, before what is written beside them here."""
        others = [entry for entry in entries if not self.owns(entry.key)]
        if others:
            own = [entry for entry in entries if self.owns(entry.key)]
            # Meanwhile shards may go: the others are found anew.
            self.learn_elsewhere(others, lambda news: self.learn_owned(own, beside, lambda more: done(news + more)))
        elif self._store.loads_ahead:
            # A page has a thousand keys, and row by row the event loop would stand still for longer than a lease.
            rows = [row for entry in entries for row in self.keyspace.rows_of(entry.key)]
            self._store.load(rows, partial(self._learn_loaded, entries, beside, done))
        else:
            self._learn_own(entries, beside, done)

    def _learn_loaded(
        self, entries: Sequence[ChangelogEntry], beside: Callable[[Transaction], None], done: Callable[[int], None]
    ) -> None:
        if all(self.owns(entry.key) for entry in entries):
            self._learn_own(entries, beside, done)
        else:
            self.learn_owned(entries, beside, done)

    def _learn_own(
        self, entries: Sequence[ChangelogEntry], beside: Callable[[Transaction], None], done: Callable[[int], None]
    ) -> None:
        self._store.when_durable(partial(done, self.learn_all(entries, beside)))

    def _learn_all(
        self, entries: Sequence[ChangelogEntry], beside: Callable[[Transaction], None], tx: Transaction
    ) -> tuple[list[tuple[bytes, KeyState, KeyState]], list[ChangelogEntry]]:
        """Each entry as if it had come alone. May run twice, so watchers are called later."""
        states = dict(self.keyspace.held(tx, [entry.key for entry in entries]))
        changes: list[tuple[bytes, KeyState, KeyState]] = []
        conflicts: list[ChangelogEntry] = []
        for entry in entries:
            before = states.get(entry.key, FRESH)
            after, reply = acceptor.learn(before, entry.committed)
            if after is not before:
                self.keyspace.save(tx, entry.key, before, after)
                states[entry.key] = after
                changes.append((entry.key, before, after))
            elif isinstance(reply, CommitConflict):
                conflicts.append(entry)
        beside(tx)
        return changes, conflicts

    def version(self, key: bytes) -> int:
        """The committed version, perhaps not durable yet."""
        return self.state(key).version

    def state(self, key: bytes) -> KeyState:
        """Perhaps not durable yet."""
        return self._state(key)

    def when_durable(self, done: Callable[[], None]) -> None:
        self._store.when_durable(done)

    # One of several nodes of a datacenter

    def _handle_owned(self, requests: Sequence[Request], answered: Callable[[list[Reply]], None]) -> None:
        """Looked at now, because a shard may have gone while rows were loaded."""
        if self.rest_first is not None and any(self._may_adopt(each) for each in requests):
            self.rest_first(partial(self._handle_rested, requests, answered))
        else:
            self._handle_rested(requests, answered)

    def _handle_rested(self, requests: Sequence[Request], answered: Callable[[list[Reply]], None]) -> None:
        if self._held is not None and not all(isinstance(request, UpdateConfig) for request in requests):
            self._held.append(partial(self._handle_rested, requests, answered))
            return
        replies = [self._request(each) if self._owns(each) else NOT_OWNED for each in requests]
        self._store.when_durable(partial(answered, replies))

    def _perform_owned(self, op: LocalOp, done: Callable[[object], None]) -> None:
        """A flow whose shard has gone ends as it would in a crash: its client is told that the outcome is unknown."""
        if self._held is not None:
            self._held.append(partial(self._perform_owned, op, done))
        elif self.rest_first is not None and self._may_adopt(op):
            self.rest_first(partial(self._perform, op, done))
        elif self._owns(op):
            self._perform(op, done)

    def _may_adopt(self, each: Request | LocalOp) -> bool:
        """Whether the replica may have another configuration after this."""
        if isinstance(each, UpdateConfig | Adopt):
            return each.config.epoch > self.config.epoch
        return isinstance(each, Commit | Conclude) and each.key == CONFIG_KEY

    def _owns(self, each: Request | LocalOp) -> bool:
        return not isinstance(each, KEYED) or self.owns(each.key)

    def hold(self, rested: Callable[[], None]) -> None:
        """Run no rule from here on, and call when all that rules have written is durable. The replica is about to adopt
        a configuration: what was voted under the one before must not become durable after that."""
        if self._held is None:
            self._held = deque()
        self._store.when_durable(rested)

    def release(self) -> None:
        """Go on, with what waited."""
        held, self._held = self._held, None
        for run in held or ():
            run()

    def retire(self) -> None:
        """Run no rule from here on: another replica over the same store takes the place of this one, and states that
        are cached here grow old. Flows under way end as in a crash."""
        self.owns = no_key

    def forget_states(self) -> None:
        """Another node owns some of the keys from here on, and will change them."""
        self._states.clear()

    def _begin(self, config: ClusterConfig) -> None:
        stored = self._store.transact(partial(self.keyspace.committed, key=CONFIG_KEY))
        if stored is not None:
            self.config = config_record.from_proposal(stored)
        elif not self._follows:
            self._adopt(config)
        else:
            raise StoreUnavailable("the database has no configuration yet: the gateway has not started")

    def _adopt(self, config: ClusterConfig) -> ClusterConfig:
        """A configuration is the committed value of CONFIG_KEY, so the acceptor refuses an older one."""
        if self._follows:
            self._follow(config)
            return self.config
        self._key_request(Commit(key=CONFIG_KEY, epoch=config.epoch, proposal=config_record.to_proposal(config)))
        return self.config

    def _follow(self, config: ClusterConfig) -> None:
        """A configuration that another node has made durable for this replica. It is not written here."""
        if config.epoch > self.config.epoch:
            before, self.config = self.config, config
            states = [KeyState(committed=config_record.to_proposal(each)) for each in (before, config)]
            for watcher in self.config_watchers:
                watcher(CONFIG_KEY, *states)
        self.release()


def none_queued(_key: bytes) -> tuple[int, int]:
    """The default of `Replica.queued`."""
    return 0, 0


def every_key(_key: bytes) -> bool:
    """The default of `Replica.owns`."""
    return True


def all_here(_entries: Sequence[ChangelogEntry], _done: Callable[[int], None]) -> None:
    """The default of `Replica.learn_elsewhere`."""
    raise AssertionError("every key is owned here")


def no_key(_key: bytes) -> bool:
    """`Replica.owns` of one that is retired."""
    return False


def not_watched(_: Accept) -> None:
    """The default of `Replica.refused`."""


def not_folded_here(_: CarryRequest) -> Reply:
    return Failed(reason="this node folds no writes")


def not_ordered_here(_: InTerm) -> Reply:
    return Failed(reason="this node does not order transactions")
