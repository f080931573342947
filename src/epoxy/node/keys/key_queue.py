"""The writes of one key that wait at a replica. What waits while a round is under way becomes the next fold; where
another replica folds the writes of this key, they are carried there."""

from collections import deque
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import StoreFailed
from epoxy.model.messages import Accept, CarryAnswers
from epoxy.model.records import MAX_FOLD_WRITES, KeyState, Proposal, ProposalId
from epoxy.model.writes import Committed, Path, Refused
from epoxy.node.keys.hand_overs import HandOvers
from epoxy.node.keys.queued_write import QueuedWrite
from epoxy.node.keys.single_write import SingleWrite
from epoxy.node.keys.uncontended import Uncontended
from epoxy.protocol.keys.carrying import answer_to
from epoxy.protocol.keys.folding import ABSENT, UNANSWERED, answer_found, room, version_in
from epoxy.protocol.keys.operations import NOT_EXPOSED
from epoxy.protocol.keys.proposer import FoldIntent

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver

UNBEGUN = Refused(reason="its turn among the writes of its key did not come in time; it was dropped")

MAX_QUEUED_PER_KEY = 1024
"""Writes of one key that wait for each other here: sixteen folds. A WAN round takes 100 ms, so the last would wait two
seconds."""

MAX_CARRIED = 256
"""Writes of one key that are under way to its owner."""

NONE_CARRIED: Mapping[ProposalId, QueuedWrite] = {}

GATHER_MS = 0.3
"""While a Carry is under way, the next one leaves this much later, with what has come by then."""

STEP_SHARE, LONGEST_STEP_MS = 1 / 8, 2.0
"""After a round for several writes the next one begins this share of its time later, at most so long: clients that were
answered by it and write again at once would otherwise wait for a whole round each time. Between machines of one
building it is a fraction of a millisecond, in which writes that are carried come back, too."""


