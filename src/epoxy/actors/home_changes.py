"""Becoming the home of a name: reserved, taken over, adopted after a move, made anew; and giving it up.

One rule decides who may change a home record: the datacenter whose lease it names, while that lasts; any datacenter,
once a linearizable read has shown that it is over. The write compares the version, so of several takers one wins.

A datacenter serves an actor only by a row that names the lease it holds itself. It makes that row after the record is
committed, and takes the lease out of it before it gives the record up. So what a crash or a lost answer leaves half
done is found by the next question about the name, and settled here.
"""

from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from epoxy.actors import directory
from epoxy.actors.datacenter_lease import DatacenterLeases, HomeLease
from epoxy.actors.homes import Homes, KnownHome, NotReserved, Undecided
from epoxy.actors.hosting import Hosting
from epoxy.actors.messages import Ensure, Missing, OwnerUnavailable, Unknown
from epoxy.model.actors import ActorEntry, ActorName, make_id
from epoxy.model.homes import DatacenterLease, HomeRecord
from epoxy.ports import Dice, KeyEngine, Store, Transaction
from epoxy.protocol.placement.records import EnvoyPool

MAX_TRIES = 4
"""Times that the record of a name is looked at anew because another datacenter has changed it."""

MAX_WAITING = 1_024
"""Questions about one name that wait for its home to be settled."""

NO_LEASE = "this datacenter holds no lease as a home of actors now: it cannot reach enough others, or has just started"
CHANGING = "the home of the actor is changing; try again"


class HomeHere(Struct, frozen=True, kw_only=True):
    """This datacenter is the home, under the lease that it holds. `created`: by this very question."""

    actor: ActorEntry
    created: bool = False


class HomeThere(Struct, frozen=True, kw_only=True):
    """Another datacenter is the home, or should become it. `epoch`: of the record that says so; 0: none does."""

    label: int
    epoch: int = 0


Located = HomeHere | HomeThere | Missing | OwnerUnavailable | Unknown
Told = Callable[[Located], None]


class HomeChanges:
    """`members`: the labels of the datacenters of the cluster. `distance` orders them, nearest first; `datacenter` is
    the name of one, for people."""

    def __init__(
        self, keys: KeyEngine, store: Store, lease: HomeLease, hosting: Hosting, dice: Dice, label: int
    ) -> None:
        self.homes = Homes(keys)
        self.lease = lease
        self.store = store
        self.leases = DatacenterLeases(keys)
        self.hosting = hosting
        self.dice = dice
        self.label = label
        self.members: Callable[[], Iterable[int]] = tuple
        self.distance: Callable[[int], float] = float
        self.datacenter: Callable[[int], str] = lambda label: f"datacenter {label}"
        self.taken_over = 0
        """Actors whose home was gone, and is here now."""
        self._changing: dict[ActorName, list[Callable[[], None]]] = {}

    def with_workers(self, namespace: str, pool: str) -> int | None:
        """Where an actor of this pool should be: here, if there are workers, or at the nearest datacenter with some;
        None: no lease names the pool."""
        places = self.places_with_workers(namespace, pool)
        if self.label in places:
            return self.label
        return min(places, key=lambda label: (self.distance(label), label), default=None)

    def places_with_workers(self, namespace: str, pool: str) -> list[int]:
        return [label for label in self.members() if self._offers(label, (namespace, pool))]

    def _offers(self, label: int, pool: tuple[str, str]) -> bool:
        if label == self.label:
            return EnvoyPool(*pool) in self.hosting.pools()
        lease = self.leases.known(label)
        return lease is not None and pool in lease.pools

    def settle(
        self, name: ActorName, ensure: Ensure | None, again: Callable[[], None], told: Told, *, fresh: bool = False
    ) -> None:
        """Find out which datacenter is home, and become it if none is. `ensure`: make the actor if there is none.
        `again` is called in place of `told` when another question has settled it. `fresh`: no record is known here, so
        a reservation is tried without reading. Questions wait for the lease side by side: one after the other, a name
        that is asked for often would be refused once in `WAIT_MS`."""

        def leased(lease: bytes | None) -> None:
            if lease is None:
                told(OwnerUnavailable(reason=NO_LEASE))
            elif self.begin(name, again, told):
                HomeChange(self, name, ensure, lease, partial(self.end, name, told)).start(fresh)

        self.lease.when_held(leased)

    def begin(self, name: ActorName, again: Callable[[], None], told: Told) -> bool:
        """One change of a name at a time: others wait until `end`. False: this one waits."""
        waiting = self._changing.get(name)
        if waiting is None:
            self._changing[name] = []
        elif len(waiting) < MAX_WAITING:
            waiting.append(again)
        else:
            told(OwnerUnavailable(reason=CHANGING))
        return waiting is None

    def end(self, name: ActorName, told: Told, located: Located) -> None:
        waiting = self._changing.pop(name)
        told(located)
        for again in waiting:
            again()

    def release(self, name: ActorName, actor: ActorEntry, to: int, told: Callable[[KnownHome | None], None]) -> None:
        """Give an actor that is at home here to another datacenter: end it, then write the record without a lease.
        Between `begin` and `end`. None: it is not known to be released; the next question settles that."""

        def ended(released: ActorEntry | None) -> None:
            if released is None:
                told(None)
            else:
                self.homes.newest(name, write)

        def write(home: KnownHome | NotReserved | Undecided) -> None:
            ours = isinstance(home, KnownHome) and home.record.label == self.label and home.record.actor_id == actor.id
            if isinstance(home, KnownHome) and ours and home.record.alive:
                record = replace(home.record, label=to, lease=b"", epoch=home.record.epoch + 1)
                self.homes.change(name, home, record, written)
            else:
                told(None)

        def written(home: KnownHome | NotReserved | Undecided) -> None:
            told(home if isinstance(home, KnownHome) and home.mine else None)

        self.hosting.release(actor.id, ended)


