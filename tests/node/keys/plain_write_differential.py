"""Plain writes of a home against the rules: `python -m tests.node.keys.plain_write_differential --writes 100000`.

Two nodes live through the same: one makes plain writes of their bytes, the other has the rules alone. Clients write,
with and without conditions; other replicas answer, refuse, are silent, or come with requests of their own; syncs end
late, timers ring, configurations change, and the gate closes. After each step the two have the same rows, have sent the
same, and have told their clients and watchers the same, or it is a finding.

A run is a function of its seed.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from epoxy.codec import wire
from epoxy.codec.plain_requests import PlainRequest, plain_request, read_peer_request
from epoxy.model.ballot import Ballot
from epoxy.model.marks import OWNED
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Commit,
    EpochAhead,
    Failed,
    HigherBallot,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    Reply,
    Request,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.records import KeyState, Proposal, ProposalId
from epoxy.model.writes import Write
from epoxy.node.keys.plain_write import NO_PART, PlainWrite
from tests.node.bench import HandTransport, Node
from tests.node.keys.plain_differential import Finding
from tests.protocol.keys.harness import A, B, C, config_of

KEYS = (b"k", b"key/1", b"a\x00b\x00", b"x" * 200, b"n\xc3\xb6", b"1", b"2", b"3", b"\xff/other")
VALUES = (b"", b"v", b"w" * 127, b"w" * 128, b"w" * 5000, OWNED, OWNED + b"x")
STEPS = 80
"""Of a world: then the next begins."""


class EncodedTransport(HandTransport):
    """Keeps what was encoded as the request that it is."""

    def send_encoded(self, to: int, requests: bytes, count: int, answered: Callable[[Reply], None] | None) -> None:
        frame = wire.decode_peer_request(wire.join_peer_request(A, to, count, [requests]))
        assert wire.encode_requests(frame.requests) == requests
        self.send(to, frame.requests, answered)


class Pair:
    """Both nodes. `own` makes plain writes of their bytes."""

    def __init__(self, dice: Random) -> None:
        config = config_of(dice.choice((1, 3, 3, 3, 3, 5)), epoch=2)
        self.own, self.rules = Node(config=config), Node(config=config)
        self.may_send = True
        transport = self.own.transport = EncodedTransport()
        for node in self.nodes:
            node.driver.transport = GatedTransport(self, node)
        self.own.driver.encode_writes(transport.send_encoded, lambda: self.may_send)
        self.told: list[list[object]] = []
        wants_all = dice.random() < 0.3
        for node in self.nodes:
            told: list[object] = []
            self.told.append(told)
            watch(node, told, states=wants_all)

    @property
    def nodes(self) -> tuple[Node, Node]:
        return self.own, self.rules

    def both(self, act: Callable[[Node], object], what: object) -> None:
        results: list[object] = []
        for node in self.nodes:
            try:
                results.append(act(node))
            except AssertionError as error:
                results.append(type(error))
        self.same(results[0], results[1], what)
        self.compare(what)

    def compare(self, what: object) -> None:
        own, rules = self.nodes
        self.same(own.store._visible.values, rules.store._visible.values, what)
        self.same(own.store._synced, rules.store._synced, what)
        self.same(messages(own), messages(rules), what)
        self.same(own.outcomes, rules.outcomes, what)
        self.same(own.alarms, rules.alarms, what)
        self.same(own.clock.pending, rules.clock.pending, what)
        self.same([*own.driver._queues], [*rules.driver._queues], what)
        self.same(self.told[0], self.told[1], what)

    def states(self, what: object) -> None:
        for key in KEYS:
            self.same(self.own.replica.state(key), self.rules.replica.state(key), what)

    def same(self, ours: object, rules: object, what: object) -> None:
        if ours != rules and isinstance(ours, list) and isinstance(rules, list):
            first = min([place for place, (a, b) in enumerate(zip(ours, rules, strict=False)) if a != b], default=-1)
            ours, rules = ours[first:], rules[first:]
        if ours != rules:
            raise Finding(f"{ours}, and by the rules {rules}, after {what}")


def messages(node: Node) -> list[object]:
    return [(each.to, each.requests, each.answered is None) for each in node.transport.sent]


class GatedTransport:
    """In front of a node's transport."""

    def __init__(self, pair: Pair, node: Node) -> None:
        self._pair = pair
        self._node = node

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        if self._pair.may_send:
            self._node.transport.send(to, requests, answered)
        elif answered is not None:
            answered(NO_PART)


def watch(node: Node, told: list[object], *, states: bool) -> None:
    """A short call is noted as the commit that it tells of. `states`: a watcher wants all of them."""

    def called(key: bytes, before: KeyState, after: KeyState) -> None:
        told.append((key, before.version, after.committed))

    def short(request: PlainRequest) -> bool:
        commit = request.decoded()
        assert isinstance(commit, Commit)
        assert plain_request(request.encoded, 0) is not None, commit
        assert (request.version, request.mutable, request.home) == (
            commit.proposal.version,
            commit.proposal.mutable,
            commit.proposal.home,
        )
        told.append((request.key, request.version - 1, commit.proposal))
        return True

    if states:
        node.replica.watchers.append(lambda *change: told.append(change))
    node.replica.short_watchers.append((called, short))


