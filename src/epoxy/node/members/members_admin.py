"""The members as an operator sees and changes them."""

from collections.abc import Callable

from msgspec import Struct

from epoxy.model.cluster import CHANGE_REQUEST_KEY, ClusterConfig
from epoxy.model.members import ChangeRequest, MemberStatus, StatusRead
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, Outcome, ReadFailed, ReadOutcome, Refused
from epoxy.node.members.config_record import change_request, change_write
from epoxy.node.members.member import Membership
from epoxy.protocol.members.change_request import Amendment, Objection, apply_amendment
from epoxy.protocol.members.changes import ChangeDone, ChangeWaiting, Statuses, next_step, requested
from epoxy.protocol.members.effects import AskAll
from epoxy.protocol.members.learner import is_changing

MAX_TRIES = 5
"""Of two operators at once, one writes first, and the other tries again. More than a few at once are a mistake."""


class Accepted(Struct, frozen=True, kw_only=True):
    """The request is committed; a coordinator carries it out. `queued`: another change is under way and comes first."""

    request: ChangeRequest
    epoch: int
    queued: bool


Verdict = Accepted | Objection | Refused | ConsensusFailed


class MembersView(Struct, frozen=True, kw_only=True):
    """`request` None: no change was ever requested. `waiting`: the reason why a change under way waits; empty: none is
    under way, or it does not wait."""

    config: ClusterConfig
    request: ChangeRequest | None
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
        """Ask all members for their status; those that do not answer in time are missing in `heard`."""
        config, request = self._replica.config, self.change_request()

        def heard(replies: object) -> None:
            assert isinstance(replies, dict)
            told = {i: reply for i, reply in replies.items() if isinstance(reply, MemberStatus)}
            answered(looked(self._replica.config, self.change_request(), told, self._replica.me))

        wanted = requested(request) if request is not None else set()
        to = tuple(sorted({*config.replica_ids, *wanted, self._replica.me}))
        self._member.perform(AskAll(to=to, request=StatusRead()), heard)

    def change_request(self) -> ChangeRequest | None:
        """The newest this replica holds."""
        return change_request(self._replica.newest(CHANGE_REQUEST_KEY))

    def change(self, given: Amendment, answered: Callable[[Verdict], None], tries: int = MAX_TRIES) -> None:
        """Amends the last request, also if another operator made it: two operators add two members."""

        def found(outcome: ReadOutcome) -> None:
            if isinstance(outcome, ReadFailed):
                answered(Refused(reason=outcome.reason))
                return
            committed = outcome.committed
            version = committed.version if committed is not None else 0
            verdict = apply_amendment(self._replica.config, change_request(committed), given, self.reached())
            if isinstance(verdict, Objection):
                answered(verdict)
            else:
                write = change_write(verdict, version)
                self._driver.write(write, lambda result: written(verdict, result))

        def written(request: ChangeRequest, outcome: Outcome) -> None:
            match outcome:
                case Committed():
                    config = self._replica.config
                    answered(Accepted(request=request, epoch=config.epoch, queued=is_changing(config, None)))
                    self._member.coordinate()
                case Refused() | ConsensusFailed():
                    answered(outcome)
                case _ if tries > 1:
                    self.change(given, answered, tries - 1)
                case _:
                    answered(Refused(reason="others change the members at the same time"))

        self._driver.read(CHANGE_REQUEST_KEY, Consistency.LINEARIZABLE, found)

    def preview(self, given: Amendment) -> ChangeRequest | Objection:
        """What `change` would come to, by what this replica holds now. Nothing is written."""
        return apply_amendment(self._replica.config, self.change_request(), given, self.reached())

    def reached(self) -> set[int]:
        me = self._replica.me
        return {i for i in self._replica.config.replica_ids if i == me or self._reaches(i)}


def looked(config: ClusterConfig, request: ChangeRequest | None, heard: Statuses, me: int) -> MembersView:
    step = next_step(config, request, heard, me)
    waiting = step.reason if isinstance(step, ChangeWaiting) else ""
    settled = isinstance(step, ChangeDone) and not is_changing(config, None)
    return MembersView(config=config, request=request, heard=heard, waiting=waiting, settled=settled)
