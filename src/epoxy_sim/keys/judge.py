"""The judge of single keys. It sees what replicas hold and what clients were told, and knows nothing of the faults.

The numbers are those of the invariants in docs/protocol/per-key.md.
"""

from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from epoxy.model.errors import RottenRow
from epoxy.model.records import LEGACY_PROPOSAL_ID, Expiry, KeyState, Proposal, ProposalId
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    ReadOutcome,
    ReadResult,
    VersionMismatch,
)
from epoxy_sim.register import EndsAt
from epoxy_sim.simulation import Violation
from epoxy_sim.trace_format import NAMES, say


class Judge:
    def __init__(self) -> None:
        self._decided: dict[tuple[bytes, int], tuple[Proposal, str]] = {}
        self._decisions: dict[tuple[bytes, int], tuple[ProposalId, ...]] = {}
        """The ids of the writes of each instance, by its base, as replicas hold them."""
        self._covered: dict[tuple[bytes, int], int] = {}
        """For each version that a replica holds, the base of its decision."""
        self._writes: dict[tuple[bytes, int], tuple[ProposalId, str]] = {}
        self._versions: dict[tuple[bytes, ProposalId], tuple[int, str]] = {}
        self.folds: Counter[str] = Counter()
        """Decisions of several writes, and the writes in them."""
        self.expiries: dict[bytes, dict[int, EndsAt | None]] = {}
        """Those of the versions that replicas held, by key and version."""
        self._given: dict[tuple[bytes, int], tuple[Expiry, str]] = {}
        self._winners: dict[tuple[bytes, int], str] = {}
        self._durable: dict[tuple[int, bytes], KeyState] = {}
        self._epochs: dict[int, int] = {}

    def for_copy(self) -> "Judge":
        """For a machine whose disk does not count: it is judged by itself. What its clients are told counts."""
        return Judge()

    def gone(self, replica: int) -> None:
        """Its disk does not count any more."""

    def alarm(self, text: str) -> None:
        raise Violation("alarm", text)

    def stepped(self, replica: int, key: bytes, before: KeyState, after: KeyState) -> None:
        """3. Within a version promises only rise and a fast vote stays. 2. Across versions nothing goes back."""
        if after.version < before.version or (before.is_final and after.committed != before.committed):
            raise Violation("committed goes back", f"{NAMES[replica]}, {key!r}: {say(before)} became {say(after)}")
        if after.version != before.version:
            return
        if after.promised < before.promised:
            raise Violation("promise falls", f"{NAMES[replica]}, {key!r}: {say(before)} became {say(after)}")
        if before.vote is not None and not vote_may_follow(before, after):
            raise Violation("second vote", f"{NAMES[replica]}, {key!r}: {say(before)} became {say(after)}")

    def adopted(self, replica: int, epoch: int) -> None:
        """Within one life, epochs only rise."""
        if epoch < self._epochs.get(replica, 0):
            raise Violation("epoch falls", f"{NAMES[replica]}: from {self._epochs[replica]} to {epoch}")
        self._epochs[replica] = epoch

    def durable(self, replica: int, key: bytes, state: KeyState) -> None:
        """1. One instance, one value. Only what is durable counts: a commit record that is lost was never a fact."""
        before = self._durable.get((replica, key))
        self._durable[replica, key] = state
        if state.committed is not None and (before is None or before.committed is not state.committed):
            self._one_value(key, state.committed, f"replica {NAMES[replica]}")
            self._one_fold(key, state.committed, f"replica {NAMES[replica]}")
            expiry = state.committed.expiry
            ends_at = (expiry.ttl_ms, expiry.since) if expiry is not None else None
            self.expiries.setdefault(key, {})[state.version] = ends_at

    def started(self, replica: int, load: Callable[[bytes], KeyState]) -> None:
        """What was durable is still there: a restarted replica may know more than that, never less."""
        self._epochs.pop(replica, None)
        for (owner, key), known in self._durable.items():
            if owner != replica:
                continue
            try:
                found = load(key)
            except RottenRow:
                continue
            same_version = found.version == known.version
            if found.version < known.version or (same_version and not holds(found, known)):
                raise Violation("durable state lost", f"{NAMES[replica]}, {key!r}: {say(known)} became {say(found)}")
            self.durable(replica, key, found)

    def decided(self, key: bytes) -> Proposal | None:
        """The newest version of a key that a replica held or a client was told."""
        versions = [version for known, version in self._decided if known == key]
        return self._decided[key, max(versions)][0] if versions else None

    def decided_keys(self) -> list[bytes]:
        """All keys with a decided version."""
        return sorted({key for key, _ in self._decided})

    def disk_lost(self, replica: int) -> None:
        """A replica may forget everything with its disk."""
        for owner, key in list(self._durable):
            if owner == replica:
                del self._durable[owner, key]

    def write_answered(self, key: bytes, client: str, outcome: Outcome) -> None:
        match outcome:
            case Committed():
                self._one_value(key, outcome.proposal, client)
                self._one_value(key, outcome.previous, client)
                if outcome.mine:
                    self._one_winner(key, outcome.proposal.version, client)
            case ExpectedValueDoesNotMatch() | ImmutableKey() | VersionMismatch() | NothingToDelete() | NotAnInteger():
                self._one_value(key, outcome.committed, client)
            case _:
                pass

    def read_answered(self, key: bytes, client: str, outcome: ReadOutcome) -> None:
        """A value with an expiry is absent, at its own version, where a client's write has ended it and that is not
        durable yet."""
        if not isinstance(outcome, ReadResult) or (shown := outcome.committed) is None:
            return
        if shown.value is None and self.expiries.get(key, {}).get(shown.version) is not None:
            self._one_write(key, shown.version, shown.proposal_id, client)
        else:
            self._one_value(key, shown, client)

    def _one_value(self, key: bytes, proposal: Proposal | None, witness: str) -> None:
        if proposal is None:
            return
        if proposal.expiry is not None:
            self._one_expiry(key, proposal.version, proposal.expiry, witness)
        if proposal.folded or proposal.proposer or proposal.expiry is not None:
            proposal = replace(proposal, folded=(), proposer=0, expiry=None)
        known, first = self._decided.setdefault((key, proposal.version), (proposal, witness))
        if known != proposal:
            raise Violation("agreement", f"{key!r}: {first} has {say(known)}, {witness} has {say(proposal)}")
        self._one_write(key, proposal.version, proposal.proposal_id, witness)

    def _one_expiry(self, key: bytes, version: int, expiry: Expiry, witness: str) -> None:
        """The answer of a write that another replica folded does not tell an expiry that was kept."""
        known, first = self._given.setdefault((key, version), (expiry, witness))
        if known != expiry:
            what = f"{first} has {say(known)}, {witness} has {say(expiry)}"
            raise Violation("agreement", f"{key!r} version {version}: {what}")

    def _one_fold(self, key: bytes, decided: Proposal, witness: str) -> None:
        """1. One instance, one decision; and no two decisions make the same version."""
        base, ids = decided.base, (*decided.folded, decided.proposal_id)
        known = self._decisions.setdefault((key, base), ids)
        if known is not ids:
            if known != ids:
                raise Violation("agreement", f"{key!r} on {base}: {say(known)}, but {witness} has {say(decided)}")
            return
        if decided.folded:
            self.folds.update({"folds": 1, "writes in folds": len(ids)})
        for version, proposal_id in enumerate(ids, start=base + 1):
            other = self._covered.setdefault((key, version), base)
            if other != base:
                raise Violation(
                    "decisions overlap", f"{key!r}: {witness} has {say(decided)}, another begins on {other}"
                )
            self._one_write(key, version, proposal_id, witness)

    def _one_write(self, key: bytes, version: int, proposal_id: ProposalId, witness: str) -> None:
        """A version is made by one write, and a write makes one version, once."""
        if proposal_id == LEGACY_PROPOSAL_ID:
            return
        known, first = self._writes.setdefault((key, version), (proposal_id, witness))
        if known != proposal_id:
            what = f"{first} says {say(known)}, {witness} says {say(proposal_id)}"
            raise Violation("agreement", f"{key!r} version {version}: {what}")
        made, first = self._versions.setdefault((key, proposal_id), (version, witness))
        if made != version:
            what = f"made version {made}, says {first}, and {version}, says {witness}"
            raise Violation("took effect twice", f"{key!r}: the write {say(proposal_id)} {what}")

    def _one_winner(self, key: bytes, version: int, client: str) -> None:
        """6. One client at most is told that this version is its own."""
        first = self._winners.setdefault((key, version), client)
        if first != client:
            raise Violation("two winners", f"{key!r} version {version}: {first} and {client}")


def vote_may_follow(before: KeyState, after: KeyState) -> bool:
    """A vote is replaced only by one at a higher, classic ballot."""
    assert before.vote is not None
    if after.vote == before.vote:
        return True
    return after.vote is not None and after.vote.ballot.is_classic and after.vote.ballot > before.vote.ballot


def holds(found: KeyState, known: KeyState) -> bool:
    """At the same version: the promise no lower, and the vote the same one or a later one."""
    if found.promised < known.promised or found.committed != known.committed:
        return False
    return known.vote is None or vote_may_follow(known, found)
