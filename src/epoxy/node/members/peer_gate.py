"""Which nodes are heard, and whether this one may vote. One piece of code for the server and the simulators.

The rules are those of `protocol.members.identity` (which store is a replica's) and `protocol.members.incarnation`
(which start of that store). Both ends judge: a node compares the starts of others with its records, and its own with
what the others remember of it.

The order in which its methods are called on a connection:

    both ends   is_open             nothing is said before
                greeting            made when it is sent
                told                what the other end remembers of this store
                meet                the other end's greeting; None: its frames are handled
                connected
    each frame  hear                a request or an answer, with the sender's position; False: it does not count
                answered            an answer arrived, so the other end has recorded this start
                objected            the other end refuses this start
    the end     disconnected
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial

from epoxy.model.cluster import ClusterConfig
from epoxy.model.incarnation import Greeting, Incarnation, MismatchCode, Sighting, StoreMismatch
from epoxy.model.members import FiguresRead, MemberRequest, StatusRead
from epoxy.model.messages import Failed, Reply, Request, UpdateConfig
from epoxy.node.keys.replica import Replica
from epoxy.ports import Clock, Dice, Store, Timer, Transaction, Transport
from epoxy.protocol.members.identity import Recognition, may_vote, recognise
from epoxy.protocol.members.incarnation import StoreRefusal, is_cleared, refusal_of, sighting
from epoxy.store.member_rows import MemberSpace

REMEMBER_MS = 250.0
"""Within this time a peer's position is durable here: one small frame of the log for all peers, four times a second
at most, and none while no position rises."""

ALIVE_MS = 3_000.0
"""An older start of a store counts as alive while it has a connection and was heard within this time. Links send probes
more often; a machine that lost its power is back later than that."""

WAY_OUT = "It takes no part any more; `epoxy members add NEW-ID URL --replace {me}` replaces it, with an empty disk"


CODES = {
    StoreRefusal.OLD_COPY: MismatchCode.OLD_COPY,
    StoreRefusal.CLONE: MismatchCode.CLONE,
    StoreRefusal.SHORTENED: MismatchCode.SHORTENED,
}

WORDS = {
    StoreRefusal.OLD_COPY: "a later start of the same store is known: this is an older copy of it",
    StoreRefusal.CLONE: "another process was started from a copy of the same store",
    StoreRefusal.SHORTENED: "it held more before: its log was shortened, or an older copy of it restored",
}

REFUSALS = {code: refusal for refusal, code in CODES.items()}

OBJECTION_MS = 10_000.0
"""How long a peer to which an earlier start still ran, and which has fallen silent, is waited for. One that is reached
says it again."""

PASSING_MS = 10_000.0
"""For what a process sent that another one has superseded: it may have ended long ago, and a paused one speaks once
more when it goes on, learns of the other, and ends. One that still speaks after this is an operator's to look at."""

FORMER_STARTS = 4
"""Nonces of a peer's starts before its last, by which a process is known that was superseded: as many take-overs as
happen while one of them stands still."""

LATELY_MS = 600_000.0
"""How long status and `epoxy doctor` tell of a process that was refused. One that refused itself dials no more."""


