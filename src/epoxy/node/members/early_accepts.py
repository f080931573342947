"""Accepts that leave before the own vote is durable, and what a start owes for those of the starts before it.

With exactly three voters a home may ask for votes before its own is durable: its commit comes behind that vote in the
same log, and what is told waits for the commit. What is new is a home that crashes in between. It has forgotten its
vote for v, while another replica holds one, and a later start may put w forward on the same base: a recovery by the
two others would find both, and could not tell which of them the home committed.

So a directory is marked, durably, before the first such Accept, and a start that finds the mark is *forgetful*: its own
proposals of clients' keys go by classic rounds, until both others have said for which of its proposals they hold fast
votes. In an instance of which this replica knows neither a vote, nor a promise, nor the decision it promises a classic
ballot of its own, and so never again takes the fast round there. A replica that has answered has recorded this start,
and votes for no Accept of an earlier one.

Every start asks, forgetful or not, before it sends Accepts early: a peer that cannot answer could not end what this
one may begin. A peer that comes back with another release is asked again.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from epoxy.model.ballot import NO_BALLOT
from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import RottenRow
from epoxy.model.members import FastVotesRead, MemberReply, Unsettled, UnsettledPage
from epoxy.model.records import KeyState
from epoxy.node.keys.driver import Driver
from epoxy.node.members.settle import Settling
from epoxy.ports import StartMark, Store
from epoxy.protocol.keys.operations import Reserve

VOTERS = 3
"""With more of them a recovery subtracts a proposer's own vote from what its rivals may have."""

AGAIN_MS, LONGEST_MS = 100.0, 5_000.0
"""Before a peer that did not answer is asked again, doubled each time: it may be away, or of a release that does
not know the question."""

SLOWLY = "writes of clients take two round trips"

AskPeer = Callable[[int, FastVotesRead, Callable[[MemberReply], None]], None]


def may_be_early(config: ClusterConfig, me: int) -> bool:
    return not config.is_joint and len(config.voters) == VOTERS and me in config.voters


