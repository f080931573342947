"""A client's write as its bytes: the Commit of its proposal is encoded before anything else, and the own vote, the
Accepts, the committed record and the row of the changelog are pieces of it.

It is for a plain write, of a key that nothing else waits for and that nothing was promised or voted for here. What
happens is what `single_write` does with the rules of `protocol.keys`; whatever else turns out, a refusal, a replica
that is behind, a timeout, is left to them, with the records that they go by.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from epoxy.codec.plain_requests import SYSTEM_KEYS, PlainRequest, ballot_of, committed_in, plain_commit
from epoxy.model.marks import OWNED
from epoxy.model.messages import Accept, AlreadyCommitted, Failed, Reply, StaleEpoch
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, Outcome, Path, Write
from epoxy.node.keys.direct_round import RoundPlan
from epoxy.node.keys.key_state_cache import FRESH_ROWS
from epoxy.node.keys.queued_write import Turn
from epoxy.node.keys.single_write import SingleWrite
from epoxy.ports import SendEncoded
from epoxy.protocol.keys.operations import Fold, PendingWrite
from epoxy.protocol.keys.terms import OwnProposal

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver

NO_PART = Failed(reason="this node takes no part yet, or no longer")


class PlainWrites:
    """How encoded requests leave this home."""

    def __init__(self, driver: "Driver", send: SendEncoded, may_send: Callable[[], bool]) -> None:
        """`may_send`: whether anything but a configuration may."""
        self._driver = driver
        self._through = driver.transport
        self._send = send
        self._may_send = may_send
        self.ballot = ballot_of(driver.replica.me)

    def takes(self, write: Write) -> bool:
        """Not while something else looks at the requests that the driver sends."""
        return is_plain(write) and self._driver.transport is self._through

    def ask(self, plan: RoundPlan, accept: bytes, heard: Callable[[int, Reply], None]) -> None:
        may_send, send = self._may_send(), self._send
        for replica in plan.others:
            if may_send:
                send(replica, accept, 1, partial(heard, replica))
            else:
                heard(replica, NO_PART)

    def tell(self, plan: RoundPlan, commit: bytes) -> None:
        if self._may_send():
            send = self._send
            for replica in plan.listeners:
                send(replica, commit, 1, None)


def is_plain(write: Write) -> bool:
    """Whether it has a value, and nothing else to look at: no condition, no expiry, no mark. A write with steps, or one
    that adds or touches, has no value of its own; there is no expiry to keep where a plain write builds on."""
    value = write.value
    if value is None or write.if_version is not None or write.if_absent or write.ttl_ms or write.session:
        return False
    return write.key[0] != SYSTEM_KEYS and (write.mutable or not value.startswith(OWNED))


class PlainWrite(SingleWrite):
    """`_commit`: the Commit of its proposal, None while the rules do all of it."""

    def __init__(
        self,
        driver: "Driver",
        pending: PendingWrite,
        plan: RoundPlan,
        begun_ms: float,
        client: Callable[[Outcome], None],
        turn: Turn,
        home: PlainWrites,
    ) -> None:
        super().__init__(driver, pending, plan, begun_ms, client, turn)
        self._home = home
        self._commit: PlainRequest | None = None
        self._before = FRESH_ROWS
        self._own: Proposal | None = None

    @property
    def is_decided(self) -> bool:
        """Its round is over, and its own commit may be on the way to the disk: no news of the key is for it."""
        return self._tell is None and self._proposal is not None

    def start(self) -> None:
        try:
            if self._vote():
                return
        except Exception as error:
            self._broke(error)
            return
        super().start()

    def _vote(self) -> bool:
        """What `local.select` does with a key that nothing is in flight for. False: nothing was done, and the rules are
        to be asked."""
        driver, plan, pending = self._driver, self._plan, self.pending
        write, replica = pending.write, driver.replica
        if not plan.votes or plan.is_joint or driver.is_forgetful or driver.stale_keys.is_watching:
            return False
        before = replica.plain.state(self.key)
        if before is None or before.vote or (before.record and not write.mutable):
            return False
        own = self._own = Proposal(
            value=write.value,
            version=before.version + 1,
            mutable=write.mutable,
            proposal_id=pending.proposal_id,
        )
        commit = self._commit = plain_commit(self.key, plan.epoch, own)
        self._before = before
        rides = replica.early or plan.need == 1
        replica.plain.vote(self.key, before, commit.vote_at(self._home.ballot), urgent=not rides)
        if rides:
            self._ask()
        else:
            replica.when_durable(self._ask)
        return True

    def _ask(self) -> None:
        """As `_put_forward`."""
        try:
            plan, base, own, commit = self._plan, self._before.version, self._own, self._commit
            assert own is not None, "the own vote comes first"
            assert commit is not None
            if self._met is not None and self._met.committed.version > base:
                self._leave(self._met)
                return
            self._proposal, self.pending.floor = own, base
            if plan.need == 1:
                self._conclude(own)
                return
            self._on_top_of, self._tell = base, self._heard_at_home
            self._is_open = True
            self._timer = self._driver.clock.call_later(plan.timing.hedge_ms, self._expired)
            self._home.ask(plan, commit.accept_at(self._home.ballot), self._heard)
        except Exception as error:
            self._broke(error)

    def _help(self, sender: int, reply: Reply) -> bool:
        self._put_on_record()
        return super()._help(sender, reply)

    def _conclude(self, proposal: Proposal) -> None:
        replica = self._driver.replica
        if self._commit is not None and replica.plain.conclude(self._commit):
            replica.when_durable(self._committed)
        else:
            self._put_on_record()
            super()._conclude(proposal)

    def _committed(self) -> None:
        """As `_concluded`."""
        intent, commit, proposal = self._intent, self._commit, self._proposal
        try:
            assert commit is not None, "what was committed"
            assert proposal is not None
            self._home.tell(self._plan, commit.encoded)
            intent.decided, intent.travelled = proposal, Path.FAST
            self.pending.outcome = self._answer(proposal)
        except Exception as error:
            self._broke(error)
            return
        self._finish(intent)

    def _answer(self, proposal: Proposal) -> Committed:
        record = self._before.record
        previous = committed_in(record) if record else None
        return Committed(proposal=proposal, mine=True, path=Path.FAST, previous=previous)

    def _leave(self, news: AlreadyCommitted | StaleEpoch | None) -> None:
        self._put_on_record()
        super()._leave(news)

    def _put_on_record(self) -> None:
        """What was put forward, as the flow and the rules know it."""
        intent, proposal, plan = self._intent, self._proposal, self._plan
        if self._commit is None or proposal is None or intent.offer is not None:
            return
        answer = self._answer(proposal)
        intent.offer = OwnProposal(
            fold=Fold(proposal=proposal, answers=(answer,), base=answer.previous), writes=intent.writes
        )
        intent.offer.put_forward()
        self._base = answer.previous
        self._request = Accept(key=self.key, epoch=plan.epoch, ballot=plan.ballot, proposal=proposal)
