"""Writes of one key that their home has handed to the key's owner, until it answers or they are taken back."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from epoxy.model.messages import Carry, CarryAnswer, CarryAnswers, CarryOk, CarryResult, Reply
from epoxy.model.records import ProposalId
from epoxy.model.shards import shard_of
from epoxy.model.writes import Committed, Refused
from epoxy.node.keys.queued_write import QueuedWrite
from epoxy.protocol.keys.carrying import NO_LIFE, outcome_of, packed
from epoxy.protocol.keys.folding import STILL_HANDED_OVER, UNANSWERED, tellable
from epoxy.protocol.keys.operations import NOT_EXPOSED

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver
    from epoxy.node.keys.key_queue import KeyQueue

AWAITED_TIMES = 2
"""Further hedges that a home waits for the answer of a write that is decided. The owner sends it right after the
Commit: if it is not here by then, the owner has stopped between the two."""


class HandOver:
    """One Carry. What is heard of it concerns only the writes that are still in it. `fresh`: those that were never
    exposed before. `life`: the process of the owner that it is addressed to."""

    __slots__ = ("entries", "fresh", "life", "owner")

    def __init__(self, owner: int, entries: list[QueuedWrite], life: int = NO_LIFE) -> None:
        self.owner = owner
        self.life = life
        self.entries = entries
        self.fresh = [entry for entry in entries if not entry.pending.is_exposed]

    def of(self, ids: Iterable[ProposalId] | None = None) -> list[QueuedWrite]:
        """The writes still in it, or those of them with these ids."""
        named = None if ids is None else set(ids)
        return [
            entry
            for entry in self.entries
            if entry.hand_over is self and (named is None or entry.pending.proposal_id in named)
        ]


class HandOvers:
    __slots__ = ("_driver", "_heard_ms", "_queue", "carried")

    def __init__(self, driver: "Driver", queue: "KeyQueue") -> None:
        self._driver = driver
        self._queue = queue
        self.carried: dict[ProposalId, QueuedWrite] = {}
        self._heard_ms: dict[int, float] = {}
        """When an owner showed last that it works on this key."""

    def heard_of(self, owner: int) -> None:
        """It took writes of this key, or decided some."""
        self._heard_ms[owner] = self._driver.clock.now_ms()

    def send(self, owner: int, entries: list[QueuedWrite]) -> None:
        """From here on the writes may be decided, on top of the version known here or later (F2)."""
        driver, key, numbers = self._driver, self._queue.key, self._driver.numbers
        hand_over = HandOver(owner, entries, numbers.life_of(owner, shard_of(key)))
        version = driver.replica.version(key)
        for entry in entries:
            pending = entry.pending
            entry.is_spread = entry.is_spread or pending.handed_over
            pending.expose(version)
            pending.handed_over = True
            entry.hand_over = hand_over
            self.carried[pending.proposal_id] = entry
        driver.counts.carried += len(entries)
        request = Carry(
            key=key,
            epoch=driver.replica.config.epoch,
            sender=numbers.life,
            receiver=hand_over.life,
            number=numbers.next(),
            writes=tuple([packed(entry.pending) for entry in entries]),
        )
        driver.transport.send(owner, (request,), partial(self._heard, hand_over))
        until_ms = driver.clock.now_ms() + driver.carry_ms
        driver.clock.call_later(driver.silence_ms, partial(self._look_after, hand_over, until_ms))

    def _look_after(self, hand_over: HandOver, until_ms: float) -> None:
        """An owner that goes on deciding is given its time; one that is silent for a hedge is not."""
        driver = self._driver
        now_ms, patience_ms = driver.clock.now_ms(), driver.silence_ms
        left_ms = min(until_ms, self._heard_ms.get(hand_over.owner, 0.0) + patience_ms) - now_ms
        if left_ms >= 1:  # Less is a matter of rounding, which a timer of no time would meet again.
            if hand_over.of():
                driver.clock.call_later(left_ms, partial(self._look_after, hand_over, until_ms))
        else:
            self._overdue(hand_over, AWAITED_TIMES)

    def _heard(self, hand_over: HandOver, reply: Reply) -> None:
        """The owner has taken the writes, or declined some of them, definitely: then it is as if they had not been
        handed over. Without an answer it may have taken them, and so may the process before the one that answers."""
        entries, silent = hand_over.of(), hand_over.owner
        if isinstance(reply, CarryOk):
            silent = 0
            self.heard_of(hand_over.owner)
            self._driver.numbers.met(hand_over.owner, shard_of(self._queue.key), reply.life)
            is_for_another = reply.life != hand_over.life  # Told by this reply, or by that to an earlier Carry.
            if not reply.declined and not is_for_another:
                return
            if reply.declined:
                entries = hand_over.of(reply.declined)
            for entry in entries if reply.declined else ():
                entry.pending.handed_over = entry.is_spread
                if entry in hand_over.fresh:
                    entry.pending.floor = NOT_EXPOSED
            if is_for_another and entries:
                self._queue.heard_new_life(hand_over.owner)
        self._take_back(entries, silent)

    def _overdue(self, hand_over: HandOver, times: int) -> None:
        """The hedge: the owner is silent. If a write is decided and only its answer is missing, that is waited for."""
        entries = hand_over.of()
        awaited = [entry for entry in entries if times and (entry.found == UNANSWERED or entry.is_refused)]
        if awaited:
            self._driver.clock.call_later(self._driver.carry_ms, partial(self._overdue, hand_over, times - 1))
        for entry in entries:
            if entry.is_refused and not times:
                entry.found = entry.found or STILL_HANDED_OVER
        self._take_back([entry for entry in entries if entry not in awaited], hand_over.owner)

    def _take_back(self, entries: list[QueuedWrite], silent: int = 0) -> None:
        if entries:
            for entry in entries:
                self._drop(entry)
            self._driver.owners.forget(self._queue.key)
            self._driver.counts.taken_back += len(entries)
            self._queue.take_back(entries, silent)

    def _drop(self, entry: QueuedWrite) -> None:
        entry.hand_over = None
        del self.carried[entry.pending.proposal_id]

    def answered(self, message: CarryAnswers, taken_back: Iterable[QueuedWrite]) -> list[QueuedWrite]:
        """The writes that have their outcome by the owner's answers."""
        done: list[QueuedWrite] = []
        late: dict[ProposalId, CarryAnswer] = {}
        for answer in message.answers:
            entry = self.carried.get(answer.proposal_id)
            if entry is None:
                late[answer.proposal_id] = answer
            elif self._is_done(entry, answer):
                done.append(entry)
        for entry in taken_back if late else ():
            answer_to_it = late.get(entry.pending.proposal_id)
            if answer_to_it is not None and answer_to_it.result is CarryResult.DONE:
                entry.found = outcome_of(entry.pending, answer_to_it)
        return done

    def _is_done(self, entry: QueuedWrite, answer: CarryAnswer) -> bool:
        """What the owner turned away is proposed here. What it refused may be told only if no other replica may still
        fold the write (F6). One of several owners may only have met the write in the decision of another, whose answer
        is on its way."""
        pending = entry.pending
        outcome = outcome_of(pending, answer)
        if entry.found is not None and not isinstance(outcome, Committed):
            outcome = entry.found  # It was decided, so whatever the owner refused came after that.
        if outcome == UNANSWERED and entry.is_spread:
            entry.found = UNANSWERED
            return False
        if isinstance(outcome, Refused):
            entry.is_spread = True
            self._take_back([entry])
            return False
        self._drop(entry)
        pending.handed_over = entry.is_spread
        pending.outcome = tellable(pending, outcome)
        return True

    def without_awaited(self, entries: list[QueuedWrite]) -> list[QueuedWrite]:
        """Of the writes of a round: without those that the owner decided after they were taken back, and that have no
        answer, and those that would be refused if the owner could not still fold them. The owner's answer has come
        meanwhile, or is on its way."""
        awaited: list[QueuedWrite] = []
        for entry in entries:
            pending = entry.pending
            if pending.outcome == STILL_HANDED_OVER and not entry.is_spread and not pending.is_guest:
                pending.outcome, entry.is_refused = entry.found, True
                if entry.found is None:
                    awaited.append(entry)
            elif pending.outcome == UNANSWERED and pending.handed_over and not pending.is_guest:
                if entry.found is not None:
                    pending.outcome = entry.found
                else:
                    pending.outcome, entry.found = None, UNANSWERED
                    awaited.append(entry)
        self.await_answers(awaited)
        return [entry for entry in entries if entry not in awaited] if awaited else entries

    def await_answers(self, entries: list[QueuedWrite]) -> None:
        """Writes that were taken back, and about which an owner knows what is not known here. Its answer is waited for
        as if they were still with it (F4b)."""
        if not entries:
            return
        hand_over = HandOver(0, entries)
        for entry in entries:
            entry.hand_over = hand_over
            self.carried[entry.pending.proposal_id] = entry
        self._driver.clock.call_later(self._driver.carry_ms, partial(self._overdue, hand_over, AWAITED_TIMES))
