"""Checks the identities of stores: of peers, before their frames count, and of this replica, before it may vote. The
rules are those of `protocol.members.identity`."""

from collections.abc import Callable
from functools import partial

from epoxy.model.cluster import ClusterConfig
from epoxy.node.keys.replica import Replica
from epoxy.ports import Store
from epoxy.protocol.members.identity import Recognition, may_vote, recognise
from epoxy.store.member_rows import MemberSpace


class StoreIdentityCheck:
    """`identity` is that of this replica's own store."""

    def __init__(self, replica: Replica, store: Store, space: MemberSpace, identity: int) -> None:
        self._replica = replica
        self._store = store
        self._space = space
        self.identity = identity
        self._noted = store.transact(space.noted)
        self._noted_by: set[int] = set()
        self._known: dict[int, int] = {}
        self._config: ClusterConfig | None = None
        self._may_vote = False
        self.confirmed: Callable[[], None] = lambda: None
        """Called when this store may vote from now on."""

    def heard(self, replica_id: int, identity: int) -> bool:
        """Whether the answer to a frame of this replica counts. A peer that names no store has not recorded this one:
        it answers that this replica is no member."""
        if identity == 0:
            return True
        admitted = self.admits(replica_id, identity)
        if admitted:
            self.answered(replica_id)
        return admitted

    def admits(self, replica_id: int, identity: int) -> bool:
        """Whether a frame may be handled. A store that is new here is recorded; replies to its frame leave after that
        is durable."""
        if self._config is not self._replica.config:
            self._look_again()
        if self._known.get(replica_id) == identity:
            return True
        match recognise(self._replica.config, self._noted, replica_id, identity):
            case Recognition.KNOWN:
                self._known[replica_id] = identity
                return True
            case Recognition.IMPOSTOR:
                return False
            case Recognition.NEW:
                self.note(replica_id, identity)
                return True

    def answered(self, replica_id: int) -> None:
        """A peer that handles frames of this replica has recorded its store. Once a majority has, it may vote for
        good."""
        if self._noted.get(self._replica.me) == self.identity:
            return
        self._noted_by.add(replica_id)
        self._look_again()
        if self.may_vote:
            self.note(self._replica.me, self.identity)
            self.confirmed()

    @property
    def may_vote(self) -> bool:
        if self._config is not self._replica.config:
            self._look_again()
        return self._may_vote

    def _look_again(self) -> None:
        """The answers are cached, because every frame asks: they depend on the configuration and on what is noted."""
        me, config = self._replica.me, self._replica.config
        was_noted = self._noted.get(me) == self.identity
        self._may_vote = may_vote(config, me, self.identity, set(config.voters) if was_noted else self._noted_by)
        self._config = config
        self._known.clear()

    def note(self, replica_id: int, identity: int) -> None:
        self._noted[replica_id] = identity
        self._look_again()
        self._store.transact(partial(self._space.note, replica_id=replica_id, identity=identity))
