"""Members around one table: production's learner, pages and rows. Members are voters, and perhaps one who learns."""

from collections.abc import Callable, Sequence
from functools import partial

from epoxy.model.ballot import fast_ballot
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig
from epoxy.model.members import (
    ChangelogPage,
    ChangelogRead,
    MemberReply,
    MemberRequest,
    SnapshotPage,
    SnapshotRead,
    UnsettledPage,
    UnsettledRead,
)
from epoxy.model.messages import Accept, EpochAhead, Failed, Reply, Request, StaleEpoch, UpdateConfig
from epoxy.model.records import ChangelogEntry, Proposal, ProposalId
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.node.members.member import Membership
from epoxy.node.members.peer_gate import PeerGate
from epoxy.protocol.effects import Timing
from epoxy.protocol.members.effects import Effect, Followed, HostEffect, Keep, Repair, Settle, Synced
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from tests.scenarios import prose
from tests.scenarios.prose import name
from tests.scenarios.table import LetterTable, ScenarioError

PAGE_ROWS = 2
"""A few keys must make several pages, or nothing can happen between two of them."""


class Alarm:
    """A timer, and whoever set it."""

    def __init__(self, due_ms: float, ring: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.ring = ring
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Narrated(Membership):
    """... which says what it does with what it was told."""

    say: Callable[[str], None]

    def perform(self, effect: HostEffect, done: Callable[[object], None]) -> None:
        told = what_it_does(effect)
        if told is not None:
            self.say(f"{name(self.replica.me)} {told}")
        super().perform(effect, done)


class Place:
    """One member's process, with clock, dice and links of its own."""

    def __init__(self, world: "MembersWorld", me: int, store: MemoryStore, config: ClusterConfig) -> None:
        self.world = world
        self.me = me
        self.nonces = 0
        self.timers: list[Alarm] = []
        self.now = 0.0
        self.replica = Replica(me, store, config, self.alarm)
        self.driver = Driver(self.replica, self, self, self, Timing(), self.alarm)
        gate = PeerGate(self.replica, store, MemberSpace(self.replica.keyspace, me), self, self)
        for other in config.replica_ids:
            if other != me:
                gate.answered(other)
        self.member = Narrated(self.driver, store, self, self, gate)
        self.member.say = world.say
        self.member.space.page_rows = PAGE_ROWS

    def alarm(self, text: str) -> None:
        raise AssertionError(text)

    def uniform(self) -> float:
        return 0.0

    def nonce(self) -> int:
        self.nonces += 1
        return 100 * self.me + self.nonces

    def now_ms(self) -> float:
        return self.now

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Alarm:
        timer = Alarm(self.now + delay_ms, then)
        self.timers.append(timer)
        return timer

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        self.world.request(self.me, to, tuple(requests), answered)

    def ask(self, to: int, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        self.world.question(self.me, to, request, answered)

    def go_on(self) -> None:
        """What is due at once."""
        while due := [each for each in self.timers if each.due_ms <= self.now or each.cancelled]:
            self.timers.remove(due[0])
            if not due[0].cancelled:
                due[0].ring()


class MembersWorld(LetterTable):
    def __init__(self, config: ClusterConfig, say: Callable[[str], None]) -> None:
        super().__init__(say, config.replica_ids)
        self.config = config
        self.stores = {i: MemoryStore() for i in config.replica_ids}
        self.places = {i: Place(self, i, self.stores[i], config) for i in config.replica_ids}

    # What a script asks for

    def learned(self, replicas: Sequence[int], key: str, value: str) -> None:
        """A Commit that reached these."""
        for i in replicas:
            self.places[i].replica.learn(key.encode(), proposal_of(value))
        self.say(f"{' '.join(map(name, replicas))} learned {key}={value}")

    def voted(self, proposer: int, replicas: Sequence[int], key: str, value: str) -> None:
        """An Accept of somebody's fast round that reached these, and nobody has told them what became of it."""
        proposal = proposal_of(value, proposer)
        ballot = fast_ballot(proposer)
        request = Accept(key=key.encode(), epoch=self.config.epoch, ballot=ballot, proposal=proposal)
        for i in replicas:
            replies: list[Reply] = []
            self.places[i].replica.handle((request,), replies.append)
            self.say(f"{name(i)} gets {name(proposer)}'s Accept of {key}={value}: {prose.reply(replies[0])}")

    def follow(self, who: int) -> None:
        self.must_be_up(who)
        self.places[who].member._follow()
        self._settle_down()

    def adopt(self, config: ClusterConfig, replicas: Sequence[int]) -> None:
        self.config = config
        for i in replicas:
            self.places[i].replica.handle((UpdateConfig(config=config),), lambda _: None)
        self.say(f"{' '.join(map(name, replicas))} heard of the joint epoch {config.epoch}")
        self._settle_down()

    def ring(self, owner: int) -> None:
        place = self.places[owner]
        if not place.timers:
            raise ScenarioError(f"{name(owner)} waits for nothing")
        self.say(f"{name(owner)}'s timer rings")
        place.now = min(each.due_ms for each in place.timers if not each.cancelled)
        self._settle_down()

    def deliver(self, sender: int, to: int, nth: int) -> None:
        super().deliver(sender, to, nth)
        self._settle_down()

    def crash(self, owner: int) -> None:
        super().crash(owner)
        self.places[owner].timers.clear()

    def restart(self, owner: int) -> None:
        super().restart(owner)
        self.places[owner] = Place(self, owner, self.stores[owner], self.config)

    def tell_state(self) -> None:
        for i, place in self.places.items():
            rows = place.replica.keyspace.page(self.stores[i].newest(), b"", None, 100)
            shown = [f"{key.decode()}={(held.value or b'-').decode()}" for key, held in rows if key != CONFIG_KEY]
            status = self.stores[i].transact(place.member.status)
            synced = ", synced" if status.synced else ""
            down = "" if self.up[i] else " (down)"
            self.say(f"{name(i)}{down}: {' '.join(shown) or 'nothing'}; epoch {status.epoch}{synced}")

    def _settle_down(self) -> None:
        for i, place in self.places.items():
            if self.up[i]:
                place.go_on()

    # Messages

    def question(self, me: int, to: int, asked: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        def arrive() -> None:
            self.say(f"{name(to)} is asked by {name(me)} for {question_words(asked)}")
            self.places[to].member.answer(asked, reply)

        def reply(told: MemberReply) -> None:
            self.post(to, me, answer_words(told), partial(hear, told))

        def hear(told: MemberReply) -> None:
            self.say(f"{name(me)} hears from {name(to)}: {answer_words(told)}")
            answered(told)

        self.say(f"{name(me)} asks {name(to)} for {question_words(asked)}")
        self.post(me, to, question_words(asked), arrive)

    def request(
        self, me: int, to: int, requests: tuple[Request, ...], answered: Callable[[Reply], None] | None
    ) -> None:
        def arrive() -> None:
            self.places[to].replica.handle(requests, reply)

        def reply(told: Reply) -> None:
            self.say(f"{name(to)} gets {prose.requests(requests)}: {prose.reply(told)}")
            if answered is not None:
                self.post(to, me, prose.reply(told), partial(hear, told))

        def hear(told: Reply) -> None:
            assert answered is not None
            self.say(f"{name(me)} hears from {name(to)}: {prose.reply(told)}")
            answered(told)

        self.say(f"{name(me)} sends {name(to)}: {prose.requests(requests)}")
        self.post(me, to, prose.requests(requests), arrive)


def proposal_of(value: str, proposer: int = 1) -> Proposal:
    return Proposal(value=value.encode(), version=1, mutable=False, proposal_id=ProposalId(proposer, 1))


def keys_of(entries: Sequence[ChangelogEntry]) -> str:
    return " ".join(key_word(entry.key) for entry in entries) or "no keys"


def key_word(key: bytes) -> str:
    return "(config)" if key == CONFIG_KEY else key.decode()


def question_words(asked: MemberRequest) -> str:
    match asked:
        case SnapshotRead():
            begin = "the first" if asked.after is None else f"those after {key_word(asked.after)}"
            return f"its keys, {begin}, holding {asked.held.count}"
        case ChangelogRead():
            return "its changes since then"
        case UnsettledRead():
            return f"its votes before epoch {asked.epoch}"
        case _:
            raise AssertionError(asked)


def answer_words(told: MemberReply) -> str:
    match told:
        case SnapshotPage():
            return f"{keys_of(told.entries)}{', and more' if told.more else ''}"
        case ChangelogPage():
            return f"changes of {keys_of(told.entries)}{', and more' if told.more else ''}"
        case UnsettledPage():
            return f"votes for {' '.join(each.key.decode() for each in told.keys) or 'no keys'}"
        case StaleEpoch():
            return f"StaleEpoch {told.config.epoch}"
        case EpochAhead():
            return f"EpochAhead {told.epoch}"
        case Failed():
            return f"Failed: {told.reason}"
        case _:
            raise AssertionError(told)


def what_it_does(effect: Effect) -> str | None:
    """None: nothing to speak of."""
    match effect:
        case Keep(progress=None):
            return f"begins with {name(effect.source)} from the start again"
        case Keep():
            return f"keeps {keys_of(effect.entries)} of {name(effect.source)}, with how far that is"
        case Repair():
            return f"repairs {keys_of(effect.entries)}"
        case Followed():
            return f"has followed {name(effect.source)} to the end"
        case Settle():
            return f"finds out what became of {' '.join(each.key.decode() for each in effect.keys)}"
        case Synced():
            return f"is synced for epoch {effect.epoch}"
        case _:
            return None