def write_of(dice: Random, version: int) -> Write:
    """Mostly a plain one."""
    key, value, kind = dice.choice(KEYS), dice.choice(VALUES), dice.random()
    if kind < 0.3:
        return Write(key=key, value=value)
    if kind < 0.7:
        return Write(key=key, value=value, mutable=True, returning=dice.random() < 0.3)
    rest = (
        {"value": None},
        {"value": None, "amount": 1},
        {"value": value, "if_version": dice.choice((0, version))},
        {"value": value, "if_absent": True},
        {"value": value, "ttl_ms": 5000},
        {"value": value, "keep_expiry": True},
        {"value": value, "session": b"s" * 16},
        {"value": None, "touch": True, "ttl_ms": 7000},
    )
    return Write(key=key, mutable=True, **dice.choice(rest))


def rival(dice: Random, version: int) -> Proposal:
    mutable = dice.random() < 0.8
    by = dice.choice((B, C))
    return Proposal(
        value=dice.choice(VALUES), version=version, mutable=mutable, proposal_id=ProposalId(by, dice.choice((1, 2)))
    )


def reply_to(dice: Random, pair: Pair, request: Request) -> Reply:
    """Mostly a grant."""
    kind = dice.random()
    if not isinstance(request, Accept | Prepare | Read | Commit):
        return Failed(reason="not now")
    state = pair.rules.replica.state(request.key)
    if kind < 0.8:
        if isinstance(request, Accept):
            return AcceptOk()
        if isinstance(request, Prepare):
            return PrepareOk(vote=None)
        return ReadOk(committed=state.committed, vote=None)
    refusals: tuple[Reply, ...] = (
        HigherBallot(ballot=Ballot(1, dice.choice((B, C)))),
        HigherBallot(ballot=Ballot(dice.choice((2, 3)), B)),
        AlreadyCommitted(committed=rival(dice, state.version + 1)),
        Behind(version=max(0, state.version - dice.choice((0, 1)))),
        EpochAhead(epoch=1),
        StaleEpoch(config=config_of(epoch=dice.choice((2, 3)))),
        Failed(reason="silence"),
    )
    return dice.choice(refusals)


def answer(dice: Random, pair: Pair) -> None:
    sent = pair.rules.transport.sent
    open_ones = [place for place, each in enumerate(sent) if each.answered is not None]
    if not open_ones:
        return
    place = dice.choice(open_ones[-6:])
    given = reply_to(dice, pair, sent[place].requests[-1])
    pair.both(lambda node: node.transport.sent[place].answer(given), (sent[place], given))


def arrive(dice: Random, pair: Pair) -> None:
    """A request of another replica, which may be a rival of a write under way."""
    key, kind = dice.choice(KEYS[:-1]), dice.random()
    state, epoch = pair.rules.replica.state(key), pair.rules.replica.config.epoch
    request: Request
    if kind < 0.3:
        request = Accept(
            key=key, epoch=epoch, ballot=Ballot(dice.choice((1, 1, 2)), B), proposal=rival(dice, state.version + 1)
        )
    elif kind < 0.7:
        given = (
            state.vote.proposal if state.vote is not None and dice.random() < 0.5 else rival(dice, state.version + 1)
        )
        request = Commit(key=key, epoch=epoch, proposal=given)
    elif kind < 0.97:
        request = Prepare(key=key, epoch=epoch, ballot=Ballot(dice.choice((2, 3)), C), base=state.version)
    else:
        joint = dice.random() < 0.5
        request = UpdateConfig(config=config_of(epoch=epoch + 1, previous=(A, B, C) if joint else None))
    frame = wire.join_peer_request(B, A, 1, [wire.encode_requests([request])])
    pair.both(lambda node: handled(node, frame), request)


def handled(node: Node, frame: bytes) -> list[Reply]:
    replies: list[Reply] = []
    node.replica.handle_all(read_peer_request(frame)[2], replies.extend)
    return replies


def step(dice: Random, pair: Pair, counts: Counter[str]) -> None:
    kind = dice.random()
    if kind < 0.2:
        write = write_of(dice, 1)
        counts["writes"] += 1
        pair.both(lambda node: node.driver.write(write, node.outcomes.append), write)
        counts["plain"] += isinstance(pair.own.driver._queues.get(write.key), PlainWrite)
    elif kind < 0.5:
        pair.both(end_sync, "a sync")
    elif kind < 0.85:
        answer(dice, pair)
    elif kind < 0.93:
        arrive(dice, pair)
    elif kind < 0.98:
        by_ms = dice.choice((0.0, 30.0, 500.0, 2_000.0))
        pair.both(lambda node: node.clock.advance(by_ms), f"{by_ms} ms")
    else:
        beside(dice, pair)


def end_sync(node: Node) -> None:
    if node.disk.flushes:
        node.disk.sync_once()


def beside(dice: Random, pair: Pair) -> None:
    kind = dice.randrange(4)
    if kind == 0:
        pair.may_send = not pair.may_send
    elif kind == 1:
        pair.both(lambda node: node.replica.forget_states(), "forgotten")
    elif kind == 2:
        pair.both(lambda node: node.driver.stale_keys.begin(), "a start")
    else:
        found = rival(dice, dice.choice((1, 2, 130)))
        key = dice.choice(KEYS[:-1])
        pair.both(lambda node: node.replica.learn(key, found), found)


def run(writes: int, seed: int) -> Counter[str]:
    """At least so many writes. How many there were, and how many of them began as their bytes."""
    dice, counts = Random(f"plain writes/{seed}"), Counter[str]()
    while counts["writes"] < writes:
        pair = Pair(dice)
        for _ in range(STEPS):
            step(dice, pair, counts)
        pair.states("a world")
        counts["committed"] += sum(type(outcome).__name__ == "Committed" for outcome in pair.own.outcomes)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--writes", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        counts = run(options.writes, options.seed)
    except Finding as finding:
        print(f"seed {options.seed}: {finding}")
        return 1
    print(f"seed {options.seed}: {dict(counts)}, no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
