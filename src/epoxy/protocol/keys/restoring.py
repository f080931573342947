"""What a replica may hold for a key whose committed row it cannot read any more.

The replica takes no part itself: it has promised and voted for the version after a committed one that it does not know.
For the others it is as good as down, so a slow quorum of them knows, or finishes, every version that was decided before
they are asked, the one in the lost row among them.

Ballots of a recovery are not reserved here. An acceptor refuses a second Prepare at one ballot, and any two quorums
share an acceptor other than this replica, which is in none of them here: so phase 1 succeeds once for each ballot, also
if this replica has used it before.
"""

from epoxy.model.ballot import NO_BALLOT, Ballot, next_classic
from epoxy.model.messages import Accept, Prepare, PrepareOk
from epoxy.model.records import KeyState, Proposal, Vote
from epoxy.model.writes import ReadFailed, ReadOutcome, ReadResult, Source
from epoxy.protocol.effects import Context, Pause
from epoxy.protocol.keys.effects import Flow
from epoxy.protocol.keys.reader import across_epochs, in_flight, newest_of, read_oks, read_request, version_of
from epoxy.protocol.keys.recovery import choose
from epoxy.protocol.keys.rounds import broadcast_commit, gather

NO_QUORUM = ReadFailed(reason="no quorum of the other replicas answered")


def read_from_others(key: bytes, above: Ballot, ctx: Context) -> Flow[ReadOutcome]:
    """The newest version that a slow quorum without this replica knows of, after finishing what is in flight. `above`:
    the highest ballot this replica has seen of the key, so that a recovery does not begin with one that is refused."""
    return (yield from across_epochs(ctx, lambda ctx: ask_others(key, above, ctx)))


def ask_others(key: bytes, above: Ballot, ctx: Context) -> Flow[ReadOutcome]:
    got = yield from gather(ctx, read_request(key, ctx), ctx.others(), need=ctx.config.quorums.slow, own={}, base=None)
    if not got.reached:
        return NO_QUORUM
    replies = read_oks(got.oks)
    committed = newest_of(replies.values())
    if not in_flight(replies, version_of(committed), ctx.config):
        return ReadResult(committed=committed, source=Source.QUORUM)
    return (yield from finish(key, committed, above, ctx))


def finish(key: bytes, base: Proposal | None, above: Ballot, ctx: Context) -> Flow[ReadOutcome]:
    """Get the instance on top of `base` decided, or find that nothing was chosen for it."""
    for attempt in range(ctx.timing.retries + 1):
        if attempt:
            yield Pause(delay_ms=ctx.backoff_ms(attempt - 1))
        result = yield from one_ballot(key, base, next_classic(ctx.me, above), ctx)
        if not isinstance(result, Ballot):
            return result
        above = max(above, result)
    return NO_QUORUM


def one_ballot(key: bytes, base: Proposal | None, ballot: Ballot, ctx: Context) -> Flow[ReadResult | Ballot]:
    """Phase 1 and phase 2 among the others. A ballot as the result: refused, and the next try must be above it."""
    epoch, slow, others = ctx.config.epoch, ctx.config.quorums.slow, ctx.others()
    ask = Prepare(key=key, epoch=epoch, ballot=ballot, base=version_of(base))
    promises = yield from gather(ctx, ask, others, need=slow, own={}, base=base)
    if promises.decided is not None:
        return ReadResult(committed=promises.decided.committed, source=Source.QUORUM)
    if not promises.reached:
        return max(promises.highest, ballot)
    chosen = choose({i: ok.vote for i, ok in promises.oks.items() if isinstance(ok, PrepareOk)}, ctx.config)
    if chosen is None:
        return ReadResult(committed=base, source=Source.QUORUM)
    vote = Accept(key=key, epoch=epoch, ballot=ballot, proposal=chosen)
    votes = yield from gather(ctx, vote, others, need=slow, own={}, base=base)
    if votes.decided is not None:
        return ReadResult(committed=votes.decided.committed, source=Source.QUORUM)
    if not votes.reached:
        return max(votes.highest, ballot)
    yield broadcast_commit(ctx, key, chosen)
    return ReadResult(committed=chosen, source=Source.QUORUM)


def highest_seen(promised: Ballot, vote: Vote | None) -> Ballot:
    return max(promised, vote.ballot if vote is not None else NO_BALLOT)


def restored(found: Proposal, promised: Ballot, vote: Vote | None) -> KeyState | None:
    """The state with what the others know, and with this replica's own promise and vote; None: they do not fit.

    `found` is the lost version or a later one. A vote on top of it stays; one on top of an earlier version is as
    settled as when a Commit comes. A promise stays, because its version is not known: one too many
    refuses a ballot, one too few breaks a promise. The lineage stays empty, as in a replica that learned the key from
    a page: a writer whose version is not in it is told "unknown", or asks the others."""
    if not found.mutable:
        fits = vote is None or vote.proposal.base < found.version
        return KeyState(committed=found) if fits else None
    if vote is None or vote.proposal.base < found.version:
        return KeyState(committed=found, promised=promised)
    if vote.proposal.base == found.version:
        return KeyState(committed=found, promised=promised, vote=vote)
    return None