class PeerGate:
    def __init__(
        self, replica: Replica, store: Store, space: MemberSpace, clock: Clock, dice: Dice, *, strict: bool = False
    ) -> None:
        """`strict`: vote only after n - slow + 1 others have recorded this start."""
        self._replica = replica
        self._store = store
        self._space = space
        self._clock = clock
        self._strict = strict
        base, identity, nonce = store.position(), dice.nonce(), dice.nonce()
        self.incarnation = store.transact(partial(self._begin, base, identity, nonce))
        self.identity = self.incarnation.store
        self.refused = space.refusal(store.newest())
        """Why this store takes no part any more, for good; empty if it does."""
        # A store that is refused may be so because rows beside these are damaged.
        self._noted = space.noted(store.newest()) if not self.refused else {}
        self._sightings = self._recall() if not self.refused else {}
        self._admitted: dict[int, int] = {}
        """The nonce of each peer that is heard in this configuration."""
        self._risen: set[int] = set()
        """Peers whose positions rose and are not durable here yet."""
        self._remembering: Timer | None = None
        self._connections: Counter[tuple[int, int]] = Counter()
        self._heard_ms: dict[int, float] = {}
        self._warned: dict[int, tuple[int, MismatchCode]] = {}
        self._turned_away: dict[int, tuple[int, MismatchCode, float]] = {}
        """The last start of each peer that was refused: its nonce, why, and when."""
        self._former: dict[int, deque[int]] = {}
        """Nonces of starts of each peer that were heard, before the one on record."""
        self._passing: dict[int, tuple[int, float]] = {}
        """Of each peer, the nonce of a start whose refusal may pass by itself, and when it was refused first."""
        self._recorded_by: set[int] = set()
        self._objections: dict[int, float] = {}
        """Peers to which an earlier start of this store still runs, and when they said so last."""
        self._config: ClusterConfig | None = None
        self._may_vote = self._is_known = False
        self.is_cleared = False
        """Whether enough peers have recorded this start; from then on for as long as this process runs."""
        self.is_open = False
        """Whether this start is durable. Nothing is said to other nodes before that."""
        self.changed: Callable[[], None] = lambda: None
        """Called when this node may vote from now on, was refused, or waits for another reason."""
        self.alarm: Callable[[str], None] = lambda _: None
        """Called once for each start that is refused, here or of another node."""
        self.notice: Callable[[str], None] = lambda _: None
        """Called instead if the refusal is what a restart or a take-over inside a datacenter may lead to, and passes by
        itself."""
        self.position: Callable[[], int] = store.position
        """How much of the own store is durable now."""
        self.refusals: Counter[MismatchCode] = Counter()
        """Starts of other nodes that were refused, each counted once, by reason."""
        if not self.refused:
            self._open_when_durable()

    def _begin(self, base: int, identity: int, nonce: int, tx: Transaction) -> Incarnation:
        store = self._space.identity(tx, identity)
        counter, last_nonce = self._space.last_start(tx)
        if self._space.refusal(tx):
            return Incarnation(store=store, counter=counter, nonce=last_nonce, base=base)
        self._space.begin(tx, counter + 1, nonce)
        return Incarnation(store=store, counter=counter + 1, nonce=nonce, base=base)

    def _recall(self) -> dict[int, Sighting]:
        return self._space.sightings(self._store.newest())

    def _open_when_durable(self) -> None:
        self._store.when_durable(self._open)

    def _open(self) -> None:
        self.is_open = True
        self._look_again()
        if self._may_vote:
            self.changed()

    # This node

    @property
    def may_vote(self) -> bool:
        if self._config is not self._replica.config:
            self._look_again()
        return self._may_vote

    @property
    def is_known(self) -> bool:
        """Whether the identity of this store is on record, by the configuration or with a majority of the others."""
        if self._config is not self._replica.config:
            self._look_again()
        return self._is_known

    @property
    def waits_for(self) -> str:
        """Why this start is not cleared, in words; empty if it is."""
        if self.is_cleared:
            return ""
        for peer in self._objecting():
            return f"replica {peer} says that an earlier start of the same store still runs: stop one of the two"
        return "not enough of the others have answered since it started"

    @property
    def state(self) -> str:
        """Of this start, in a word."""
        if self.refused:
            return "refused"
        if not self.is_open:
            return "starting"
        return "cleared" if self.is_cleared else "confirming"

    def serves(self, requests: Sequence[object]) -> bool:
        """Whether requests of a peer that is heard are handled: before this node may vote, only configurations."""
        if self.may_vote:
            return True
        return self._takes_part and all(isinstance(request, UpdateConfig) for request in requests)

    may_send = serves
    """Whether these requests may leave this node."""

    def answers(self, request: MemberRequest) -> bool:
        """Whether a request of a change of members is handled. A store that went back in time lacks rows that others
        would take for everything it ever held."""
        return self.may_vote or (self._takes_part and isinstance(request, StatusRead | FiguresRead))

    @property
    def _takes_part(self) -> bool:
        return self.is_open and not self.refused

    def _look_again(self) -> None:
        """The answers are cached, because every frame asks: they depend on the configuration and on what is noted."""
        me, config = self._replica.me, self._replica.config
        was_noted = self._noted.get(me) == self.identity
        noted_by = set(config.voters) if was_noted else self._recorded_by
        self._is_known = may_vote(config, me, self.identity, noted_by)
        if not self.is_cleared and self._takes_part and not self._objecting():
            self.is_cleared = is_cleared(config, me, self._recorded_by, strict=self._strict)
        self._may_vote = self._is_known and self.is_cleared and self._takes_part
        self._config = config
        self._admitted.clear()

    def answered(self, peer: int) -> None:
        """A peer that answers a frame of this node has recorded its store and its start."""
        if peer in self._recorded_by and (self.is_cleared or not self._objections):
            return
        self._recorded_by.add(peer)
        objected = self._objections.pop(peer, None) is not None
        could_vote = self._may_vote
        self._look_again()
        if self._is_known and self._noted.get(self._replica.me) != self.identity:
            self.note(self._replica.me, self.identity)
        if objected or (self._may_vote and not could_vote):
            self.changed()

    def objected(self, peer: int, code: MismatchCode) -> None:
        """A peer refuses this start: for good if it knows better. If to that peer an earlier one still runs, this one
        does not vote before the peer has changed its mind."""
        if code in REFUSALS:
            self._refuse_itself(peer, REFUSALS[code])
        elif code is MismatchCode.STILL_RUNNING:
            is_news = peer not in self._objections and not self.is_cleared
            self._recorded_by.discard(peer)
            self._objections[peer] = self._clock.now_ms()
            if is_news:
                self.changed()

    def _objecting(self) -> list[int]:
        since_ms = self._clock.now_ms() - OBJECTION_MS
        members = self._replica.config.replica_ids
        return [peer for peer, at_ms in sorted(self._objections.items()) if peer in members and at_ms > since_ms]

    def told(self, peer: int, known: Sighting | None) -> None:
        """What a peer remembers of this store. If that is more than it holds, it takes no part from now on, in the next
        processes neither: a peer that knows less would hear it again."""
        refusal = refusal_of(known, self.greeting(peer))
        if refusal is not None:
            self._refuse_itself(peer, refusal)

    def _refuse_itself(self, peer: int, refusal: StoreRefusal) -> None:
        if not self.refused:
            me = self._replica.me
            words = f"replica {peer} knows better than this store of replica {me}: {WORDS[refusal]}"
            self.refuse(f"{words}. {WAY_OUT.format(me=me)}")

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self._look_again()
        self._store.transact(partial(self._space.refuse, reason=reason))
        self.alarm(reason)
        self.changed()

    # Other nodes

    def greeting(self, peer: int) -> Greeting:
        return Greeting(incarnation=self.incarnation, position=self._store.position(), known=self._sightings.get(peer))

    def meet(self, peer: int, greeting: Greeting, told: Sighting | None = None) -> StoreMismatch | None:
        """Whether a peer's frames are refused. If not, its start is recorded; answers to its frames leave after that is
        durable.

        `told`: what this end said it remembers of the peer, before the peer made its greeting. Without it the position
        of a start that is on record is not compared: it may have risen since the greeting was made.
        """
        mismatch = self._mismatch(peer, greeting, told)
        if mismatch is None:
            self._record(peer, greeting)
        else:
            self._note_refusal(peer, greeting.incarnation.nonce, mismatch)
        return mismatch

    def _note_refusal(self, peer: int, nonce: int, mismatch: StoreMismatch) -> None:
        is_of_peer = mismatch.code not in (MismatchCode.STARTING, MismatchCode.REFUSED_HERE)
        if is_of_peer and self._passes(peer, nonce, mismatch.code):
            return
        if is_of_peer:
            self._turned_away[peer] = nonce, mismatch.code, self._clock.now_ms()
        if self._warned.get(peer) != (nonce, mismatch.code):
            self._warned[peer] = nonce, mismatch.code
            self.refusals[mismatch.code] += 1
            if is_of_peer:
                self.alarm(f"replica {peer} is refused: {mismatch.words}")

    def _passes(self, peer: int, nonce: int, code: MismatchCode) -> bool:
        """What a process sent before it ended may be read after the next one was met: an answer or a frame that the
        network sent again, or that this node had no room for. It is refused as a copy would be; but it is of the
        process that was heard before, and no copy: that one would have begun with a nonce of its own. Of several nodes
        of a datacenter one may also be paused while another takes over, and speak once more when it goes on."""
        is_late = code is MismatchCode.OLD_COPY and nonce in self._former.get(peer, ())
        if not is_late and not (code is MismatchCode.STILL_RUNNING and self._is_several(peer)):
            return False
        now_ms = self._clock.now_ms()
        first_nonce, first_ms = self._passing.get(peer, (0, 0.0))
        if first_nonce != nonce:
            first_ms = now_ms
            self._passing[peer] = nonce, now_ms
            late, early = (
                "one that was superseded is not heard any more",
                "the new one is heard once the old one is not",
            )
            self.notice(f"another process of replica {peer} has taken over: {late if is_late else early}")
        return now_ms - first_ms < PASSING_MS

    def _is_several(self, peer: int) -> bool:
        info = self._replica.config.info(peer)
        return info is not None and len(info.urls) > 1

    def refused_lately(self, peer: int) -> str:
        """Why a process that says it is this peer was refused a short time ago; empty if none was, or if it is heard
        since: an earlier one had ended, and its connections a moment later."""
        nonce, code, at_ms = self._turned_away.get(peer, (0, MismatchCode.STARTING, -LATELY_MS))
        seen = self._sightings.get(peer)
        is_heard = seen is not None and seen.nonce == nonce
        return "" if is_heard or self._clock.now_ms() - at_ms >= LATELY_MS else code.value

    def _mismatch(self, peer: int, greeting: Greeting, told: Sighting | None) -> StoreMismatch | None:
        if self.refused:
            return StoreMismatch(MismatchCode.REFUSED_HERE, f"replica {self._replica.me} was refused itself")
        if not self.is_open:
            return StoreMismatch(MismatchCode.STARTING, f"replica {self._replica.me} is starting")
        start, known = greeting.incarnation, self._sightings.get(peer)
        if self._recognise(peer, start.store) is Recognition.IMPOSTOR:
            words = f"another store is on record for replica {peer}; a replica that lost its disk needs a new id"
            return StoreMismatch(MismatchCode.ANOTHER_STORE, words)
        refusal = refusal_of(told, greeting) or refusal_of(before(known, greeting), greeting)
        if refusal is not None:
            return StoreMismatch(CODES[refusal], f"{WORDS[refusal]}. {WAY_OUT.format(me=peer)}")
        if self._is_running(peer, known, start):
            words = f"an earlier start of the store of replica {peer} still runs: two processes have one identity"
            return StoreMismatch(MismatchCode.STILL_RUNNING, words)
        return None

    def _recognise(self, peer: int, store: int) -> Recognition:
        return recognise(self._replica.config, self._noted, peer, store)

    def _is_running(self, peer: int, known: Sighting | None, start: Incarnation) -> bool:
        """Whether an earlier start than this one still answers."""
        if known is None or known.store != start.store or known.nonce == start.nonce:
            return False
        heard_ms = self._heard_ms.get(peer)
        is_connected = bool(self._connections[peer, known.nonce])
        return is_connected and heard_ms is not None and self._clock.now_ms() - heard_ms < ALIVE_MS

    def _record(self, peer: int, greeting: Greeting) -> None:
        start, known = greeting.incarnation, self._sightings.get(peer)
        if self._recognise(peer, start.store) is Recognition.NEW:
            self.note(peer, start.store)
        seen = sighting(known, start, greeting.position)
        if known is not None and (known.store, known.nonce) != (seen.store, seen.nonce):
            self._former.setdefault(peer, deque(maxlen=FORMER_STARTS)).append(known.nonce)
        self._sightings[peer] = seen
        self._admitted[peer] = start.nonce
        self._heard_ms[peer] = self._clock.now_ms()
        if known is None or (known.store, known.counter, known.nonce) != (seen.store, seen.counter, seen.nonce):
            self._store.put(self._space.sighting_rows({peer: seen}), None)
        elif known.position != seen.position:
            self._remember_soon(peer)

    def hear(self, peer: int, nonce: int, position: int) -> bool:
        """Whether a request or an answer counts: it is of the start on record. Its position is noted."""
        if self._config is not self._replica.config:
            self._look_again()
        if self._admitted.get(peer) != nonce and not self._admits(peer, nonce):
            return False
        self._heard_ms[peer] = self._clock.now_ms()
        seen = self._sightings[peer]
        if position > seen.position:
            self._sightings[peer] = Sighting(
                store=seen.store, counter=seen.counter, nonce=seen.nonce, position=position
            )
            self._remember_soon(peer)
        return True

    def _admits(self, peer: int, nonce: int) -> bool:
        """Judged again after each change of the configuration, which may have another store for this id."""
        seen = self._sightings.get(peer)
        if seen is None or seen.nonce != nonce or not self._takes_part:
            return False
        if self._recognise(peer, seen.store) is not Recognition.KNOWN:
            return False
        self._admitted[peer] = nonce
        return True

    def connected(self, peer: int, nonce: int) -> None:
        """A connection to a start that was met, opened by either end."""
        self._connections[peer, nonce] += 1

    def disconnected(self, peer: int, nonce: int) -> None:
        self._connections[peer, nonce] -= 1
        if self._connections[peer, nonce] <= 0:
            del self._connections[peer, nonce]

    def _remember_soon(self, peer: int) -> None:
        self._risen.add(peer)
        if self._remembering is None:
            self._remembering = self._clock.call_later(REMEMBER_MS, self._remember)

    def _remember(self) -> None:
        self._remembering = None
        rows = self._space.sighting_rows({peer: self._sightings[peer] for peer in sorted(self._risen)})
        self._risen.clear()
        self._store.remember(rows)

    def note(self, replica_id: int, identity: int) -> None:
        """Record whose store this is, durably."""
        self._noted[replica_id] = identity
        self._look_again()
        self._store.transact(partial(self._space.note, replica_id=replica_id, identity=identity))


class GatedTransport:
    """Sends what may leave this node: nothing but configurations before it may vote."""

    def __init__(self, gate: PeerGate, transport: Transport) -> None:
        self._gate = gate
        self._transport = transport

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        if self._gate.may_vote or self._gate.may_send(requests):
            self._transport.send(to, requests, answered)
        elif answered is not None:
            answered(Failed(reason="this node takes no part yet, or no longer"))


def before(known: Sighting | None, greeting: Greeting) -> Sighting | None:
    """What was on record before this greeting was made. The position of a start that runs rises all the time."""
    start = greeting.incarnation
    if known is None or (known.store, known.counter, known.nonce) != (start.store, start.counter, start.nonce):
        return known
    return Sighting(store=known.store, counter=known.counter, nonce=known.nonce, position=start.base)
