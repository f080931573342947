"""The members as an operator sees and changes them."""

from collections.abc import Callable

from msgspec import Struct

from epoxy.codec import wire
from epoxy.model.cluster import CHANGE_REQUEST_KEY, ClusterConfig
from epoxy.model.members import ChangeRequest, MemberStatus, StatusRead
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, Outcome, ReadFailed, ReadOutcome, Refused, Write
from epoxy.node.members.member import Membership
from epoxy.protocol.members.change_request import Amendment, Objection, apply_amendment
from epoxy.protocol.members.changes import ChangeDone, ChangeWaiting, Statuses, next_step
from epoxy.protocol.members.effects import AskAll

MAX_TRIES = 5
"""Of two operators at once, one writes first, and the other looks again. More than a few at once are a mistake."""


class Accepted(Struct, frozen=True, kw_only=True):
    """Written down; the members change when they can. `queued`: another change is under way and is finished first."""

    wish: ChangeRequest
    epoch: int
    queued: bool


Verdict = Accepted | Objection | Refused | ConsensusFailed


class MembersView(Struct, frozen=True, kw_only=True):
    """`wish` None: nobody has ever wanted other members. `waiting` is what a change under way waits for; empty: none
    is, or it moves."""

    config: ClusterConfig
    wish: ChangeRequest | None
    heard: Statuses
    waiting: str
    settled: bool


class MembersAdmin:
    def __init__(self, member: Membership, reaches: Callable[[int], bool]) -> None:
        self._member = member
        self._driver = member.driver
        self._replica = member.replica
        self._reaches = reaches

    def look(self, answered: Callable[[MembersView], None]) -> None:
        """Ask everybody; those who do not answer in time are missing among the heard."""
        config, wish = self._replica.config, self.wish()

        def heard(replies: object) -> None:
            assert isinstance(replies, dict)
            told = {i: reply for i, reply in replies.items() if isinstance(reply, MemberStatus)}
            answered(looked(self._replica.config, self.wish(), told, self._replica.me))

        wanted = {member.id for member in wish.members} if wish is not None else set()
        to = tuple(sorted({*config.replica_ids, *wanted, self._replica.me}))
        self._member.perform(AskAll(to=to, request=StatusRead()), heard)

    def wish(self) -> ChangeRequest | None:
        """The last one this replica has heard of."""
        found = self._replica.newest(CHANGE_REQUEST_KEY)
        return wire.decode_change_request(found.value) if found is not None and found.value is not None else None

    def change(self, given: Amendment, answered: Callable[[Verdict], None], tries: int = MAX_TRIES) -> None:
        """Written on top of the last wish, whoever made that: two operators add two members."""

        def found(outcome: ReadOutcome) -> None:
            if isinstance(outcome, ReadFailed):
                answered(Refused(reason=outcome.reason))
                return
            wish = wire.decode_change_request(outcome.value) if outcome.value is not None else None
            version = outcome.committed.version if outcome.committed is not None else 0
            verdict = apply_amendment(self._replica.config, wish, given, self._reached())
            if isinstance(verdict, Objection):
                answered(verdict)
            else:
                self._write(verdict, version, lambda result: written(verdict, result))

        def written(wish: ChangeRequest, outcome: Outcome) -> None:
            match outcome:
                case Committed():
                    config = self._replica.config
                    answered(Accepted(wish=wish, epoch=config.epoch, queued=is_under_way(config)))
                    self._member.coordinate()
                case Refused() | ConsensusFailed():
                    answered(outcome)
                case _ if tries > 1:
                    self.change(given, answered, tries - 1)
                case _:
                    answered(Refused(reason="others change the members at the same time"))

        self._driver.read(CHANGE_REQUEST_KEY, Consistency.LINEARIZABLE, found)

    def _write(self, wish: ChangeRequest, version: int, done: Callable[[Outcome], None]) -> None:
        write = Write(key=CHANGE_REQUEST_KEY, value=wire.encode_change_request(wish), mutable=True, if_version=version)
        self._driver.write(write, done)

    def _reached(self) -> set[int]:
        me = self._replica.me
        return {i for i in self._replica.config.replica_ids if i == me or self._reaches(i)}


def is_under_way(config: ClusterConfig) -> bool:
    return config.is_joint or len(config.active) < len(config.replicas)


def looked(config: ClusterConfig, wish: ChangeRequest | None, heard: Statuses, me: int) -> MembersView:
    step = next_step(config, wish, heard, me)
    waiting = step.reason if isinstance(step, ChangeWaiting) else ""
    settled = isinstance(step, ChangeDone) and not is_under_way(config)
    return MembersView(config=config, wish=wish, heard=heard, waiting=waiting, settled=settled)
