"""The node that owns the system shard: it alone speaks with other datacenters, for all nodes of its own.

dispatch        requests of a peer are split by the owners of their keys, and the replies joined in their order
Outgoing        requests of another node are sent over the links to peers, and the reply goes back
LinkStates      what those links are like, for the timeouts of the other nodes
UpdateConfig    a new configuration, until each of the other nodes has confirmed it
SessionOver     a client's session has ended, in the same way
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol

from epoxy.codec import wire
from epoxy.datacenter.announcements import Announcements, replies_of
from epoxy.datacenter.messages import ForwardedRequests, LinkStates, Outgoing, PeerAnswered, PeerState
from epoxy.datacenter.ports import Answered, Messenger, ServedKeys, ShardOwners
from epoxy.datacenter.routes import shard_of_request
from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import CodecError
from epoxy.model.frames import PeerRequest
from epoxy.model.messages import Commit, CommitOk, Failed, Reply, Request, UpdateConfig
from epoxy.model.records import ChangelogEntry
from epoxy.ports import Clock, Timer

TICK_MS = 250.0
"""Between two reports of the links: as often as those are looked through themselves (`PeerLimits.tick_ms`)."""

PART_MS = 1000.0
"""For the replies of one owner. A round gives up after one second, and a peer its connection after two: one owner that
stands still must not hold up the replies of the others for so long."""

LEARN_AT_ONCE, LEARN_BYTES = 256, 1 << 20
"""Decisions that are learned elsewhere in one batch: as between peers (`PeerLimits.batch_messages`, `batch_bytes`)."""

AGAIN_MS = 250.0
"""Before decisions are sent again that an owner could not learn: as often as owners change."""

NOT_HERE = Failed(reason="the owner of the key cannot be reached inside the datacenter")
NO_OWNER = Failed(reason="the shard of the key has no owner at the moment")
TOO_SLOW = Failed(reason="the owner of the key did not answer in time")
MAY_NOT = Failed(reason="this datacenter takes no part yet, or no longer")

Replied = Callable[[Sequence[Reply]], None]


class PeerSender(Protocol):
    """Of `transport.peers.transport.Peers`."""

    def send_encoded(self, to: int, requests: bytes, count: int, answered: Callable[[Reply], None] | None) -> None: ...

    def rtt_ms(self, peer: int) -> float | None: ...

    def lag_ms(self, peer: int) -> float: ...

    def waited_ms(self, peer: int) -> float: ...

    def silent_ms(self, peer: int) -> float: ...

    def reachable(self, peer: int) -> bool: ...

    def trouble(self, peer: int) -> str: ...


class JoinedReplies:
    """The replies to one batch of a peer, from several nodes."""

    __slots__ = ("_answered", "_open", "_replies", "began_ms", "done")

    def __init__(self, count: int, parts: int, answered: Replied, began_ms: float) -> None:
        self._replies: list[Reply | None] = [None] * count
        self._open = parts
        self._answered = answered
        self.began_ms = began_ms
        self.done = False

    def add(self, places: Sequence[int], replies: Sequence[Reply]) -> None:
        """Of one part, in the order of its requests. Those that did not fit into its frame are missing at the end."""
        if self.done:
            return
        for place, reply in zip(places, replies, strict=False):
            self._replies[place] = reply
        self._open -= 1
        if not self._open:
            self._finish()

    def fail(self, places: Sequence[int], failure: Reply) -> None:
        self.add(places, [failure] * len(places))

    def expire(self) -> None:
        """What has not come by now has failed."""
        if not self.done:
            self._replies = [TOO_SLOW if reply is None else reply for reply in self._replies]
            self._finish()

    def _finish(self) -> None:
        """Up to the first that is missing: the peer sends the requests from there on again."""
        self.done = True
        found: list[Reply] = []
        for reply in self._replies:
            if reply is None:
                break
            found.append(reply)
        self._replies = []
        self._answered(found)


class Gateway:
    def __init__(
        self,
        owners: ShardOwners,
        links: Messenger,
        served: ServedKeys,
        peers: PeerSender,
        clock: Clock,
        *,
        me: int,
        config: Callable[[], ClusterConfig],
        when_durable: Callable[[Callable[[], None]], None],
        may_vote: Callable[[], bool] = lambda: True,
    ) -> None:
        """`me`: the replica. `config`: in force here. `when_durable`: of the store. `may_vote`: whether messages about
        keys may leave the datacenter (`PeerGate.may_vote`)."""
        self._owners = owners
        self._links = links
        self._served = served
        self._peers = peers
        self._clock = clock
        self._me = me
        self._config = config
        self._may_vote = may_vote
        self._joined: deque[JoinedReplies] = deque()
        self._announcements = Announcements(links, clock, me=me, config=config, when_durable=when_durable)
        self.tell_config, self.session_over = self._announcements.tell_config, self._announcements.session_over
        self.rest_first = self._announcements.rest_first
        self._is_stopped = False
        self._timer: Timer | None = None
        links.serve(Outgoing, self._serve_outgoing)

    def start(self) -> None:
        self._tick()

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    # Requests of peers.

    def dispatch(self, requests: Sequence[Request], answered: Replied) -> None:
        """As `Replica.handle_all`. A configuration is adopted here, and durable, before the requests behind it are
        passed on: they may need its epoch, and another node that has answered in it must not find it gone."""
        after = next((place for place, each in enumerate(requests, 1) if type(each) is UpdateConfig), 0)
        if after and after < len(requests):
            head, tail = requests[:after], requests[after:]
            self._split(head, partial(self._dispatch_rest, tail, answered))
        else:
            self._split(requests, answered)

    def _dispatch_rest(self, rest: Sequence[Request], answered: Replied, before: Sequence[Reply]) -> None:
        self.tell_config()
        self.dispatch(rest, lambda replies: answered([*before, *replies]))

    def _split(self, requests: Sequence[Request], answered: Replied) -> None:
        owned = self._owners.owned
        parts: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            shard = shard_of_request(request)
            owner = 0 if shard in owned or type(request) is UpdateConfig else self._owner_of(shard)
            parts.setdefault(owner, []).append(place)
        if not parts or parts.keys() == {0}:
            self._served.handle(requests, answered)
            return
        joined = JoinedReplies(len(requests), len(parts), answered, self._clock.now_ms())
        self._joined.append(joined)
        for owner, places in parts.items():
            mine = [requests[place] for place in places]
            if owner == 0:
                self._served.handle(mine, partial(joined.add, places))
            elif owner < 0:
                joined.fail(places, NO_OWNER)
            else:
                self._forward(owner, mine, partial(self._replied, joined, places))

    def _owner_of(self, shard: int) -> int:
        """Another session; -1: there is none that serves it now."""
        owner = self._owners.owner_of(shard)
        return -1 if owner is None or owner.id == self._owners.session else owner.id

    def _forward(self, owner: int, requests: Sequence[Request], answered: Answered) -> None:
        body = wire.encode_peer_request(PeerRequest(sender=self._me, recipient=self._me, requests=tuple(requests)))
        self._links.ask(owner, ForwardedRequests(body), answered)

    def _replied(self, joined: JoinedReplies, places: Sequence[int], answer: Any) -> None:
        replies = replies_of(answer)
        if replies is None:
            joined.fail(places, NOT_HERE)
        else:
            joined.add(places, replies)

    # What a copy brought.

    def learn_elsewhere(self, entries: Sequence[ChangelogEntry], done: Callable[[int], None]) -> None:
        """`Replica.learn_elsewhere`. What fails is sent again, for as long as it takes: owners come back."""
        self._learn(list(entries), 0, done)

    def _learn(self, entries: list[ChangelogEntry], news: int, done: Callable[[int], None]) -> None:
        if self._is_stopped:
            return
        count = how_many(entries)
        batch, rest = entries[:count], entries[count:]
        epoch = self._config().epoch
        commits = [Commit(key=entry.key, epoch=epoch, proposal=entry.committed) for entry in batch]
        self.dispatch(commits, partial(self._learned, batch, rest, news, done))

    def _learned(
        self,
        batch: list[ChangelogEntry],
        rest: list[ChangelogEntry],
        news: int,
        done: Callable[[int], None],
        replies: Sequence[Reply],
    ) -> None:
        failed = [entry for entry, reply in zip_longest(batch, replies) if reply is None or isinstance(reply, Failed)]
        news += sum([isinstance(reply, CommitOk) for reply in replies])
        if failed:
            self._clock.call_later(AGAIN_MS, partial(self._learn, failed + rest, news, done))
        elif rest:
            self._learn(rest, news, done)
        else:
            done(news)

    # Requests for peers.

    def _serve_outgoing(self, _: int, ask: Outgoing, answered: Answered) -> None:
        heard = partial(self._peer_replied, answered) if ask.is_asked else None
        if self._may_vote():
            self._peers.send_encoded(ask.to, ask.requests, ask.count, heard)
        elif heard is not None:
            heard(MAY_NOT)

    def _peer_replied(self, answered: Answered, reply: Reply) -> None:
        try:
            answered(PeerAnswered(wire.encode_reply(reply)))
        except CodecError as error:
            answered(PeerAnswered(wire.encode_reply(Failed(reason=str(error)))))

    # News for the other nodes.

    def _tick(self) -> None:
        self._timer = self._clock.call_later(TICK_MS, self._tick)
        now_ms = self._clock.now_ms()
        while self._joined and (self._joined[0].done or self._joined[0].began_ms <= now_ms - PART_MS):
            self._joined.popleft().expire()
        states = LinkStates(tuple(self._states([peer for peer in self._config().replica_ids if peer != self._me])))
        for session in tuple(self._links.sessions):
            self._links.tell(session, states)
        self._announcements.tick()

    def _states(self, peers: Iterable[int]) -> Iterable[PeerState]:
        links = self._peers
        for peer in peers:
            yield PeerState(
                peer=peer,
                rtt_ms=links.rtt_ms(peer),
                lag_ms=links.lag_ms(peer),
                waited_ms=links.waited_ms(peer),
                silent_ms=links.silent_ms(peer),
                reachable=links.reachable(peer),
                trouble=links.trouble(peer),
            )


def how_many(entries: Sequence[ChangelogEntry]) -> int:
    """Of these go into one batch; one at least."""
    size = 0
    for count, entry in enumerate(entries[:LEARN_AT_ONCE]):
        size += len(entry.key) + len(entry.committed.value or b"")
        if count and size > LEARN_BYTES:
            return count
    return min(len(entries), LEARN_AT_ONCE)
