"""What the replicas hold for a key, as sentences: what is committed, what is under way, and why it is slow or stuck.

Nothing here decides anything. Replicas answered at different moments, so what is said of votes and promises was true
when each was asked, and may be over.
"""

from collections.abc import Iterator, Sequence

from epoxy.model.api import Explanation, ReplicaView
from epoxy.model.ballot import NO_BALLOT
from epoxy.model.cluster import ClusterConfig
from epoxy.model.marks import handed_over, is_owned
from epoxy.model.messages import Inspected
from epoxy.model.records import Proposal, ProposalId, Vote

SHOWN_BYTES = 40
"""Of a value in a sentence: enough to recognize it."""

ROTTEN = "is damaged on this node's disk"
"""As `RottenRow` puts it: a replica that has this to say of the key's row has no answer about the key."""

Sentences = Iterator[Explanation]


def explain(views: Sequence[ReplicaView], config: ClusterConfig, remaining_ms: int | None = None) -> list[Explanation]:
    """`remaining_ms`: of a value that ends, what is left by the count of the replica that asked the others."""
    return list(_Reading(views, config).sentences(remaining_ms))


class _Reading:
    def __init__(self, views: Sequence[ReplicaView], config: ClusterConfig) -> None:
        self._views = views
        self._config = config
        self._names = {view.id: view.datacenter or f"replica {view.id}" for view in views}
        self._held = {view.id: view.held for view in views if view.held is not None}
        committed = [held.committed for held in self._held.values() if held.committed is not None]
        self._newest = max(committed, key=lambda known: known.version, default=None)
        self._version = self._newest.version if self._newest is not None else 0

    def sentences(self, remaining_ms: int | None) -> Sentences:
        yield from self._silent()
        if not self._held:
            return
        yield from self._committed()
        yield from self._under_way()
        yield from self._queued()
        yield from self._ending(remaining_ms)

    # Who answered

    def _silent(self) -> Sentences:
        rotten = [view.id for view in self._views if view.held is None and ROTTEN in view.reason]
        if rotten:
            text = (
                f"The row of this key is damaged on the disk of {self._list(rotten)}, which says nothing about the key "
                "until it has the row again from the others, by itself."
            )
            yield Explanation(kind="bad", text=text)
        silent = [view for view in self._views if view.held is None and view.id not in rotten]
        if silent:
            reasons = ", ".join(f"{self._name(view.id)} ({view.reason or 'no reason'})" for view in silent)
            yield Explanation(kind="warn", text=f"Without an answer: {reasons}.")
        if silent or rotten:
            yield self._left()

    def _left(self) -> Explanation:
        voters = set(self._config.voters)
        answered, need, total = len(voters & self._held.keys()), self._config.quorums.slow, len(voters)
        if answered >= need:
            text = f"{answered} of {total} replicas answered, and {need} are enough to read and write it."
            return Explanation(kind="info", text=text)
        text = (
            f"Only {answered} of {total} replicas answered, and {need} are needed: until more are back it can neither "
            "be written nor read for certain. What was committed is not lost."
        )
        return Explanation(kind="bad", text=text)

    # What is committed

    def _committed(self) -> Sentences:
        newest = self._newest
        if newest is None:
            yield from self._nothing()
            return
        if is_owned(newest):
            yield from self._owned(newest.value or b"")
            return
        yield self._what(newest)
        if newest.folded:
            yield self._fold(newest)
        behind = [replica for replica, held in self._held.items() if held.committed != newest]
        if behind:
            verb = "has" if len(behind) == 1 else "have"
            text = (
                f"{self._list(behind)} {verb} not got it yet. That is no fault: a replica learns it from the others "
                "when it is asked for the key, or when they compare what they hold."
            )
            yield Explanation(kind="info", text=text)

    def _nothing(self) -> Sentences:
        touched = [held for held in self._held.values() if held.vote is not None or held.promised != NO_BALLOT]
        if not touched:
            text = "No replica that answered knows this key: it is free. A write of it takes one round trip."
            yield Explanation(kind="info", text=text)
        else:
            text = "No replica that answered has a committed value. What is under way will decide the first one."
            yield Explanation(kind="info", text=text)

    def _owned(self, mark: bytes) -> Sentences:
        before = handed_over(mark)
        had = f" It was written by itself before, up to version {before.version}." if before.version else ""
        text = (
            "This key belongs to transactions, for ever: its value is that of the ordered engine, and a single write "
            f"of it is ordered with the transactions.{had}"
        )
        yield Explanation(kind="info", text=text)

    def _what(self, newest: Proposal) -> Explanation:
        holding = sum(held.committed == newest for held in self._held.values())
        where = f"held by {holding} of {len(self._views)} replicas"
        if newest.is_tombstone:
            text = f"Deleted at version {newest.version}, {where}: it has no value, and its next version is higher."
        elif newest.mutable:
            text = f"Version {newest.version} is {shown(newest.value)}, {where}."
        elif newest.version == 0:
            text = f"Taken for ever, as {shown(newest.value)}, a value of the first layout, {where}."
        else:
            text = (
                f"Taken for ever, as {shown(newest.value)}, {where}: each of them answers reads and refuses other "
                "values without asking another one."
            )
        return Explanation(kind="good" if holding == len(self._views) else "info", text=text)

    def _fold(self, newest: Proposal) -> Explanation:
        writes = 1 + len(newest.folded)
        text = (
            f"{writes} writes that waited for each other were decided together: {self._name(newest.home)} took the key "
            f"from version {newest.base} to {newest.version} in one decision."
        )
        return Explanation(kind="info", text=text)

    # What is under way

    def _under_way(self) -> Sentences:
        """Votes and promises for what comes next after the newest version. Those of a replica that is behind are about
        an earlier decision, and over."""
        current = {replica: held for replica, held in self._held.items() if self._is_current(held)}
        votes = {replica: held.vote for replica, held in current.items() if held.vote is not None}
        sealed = [replica for replica, vote in votes.items() if vote.epoch <= self._config.sealed]
        counted = {replica: vote for replica, vote in votes.items() if replica not in sealed}
        if sealed:
            text = (
                f"A vote at {self._list(sealed)} is of an epoch whose members have changed since: it no longer counts, "
                "and the next write replaces it."
            )
            yield Explanation(kind="info", text=text)
        slow = self._slow_round(current)
        if counted:
            yield self._votes(counted, is_overtaken=slow is not None)
        if slow is not None:
            yield slow
        over = [replica for replica, held in self._held.items() if held.vote is not None and replica not in current]
        if over:
            text = f"A vote at {self._list(over)} is about what was decided meanwhile, and over."
            yield Explanation(kind="info", text=text)

    def _is_current(self, held: Inspected) -> bool:
        return (held.committed.version if held.committed is not None else 0) == self._version

    def _votes(self, votes: dict[int, Vote], *, is_overtaken: bool) -> Explanation:
        by_write: dict[ProposalId, list[int]] = {}
        for replica, vote in votes.items():
            by_write.setdefault(vote.proposal.proposal_id, []).append(replica)
        if len(by_write) > 1:
            return self._split(votes, by_write)
        (voters,) = by_write.values()
        vote = votes[voters[0]]
        home, value, sizes = self._name(vote.proposal.home), shown(vote.proposal.value), self._config.quorums
        votes_of = f"the {'vote' if len(voters) == 1 else 'votes'} of {self._list(voters)}"
        head = f"A write of {value} from {home} is under way, with {votes_of}"
        if vote.ballot.is_classic or is_overtaken:
            return Explanation(kind="warn", text=f"{head}.")
        if len(voters) >= sizes.fast:
            text = (
                f"{head}: enough to decide it in one round trip. {home} has not told the others yet; if it died in "
                "between, the next read or write of the key finishes this one."
            )
            return Explanation(kind="info", text=text)
        text = (
            f"{head}: one round trip needs {sizes.fast} of {sizes.n}. Either the others' votes are on their way, or "
            f"{home} died. Nothing is blocked by that: the next read or write of the key asks a majority, and finishes "
            "this one or puts its own in its place."
        )
        return Explanation(kind="warn", text=text)

    def _split(self, votes: dict[int, Vote], by_write: dict[ProposalId, list[int]]) -> Explanation:
        sides = "; ".join(
            f"{self._list(voters)} for {shown(votes[voters[0]].proposal.value)} from "
            f"{self._name(votes[voters[0]].proposal.home)}"
            for voters in by_write.values()
        )
        text = (
            f"Split votes: {sides}. Two writers met, and neither has the {self._config.quorums.fast} votes of one "
            "round trip; a slow round, which asks a majority first, decides which of them it is."
        )
        return Explanation(kind="warn", text=text)

    def _slow_round(self, current: dict[int, Inspected]) -> Explanation | None:
        """A classic ballot is promised: by whom, and what that means."""
        promised = {replica: held.promised for replica, held in current.items() if held.promised.is_classic}
        if not promised:
            return None
        highest = max(promised.values())
        at = [replica for replica, ballot in promised.items() if ballot == highest]
        voted = [replica for replica in at if (vote := current[replica].vote) is not None and vote.ballot == highest]
        leader = self._name(highest.replica_id)
        head = f"A slow round of {leader} ({highest}, promised by {self._list(at)})"
        tail = (
            f"{self._list(voted)} voted in it; {self._config.quorums.slow} votes decide."
            if voted
            else "Votes come next. Earlier votes alone decide nothing any more."
        )
        text = (
            f"{head}: writers met, or one did not answer in time, so a majority is asked first and votes then, which "
            f"takes two round trips. {tail} If {leader} died, another one overtakes it with a "
            "higher number."
        )
        return Explanation(kind="warn", text=text)

    # Who folds, and what waits

    def _queued(self) -> Sentences:
        owners = sorted({held.owner for held in self._held.values() if held.owner})
        for owner in owners:
            carrying = [replica for replica, held in self._held.items() if held.owner == owner]
            verb = "carries writes of its clients" if len(carrying) == 1 else "carry writes of their clients"
            text = (
                f"{self._name(owner)} wrote the key last and owns it for now: {self._list(carrying)} {verb} there, "
                "where writes that meet are decided together."
            )
            yield Explanation(kind="info", text=text)
        for replica, held in self._held.items():
            if held.waiting:
                writes = "1 write waits" if held.waiting == 1 else f"{held.waiting} writes wait"
                text = f"{writes} at {self._name(replica)} for the round that is under way."
                yield Explanation(kind="warn", text=text)

    # When it ends

    def _ending(self, remaining_ms: int | None) -> Sentences:
        expiry = self._newest.expiry if self._newest is not None else None
        if expiry is None:
            return
        if expiry.session:
            text = f"It ends with session {expiry.session.hex()}, by a decision of the cluster."
        elif remaining_ms is None:
            text = f"It has a time to live of {seconds(expiry.ttl_ms)}, given at version {expiry.since}."
        elif remaining_ms <= 0:
            text = (
                f"Its time to live of {seconds(expiry.ttl_ms)} is over by the count of this replica: its end is being "
                "decided, and a renewal that comes before it wins."
            )
        else:
            text = (
                f"It ends in {seconds(remaining_ms)} by the count of this replica (time to live "
                f"{seconds(expiry.ttl_ms)}, given at version {expiry.since}). Each replica counts for itself; the end "
                "is one decision for all."
            )
        yield Explanation(kind="info", text=text)

    def _name(self, replica: int) -> str:
        return self._names.get(replica, f"replica {replica}")

    def _list(self, replicas: Sequence[int]) -> str:
        names = [self._name(replica) for replica in replicas]
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def shown(value: bytes | None) -> str:
    """A value in a sentence."""
    if value is None:
        return "a deletion"
    if not value:
        return "an empty value"
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return f"{len(value):,} bytes that are no text"
    if not text.isprintable():
        return f"{len(value):,} bytes of text"
    if len(value) > SHOWN_BYTES:
        return f"'{text[:SHOWN_BYTES]}...' ({len(value):,} bytes)"
    return f"'{text}'"


def seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3g} s" if milliseconds < 60_000 else f"{milliseconds / 60_000:.3g} min"
