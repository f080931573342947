"""The quiet path of requests, over their bytes: an Accept for an instance of which nothing is held, and the Commit of
one that nothing was promised for. Of peers; what a home does for its own writes is the same (`plain_write`).

The rules of `protocol.keys.acceptor` say what happens, and this does the same without a record in between: the vote's
row, the committed row and the changelog's are spliced from the request. All other requests are left to the rules, which
find in the rows whatever was done here.
"""

from typing import TYPE_CHECKING

from epoxy.codec import wire
from epoxy.codec.plain_requests import PlainRequest, record_after, version_to_overwrite
from epoxy.model.ballot import NO_BALLOT
from epoxy.model.errors import RottenRow
from epoxy.model.messages import AcceptOk, CommitOk, Reply
from epoxy.model.records import FRESH, KeyState
from epoxy.node.keys.key_state_cache import FRESH_ROWS, KeyStateCache, PlainState
from epoxy.ports import Store
from epoxy.store.plain_rows import PlainRows

if TYPE_CHECKING:
    from epoxy.node.keys.replica import Replica

ACCEPT_OK = AcceptOk()
COMMIT_OK = CommitOk()


class PlainRequests:
    def __init__(self, replica: "Replica", store: Store, states: KeyStateCache) -> None:
        self._replica = replica
        self._store = store
        self._states = states
        self._rows = PlainRows(replica.keyspace)

    def handle(self, request: PlainRequest) -> Reply | None:
        """None: nothing was done, and the rules are to be asked."""
        state = self.state(request.key)
        if state is None or not is_next(request, state, self._replica.config.epoch):
            return None
        if not request.is_accept:
            self._commit(request, state, urgent=False)
            return COMMIT_OK
        if not is_open(state):
            return None
        self.vote(request.key, state, request.vote(), urgent=True)
        return ACCEPT_OK

    def conclude(self, commit: PlainRequest) -> bool:
        """What `local.conclude` does after a fast round of this replica's own. False: nothing was done, and the rules
        are to be asked: there may be a promise, or another decision."""
        state = self.state(commit.key)
        if state is None or not is_next(commit, state, self._replica.config.epoch):
            return False
        self._commit(commit, state, urgent=True)
        return True

    def state(self, key: bytes) -> PlainState | None:
        """None: the key has a promise, or is final, or its value ends, or its row is in an earlier format or rotten."""
        known = self._states.entry(key)
        if isinstance(known, PlainState):
            return known
        if known is FRESH:
            return FRESH_ROWS
        if known is not None and is_bound(known):
            return None
        try:
            rows = self._rows.read(self._store.newest(), key)
        except RottenRow:
            return None
        if rows is None:
            return None
        record, vote = rows
        if record is None:
            return PlainState(b"", vote, 0) if vote is not None else FRESH_ROWS
        version = version_to_overwrite(record)
        return PlainState(record, vote or b"", version) if version else None

    def vote(self, key: bytes, before: PlainState, vote: bytes, *, urgent: bool) -> None:
        """Rule 4. An own vote that rides in front of its commit is not `urgent`: see `urgency.rides`."""
        after = PlainState(before.record, vote, before.version)
        self._store.put(self._rows.voted(key, vote), None, urgent=urgent)
        self._states.put_plain(key, after)
        for watcher in self._replica.watchers:
            watcher(key, as_state(before), as_state(after))

    def _commit(self, request: PlainRequest, before: PlainState, *, urgent: bool) -> None:
        """Rule 6: whatever was voted for, that belonged to the instance which is now decided, and is dropped."""
        key, view = request.key, self._store.newest()
        after = PlainState(record_after(before.record, request.proposal), b"", request.version)
        logged = request.changelog_entry()
        rows, entry = self._rows.decided(view, key, after.record, logged, voted=before.vote != b"")
        self._store.put(rows, entry, urgent=urgent)
        if request.mutable:
            self._states.put_plain(key, after)
        else:
            self._states.drop(key)
        self._tell(request, before, after)

    def _tell(self, request: PlainRequest, before: PlainState, after: PlainState) -> None:
        """The watchers: states are decoded for those alone that want them."""
        replica = self._replica
        for watcher in (*replica.watchers, *replica.commit_watchers):
            watcher(request.key, as_state(before), as_state(after))
        for watcher, short in replica.short_watchers:
            if short is not None and not short(request):
                watcher(request.key, as_state(before), as_state(after))


def is_bound(state: KeyState) -> bool:
    """By a promise, or for ever by what is committed."""
    return state.promised != NO_BALLOT or state.is_final


def is_next(request: PlainRequest, state: PlainState, epoch: int) -> bool:
    """Rules 1 and 2: it is of this epoch, and for the instance on top of the committed version. Commits are safe to
    learn in any epoch; of another they are left to the rules, too."""
    return request.epoch == epoch and request.version == state.version + 1


def is_open(state: PlainState) -> bool:
    """Rule 4: one vote in the fast round."""
    return not state.vote


def as_state(state: PlainState) -> KeyState:
    record = wire.decode_committed_record(state.record) if state.record else None
    return KeyState(
        committed=record.committed if record is not None else None,
        lineage=record.lineage if record is not None else (),
        vote=wire.decode_vote(state.vote) if state.vote else None,
    )