class HomeChange:
    """One question that needs to know the home of a name for certain."""

    def __init__(self, changes: HomeChanges, name: ActorName, ensure: Ensure | None, lease: bytes, told: Told) -> None:
        self._changes = changes
        self._homes = changes.homes
        self._name = name
        self._ensure = ensure
        self._told = told
        self._lease = lease
        self._tries = 0

    def start(self, fresh: bool) -> None:
        if fresh and self._ensure is not None:
            self._reserve(self._ensure)
        else:
            self._homes.newest(self._name, self._judge)

    def _judge(self, home: KnownHome | NotReserved | Undecided) -> None:
        """By the record in force."""
        if isinstance(home, Undecided):
            self._undecided(home)
        elif isinstance(home, NotReserved):
            if self._ensure is None:
                self._told(Missing())
            else:
                self._reserve(self._ensure)
        elif home.record.label == self._changes.label:
            self._ours(home)
        elif is_legacy(home.record) and home.record.label in self._changes.members():
            # A node of an earlier version holds no lease. As long as it is a member, it is the home.
            self._told(HomeThere(label=home.record.label))
        else:
            self._changes.leases.ask(home.record.label, partial(self._theirs, home))

    def _undecided(self, outcome: Undecided) -> None:
        """Whether an actor was made matters to a question that makes one; others have not been carried out."""
        definite = outcome.definite or self._ensure is None
        self._told(OwnerUnavailable(reason=outcome.reason) if definite else Unknown(reason=outcome.reason))

    def _again(self, home: KnownHome | NotReserved | Undecided) -> None:
        """Another datacenter was first."""
        self._tries += 1
        if self._tries >= MAX_TRIES:
            self._told(OwnerUnavailable(reason=CHANGING))
        elif isinstance(home, NotReserved):
            self._homes.newest(self._name, self._judge)
        else:
            self._judge(home)

    # The record names another datacenter

    def _theirs(self, home: KnownHome, lease: DatacenterLease | None, known: bool) -> None:
        record = home.record
        if not known:
            reason = f"{self._named(record)}, the actor's home, may be gone, and too few others answer to tell"
            self._told(OwnerUnavailable(reason=reason))
        elif lease is not None:
            # In force, or that datacenter is back under another one: then it is the first to take the name again.
            self._told(HomeThere(label=record.label, epoch=record.epoch))
        else:
            self._take_over(home)

    def _take_over(self, home: KnownHome) -> None:
        """Its home is gone."""
        record = home.record
        if not record.alive or is_legacy(record):
            if self._ensure is None:
                self._told(
                    Missing() if not record.alive else OwnerUnavailable(reason=self._unknown_pool(record), final=True)
                )
            else:
                self._make_anew(home, self._ensure)
            return
        place = self._changes.with_workers(self._name.namespace, record.pool)
        if place == self._changes.label:
            self._become_home(home, record)
        elif place is not None:
            self._told(HomeThere(label=place))
        else:
            reason = f"{self._named(record)}, the actor's home, is gone, and no other has workers of its pool"
            self._told(OwnerUnavailable(reason=f"{reason}, {record.pool!r}", final=True))

    def _unknown_pool(self, record: HomeRecord) -> str:
        return f"{self._named(record)}, the actor's home, is gone; create the actor again, in a pool that has workers"

    def _named(self, record: HomeRecord) -> str:
        return self._changes.datacenter(record.label)

    # The record names this datacenter, or none that lives

    def _ours(self, home: KnownHome) -> None:
        record = home.record
        row = directory.named(self._changes.store.newest(), self._name)
        if not record.alive:
            self._ended(home, row)
        elif is_legacy(record) and (row is None or not row.is_alive):
            self._ended(home, None)
        elif row is not None and row.id == record.actor_id and not row.is_alive and row.epoch == record.epoch:
            self._bury(home)
        elif record.lease == self._lease and (row is None or row.id != record.actor_id):
            self._adopt(home, fresh=record.epoch == 0)
        elif record.lease == self._lease and row is not None and row.lease == self._lease:
            self._told(HomeHere(actor=row))
        elif is_legacy(record) and row is not None:
            known = replace(record, actor_id=row.id, pool=row.pool, create_ts=row.create_ts, input=row.input)
            self._become_home(home, known)
        else:
            self._become_home(home, record)

    def _become_home(self, home: KnownHome, record: HomeRecord) -> None:
        """Under the lease that is held here. Also where the record names that already, but the row does not: then a
        write that gives the name up may be on its way, and this one keeps it from being decided."""
        changes = self._changes
        taken = record.label != changes.label
        record = replace(record, label=changes.label, lease=self._lease, epoch=record.epoch + 1)

        def became(new: KnownHome | NotReserved | Undecided) -> None:
            if isinstance(new, KnownHome) and new.mine:
                changes.taken_over += taken
                self._adopt(new, fresh=False)
            elif isinstance(new, Undecided):
                # The actor's code has seen nothing.
                self._told(OwnerUnavailable(reason=new.reason))
            else:
                self._again(new)

        self._homes.change(self._name, home, record, became)

    def _adopt(self, home: KnownHome, *, fresh: bool, created: bool = False) -> None:
        hosting = self._changes.hosting

        def adopted(actor: ActorEntry) -> None:
            if hosting.at_home(actor) and actor.is_alive:
                self._told(HomeHere(actor=actor, created=created))
            else:
                self._told(OwnerUnavailable(reason=NO_LEASE))

        self._homes.forget(self._name)
        hosting.adopt(self._name, home.record, adopted, fresh=fresh)

    # Reserved, destroyed, made anew

    def _reserve(self, ensure: Ensure) -> None:
        self._homes.reserve(self._name, self._new_record(ensure, 0), self._reserved)

    def _reserved(self, home: KnownHome | NotReserved | Undecided) -> None:
        if isinstance(home, KnownHome) and home.mine:
            self._adopt(home, fresh=True, created=True)
        elif isinstance(home, NotReserved):
            self._told(OwnerUnavailable(reason="the name is reserved in a form that this node cannot read"))
        elif isinstance(home, KnownHome):
            # The name was reserved before. It may have moved since.
            self._again(NotReserved())
        else:
            self._undecided(home)

    def _new_record(self, ensure: Ensure, epoch: int) -> HomeRecord:
        changes = self._changes
        return HomeRecord(
            actor_id=make_id(changes.dice.nonce(), changes.dice.nonce(), changes.label),
            label=changes.label,
            lease=self._lease,
            epoch=epoch,
            pool=ensure.pool,
            create_ts=changes.hosting.placement.now_ms(),
            input=ensure.input,
        )

    def _make_anew(self, home: KnownHome, ensure: Ensure) -> None:
        """The last actor of the name was destroyed: another one, with an id of its own. One that an earlier version
        reserved, and did not make, gets the id that is reserved."""

        def made(new: KnownHome | NotReserved | Undecided) -> None:
            if isinstance(new, KnownHome) and new.mine:
                self._adopt(new, fresh=True, created=True)
            elif isinstance(new, Undecided):
                self._undecided(new)
            else:
                self._again(new)

        record = self._new_record(ensure, home.record.epoch + 1)
        if is_legacy(home.record) and directory.named(self._changes.store.newest(), self._name) is None:
            record = replace(record, actor_id=home.record.actor_id)
        self._homes.change(self._name, home, record, made)

    def _ended(self, home: KnownHome, row: ActorEntry | None) -> None:
        if row is not None and row.id == home.record.actor_id:
            self._changes.store.transact(partial(note_end, row.id, self._lease))
        if self._ensure is None:
            self._told(Missing())
        else:
            self._make_anew(home, self._ensure)

    def _bury(self, home: KnownHome) -> None:
        """It was destroyed here, and the record does not say so yet: no take-over must bring it back."""
        record = replace(home.record, alive=False, input=b"", lease=self._lease, epoch=home.record.epoch + 1)

        def buried(new: KnownHome | NotReserved | Undecided) -> None:
            if isinstance(new, KnownHome) and new.mine:
                self._judge(new)
            elif isinstance(new, Undecided):
                self._told(Unknown(reason=new.reason))
            else:
                self._again(new)

        self._homes.change(self._name, home, record, buried)


def note_end(actor_id: bytes, lease: bytes, tx: Transaction) -> None:
    """The record says that it is destroyed: under this lease its row is enough to know."""
    actor = directory.load(tx, actor_id)
    if actor is not None and not actor.is_alive:
        directory.save(tx, replace(actor, lease=lease))


def is_legacy(record: HomeRecord) -> bool:
    """A reservation of an earlier version: an id, and neither lease nor pool."""
    return record.epoch == 0 and not record.lease