class KeyQueue:
    """Of a key with a write under way. Rivals within a replica would only cost each other the fast round, so there is
    one round at a time."""

    __slots__ = (
        "_began_ms",
        "_driver",
        "_hand_overs",
        "_is_awaited",
        "_prepares",
        "_rival",
        "_round",
        "_silent",
        "_under_way",
        "_waiting",
        "held",
        "key",
    )

    def __init__(self, driver: "Driver", key: bytes) -> None:
        self._driver = driver
        self.key = key
        self._waiting: deque[QueuedWrite] = deque()
        self._under_way: list[QueuedWrite] = []
        self._round: Uncontended | None = None
        self._began_ms = 0.0
        self._is_awaited = False
        self._prepares = 0
        self._rival: int | None = None
        """The replica that won the last round from this one."""
        self._silent = 0
        """The owner from which writes were taken back since."""
        self._hand_overs: HandOvers | None = None
        self.held: set[ProposalId] = set()
        """Ids of writes that were carried here and have no answer yet."""

    @property
    def unanswered(self) -> int:
        """Writes that wait, those of the round under way, and those that were carried."""
        return len(self._waiting) + len(self._under_way) + len(self._carried)

    def first(self, entry: QueuedWrite) -> None:
        """Of a queue just made."""
        self._waiting.append(entry)
        self._next()

    def adopt(self, single: SingleWrite) -> None:
        """A write that had no queue, and whose round goes on."""
        single.ended = self.round_ended
        self._round, self._under_way, self._began_ms = single, [single.queued()], single.begun_ms

    def add(self, entry: QueuedWrite) -> bool:
        """False: there are too many already."""
        waiting = self._waiting
        if len(waiting) + 1 >= MAX_QUEUED_PER_KEY:
            return False
        entry.turn.wait(partial(self._withdraw, entry))
        waiting.append(entry)
        if entry.home:
            self.held.add(entry.pending.proposal_id)
        if self._round is None:
            self._soon(GATHER_MS if self._carried and not entry.home else 0)
        return True

    def _withdraw(self, entry: QueuedWrite) -> None:
        """Its client is gone, or was told that it is dropped. What has begun goes on."""
        if entry.begun or entry.pending.outcome is not None:
            return
        self._waiting.remove(entry)
        entry.pending.outcome = UNBEGUN
        self._driver.finished(entry, UNBEGUN, 0)
        if entry.answered is not None:
            entry.answered(UNBEGUN)
        if self._round is None and not self._is_awaited:
            self._rest()

    @property
    def refusal(self) -> Refused:
        return Refused(reason=f"{len(self._waiting) + 1} writes are waiting for this key already")

    def _soon(self, delay_ms: float) -> None:
        if not self._is_awaited:
            self._is_awaited = True
            self._driver.clock.call_later(delay_ms, self._next)

    def _next(self) -> None:
        """Carry what another replica is to fold, and begin a round with the rest."""
        self._is_awaited = False
        if self._round is not None:
            return
        owner = self._owner()
        if owner is not None:
            self._carry(owner)
        kept = [entry for entry in self._waiting if owner is None or not entry.may_be_carried]
        batch = self._begin(kept[: room([entry.pending for entry in kept]) if self.key < FIRST_SYSTEM_KEY else 1])
        if batch:
            self._propose(batch)
        elif not self._is_awaited:
            self._rest()

    def _begin(self, entries: list[QueuedWrite]) -> list[QueuedWrite]:
        """Take these from the queue. One that was found in a decision is answered, and one whose client was told that
        it is dropped is."""
        begun, over = list[QueuedWrite](), list[QueuedWrite]()
        for entry in entries:
            if entry is self._waiting[0]:
                self._waiting.popleft()
            else:
                self._waiting.remove(entry)
            if entry.found is None and entry.may_begin():
                begun.append(entry)
            else:
                entry.pending.outcome = entry.found or UNBEGUN
                over.append(entry)
        if over:
            self._driver.replica.when_durable(partial(self._answer, over))
        return begun

    def _rest(self) -> None:
        if self._waiting and not self._carried:
            self._soon(0)
        elif not self._waiting and not self._carried and self._round is None:
            self._driver.forget(self)

    # Rounds

    def _propose(self, entries: list[QueuedWrite]) -> None:
        driver, writes = self._driver, [entry.pending for entry in entries]
        self._under_way = entries
        self._began_ms = driver.clock.now_ms()
        self._round = Uncontended(driver, self.key, writes, driver.plan(), self.round_ended, self._silent)
        self._silent = 0
        self._round.start()

    def round_ended(self, intent: FoldIntent) -> None:
        """The writes without an outcome are folded again, before those that wait. The next round begins before any
        receiver of an answer can interfere."""
        ended, entries, driver = self._round, self._under_way, self._driver
        assert ended is not None, "a round ends once"
        self._round, self._under_way = None, []
        self._prepares += ended.prepares
        if self._hand_overs is not None:
            entries = self._hand_overs.without_awaited(entries)
        lost = [entry for entry in entries if entry.pending.outcome is None]
        answered = [entry for entry in entries if entry.pending.outcome is not None] if lost else entries
        decided = intent.decided
        if lost:
            self._waiting.extendleft(reversed(lost))
            if decided is not None and decided.home != driver.replica.me:
                self._rival = decided.home
        owner, is_shared = driver.replica.me, bool(answered) and self._is_shared(answered)
        if is_shared:
            owner = self._count(answered, decided)
        if self._waiting or is_shared:
            self._soon(self._step_ms() if is_shared else 0)
        else:
            self._rest()
        self._answer(answered, owner)

    def _is_shared(self, entries: list[QueuedWrite]) -> bool:
        """Whether others than one client write this key of late."""
        return len(entries) > 1 or entries[0].home > 0 or self._driver.owners.counts(self.key)

    def _count(self, entries: list[QueuedWrite], decided: Proposal | None) -> int:
        """Where the writes of a round come from. The replica that should fold the next ones."""
        driver = self._driver
        me = driver.replica.me
        if decided is not None and decided.is_fold and decided.home == me:
            driver.counts.folds += 1
            driver.counts.folded += 1 + len(decided.folded)
        done = [entry.home or me for entry in entries if isinstance(entry.pending.outcome, Committed)]
        owner = driver.owners.folded(self.key, done)
        if owner != me:
            driver.owners.believe(self.key, owner, driver.clock.now_ms())
        return owner

    def _step_ms(self) -> float:
        return min(LONGEST_STEP_MS, STEP_SHARE * (self._driver.clock.now_ms() - self._began_ms))

    def _answer(self, entries: list[QueuedWrite], owner: int = 0) -> None:
        """All of them, also if a receiver raises. `owner`: what the homes of carried ones are told."""
        driver, errors, carried = self._driver, list[Exception](), list[QueuedWrite]()
        for entry in entries:
            outcome = entry.pending.outcome
            assert outcome is not None
            driver.finished(entry, outcome, self._prepares)
            self._prepares = 0
            if entry.answered is None:
                carried.append(entry)
                continue
            try:
                entry.answered(outcome)
            except StoreFailed:
                raise
            except Exception as error:
                errors.append(error)
        if carried:
            self._tell_homes(carried, owner or driver.replica.me)
        if errors:
            raise errors[0]

    def _tell_homes(self, carried: list[QueuedWrite], owner: int) -> None:
        """Send the homes of carried writes their answers. The Commit of the fold is on the way to them already."""
        for home in dict.fromkeys([entry.home for entry in carried]):
            theirs = [entry.pending for entry in carried if entry.home == home]
            self.held.difference_update([pending.proposal_id for pending in theirs])
            answers = [answer_to(pending, pending.outcome) for pending in theirs if pending.outcome is not None]
            self._driver.answer_carried(home, self.key, owner, answers)

    # Carrying

    def _owner(self) -> int | None:
        """The replica to carry writes to: the one that won the last round, or the owner by the hint."""
        driver, rival = self._driver, self._rival
        self._rival = None
        if self.held or self.key >= FIRST_SYSTEM_KEY:
            return None
        owner = rival if rival is not None else driver.owners.of(self.key, driver.clock.now_ms())
        return owner if owner != driver.replica.me and owner in driver.replica.config.voters else None

    @property
    def _carried(self) -> Mapping[ProposalId, QueuedWrite]:
        return self._hand_overs.carried if self._hand_overs is not None else NONE_CARRIED

    def _carry(self, owner: int) -> None:
        """Hand the writes that wait to the owner."""
        if self._hand_overs is None:
            self._hand_overs = HandOvers(self._driver, self)
        free = min(MAX_FOLD_WRITES, MAX_CARRIED - len(self._carried))
        entries = [entry for entry in self._waiting if entry.may_be_carried][: max(0, free)]
        entries = self._begin(entries[: room([entry.pending for entry in entries])])
        if entries:
            self._hand_overs.send(owner, entries)
            if any(entry.may_be_carried for entry in self._waiting):
                self._soon(GATHER_MS)

    def heard_new_life(self, owner: int) -> None:
        """Carry to it again: the process that was addressed is gone, or was not known yet."""
        self._rival = owner

    def take_back(self, entries: list[QueuedWrite], silent: int) -> None:
        """Propose these here. By F3 that is safe, whatever became of their Carry. `silent`: the owner, if it is."""
        self._silent = silent
        self._waiting.extendleft(reversed(entries))
        if self._round is None:
            self._soon(0)

    def answered(self, message: CarryAnswers) -> None:
        """The owner's answers to writes that were carried to it."""
        driver = self._driver
        driver.owners.believe(self.key, message.owner, driver.clock.now_ms())
        if self._hand_overs is None:
            return
        done = self._hand_overs.answered(message, chain(self._waiting, self._under_way))
        if self._waiting and self._round is None:
            self._soon(0)
        self._rest()
        self._answer(done)

    def rival(self, accept: Accept) -> None:
        """A rival's fast round met a vote of this replica."""
        if self._round is not None:
            self._round.rival(accept)

    def learned(self, after: KeyState) -> None:
        """A decision was learned here: the round it decides is over. Exposed writes that wait or are carried are looked
        for in it; if all before it were looked through, their floors rise."""
        decided = after.committed
        assert decided is not None
        if self._round is not None:
            self._round.learned(after)
        if self._hand_overs is not None and self._hand_overs.carried:
            self._hand_overs.heard_of(decided.home)
        unanswered = list[QueuedWrite]()
        for entry in chain(self._waiting, self._carried.values()):
            pending = entry.pending
            if not NOT_EXPOSED < pending.floor < decided.version or entry.found is not None:
                continue
            version = version_in(decided, pending.proposal_id)
            if version != ABSENT:
                entry.found = answer_found(pending, version, decided, Path.SLOW)
                if entry.found == UNANSWERED and entry.pending.handed_over:
                    unanswered.append(entry)
            elif pending.floor >= decided.base:
                pending.floor = decided.version
        if unanswered and self._hand_overs is not None:
            self._await_answers(self._hand_overs, unanswered)

    def _await_answers(self, hand_overs: HandOvers, entries: list[QueuedWrite]) -> None:
        """Of these, found in a decision, those that wait here because they were taken back from an owner: it decided
        them, and its answer is on its way."""
        taken_back = [entry for entry in entries if entry.hand_over is None and not entry.home]
        for entry in taken_back:
            self._waiting.remove(entry)
        hand_overs.await_answers(taken_back)