class EarlyAccepts:
    def __init__(self, driver: Driver, store: Store, mark: StartMark, ask: AskPeer) -> None:
        """`ask` calls back once, with Failed if there is no answer."""
        self._driver = driver
        self._replica = driver.replica
        self._store = store
        self._mark = mark
        self._ask_peer = ask
        self.again_ms = AGAIN_MS
        self._pauses_ms: dict[int, float] = {}
        """The next pause of each peer that did not answer."""
        self._answered: set[int] = set()
        """Peers that have answered to the last page in this start."""
        self._asking: set[int] = set()
        """Those whose answer, or next question, is under way."""
        self._ending = self._is_over = False
        self._is_refused = False
        """By the disk, at the last try to mark the directory."""
        self.notice: Callable[[str], None] = ignore
        driver.set_forgetful(mark.is_marked)
        driver.fast_rounds_wait_for = lambda: self.waits_for

    @property
    def is_clean(self) -> bool:
        """Whether no other replica holds a vote for a proposal of this one that is not durable here."""
        return self._is_over and not self._driver.is_forgetful

    @property
    def waits_for(self) -> list[int]:
        """The peers without whose answer this start stays forgetful; empty if it is not."""
        if not self._driver.is_forgetful:
            return []
        config, me = self._replica.config, self._replica.me
        return [peer for peer in config.voters if peer != me and peer not in self._answered]

    def start(self) -> None:
        self._replica.config_watchers.append(self._config_changed)
        if self._driver.is_forgetful:
            self.notice(
                f"the last process did not end in order: until replicas {self.waits_for} have answered, {SLOWLY}"
            )
        self._act()

    def other_release(self, peer: int) -> None:
        """The peer runs another release than before, and may be one that cannot answer the start after this one."""
        if peer in self._answered:
            self._answered.discard(peer)
            self._replica.early = False
            self._store.when_durable(self._unmark)
            self._driver.clock.call_later(0, self._act)

    def _unmark(self) -> None:
        """A crash forgets no vote any more, so the start after it need not ask."""
        if not self._replica.early and not self._driver.is_forgetful:
            with suppress(OSError):  # the mark stays
                self._mark.unmark()

    def end(self) -> None:
        """From here on Accepts wait. `is_clean` is known when all that was voted for before is durable."""
        self._ending = True
        self._replica.early = False
        self._store.when_durable(self._over)

    def _over(self) -> None:
        self._is_over = True

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        """Before any message of the new epoch leaves."""
        self._replica.early = False
        self._driver.clock.call_later(0, self._act)

    def _act(self) -> None:
        """Ask the peers that have not answered; once all have, act on it when the configuration is durable, so that no
        later start asks the voters of an older one."""
        config, me = self._replica.config, self._replica.me
        is_needed = self._driver.is_forgetful or (may_be_early(config, me) and not self._replica.early)
        if self._ending or not is_needed or me not in config.voters:
            return
        missing = [peer for peer in config.others(me) if peer not in self._answered]
        for peer in missing:
            if peer not in self._asking:
                self._asking.add(peer)
                self._ask(peer, None)
        if not missing:
            self._store.when_durable(partial(self._all_answered, config))

    def _ask(self, peer: int, after: bytes | None) -> None:
        request = FastVotesRead(proposer=self._replica.me, after=after)
        self._ask_peer(peer, request, partial(self._heard, peer))

    def _heard(self, peer: int, reply: MemberReply) -> None:
        if not isinstance(reply, UnsettledPage):
            self._failed(peer)
        elif self._driver.is_forgetful and reply.keys:
            self._catch_up(reply.keys, partial(self._caught_up, peer, reply))
        else:
            self._done(peer)

    def _catch_up(self, keys: Sequence[Unsettled], done: Callable[[object], None]) -> None:
        """Learn the base of each of these instances. Reads of the engine find whatever was decided."""
        behind = [Unsettled(key=each.key, version=each.version - 1) for each in keys if each.version > 1]
        Settling(self._driver, tuple(behind), done).go_on()

    def _caught_up(self, peer: int, page: UnsettledPage, succeeded: object) -> None:
        try:
            is_known = bool(succeeded) and all(map(self._forgo, page.keys))
        except RottenRow:  # it is repaired
            is_known = False
        if not is_known:
            self._failed(peer)
        elif page.more:
            self._ask(peer, page.keys[-1].key)
        else:
            self._done(peer)

    def _forgo(self, unsettled: Unsettled) -> bool:
        """See to it that nothing is put forward in the fast round of this instance any more. False: this replica is
        still behind its base."""
        replica, base = self._replica, unsettled.version - 1
        state = replica.state(unsettled.key)
        if state.version == base and state.is_untouched and not state.is_final:
            epoch = replica.config.epoch
            promise = Reserve(key=unsettled.key, base=base, above=NO_BALLOT, me=replica.me, epoch=epoch, insists=True)
            replica.perform(promise, lambda _: None)
        return state.version >= base

    def _failed(self, peer: int) -> None:
        pause_ms = self._pauses_ms.get(peer, self.again_ms)
        self._pauses_ms[peer] = min(LONGEST_MS, 2 * pause_ms)
        self._driver.clock.call_later(pause_ms, partial(self._try_again, peer))

    def _try_again(self, peer: int) -> None:
        self._asking.discard(peer)
        self._act()

    def _done(self, peer: int) -> None:
        self._asking.discard(peer)
        self._answered.add(peer)
        self._act()

    def _all_answered(self, config: ClusterConfig) -> None:
        """Everything that was promised is durable."""
        if self._ending or config is not self._replica.config:
            return
        if self._driver.is_forgetful:
            self._driver.set_forgetful(False)
            self.notice("the others have answered: writes take one round trip again")
        if may_be_early(config, self._replica.me) and not self._replica.early:
            self._replica.early = self._mark.is_marked or self._mark.mark()
            if not self._replica.early:
                if not self._is_refused:
                    self.notice("the data directory cannot be marked: writes wait for one sync more, until it can")
                self._driver.clock.call_later(LONGEST_MS, self._act)
            self._is_refused = not self._replica.early


def ignore(_words: str) -> None: ...
