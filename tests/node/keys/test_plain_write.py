"""A write that is made of its bytes does what the rules do, which are the oracle. Planted faults are found."""

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.codec.plain_requests import PlainRequest
from epoxy.model.messages import AcceptOk, AlreadyCommitted
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, ExpectedValueDoesNotMatch, Path, Write
from epoxy.node.keys import plain_requests, plain_write
from epoxy.node.keys.direct_round import RoundPlan
from epoxy.node.keys.plain_requests import PlainRequests
from epoxy.node.keys.plain_write import PlainWrite, PlainWrites
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.stale_keys import StaleKeys
from epoxy.protocol.effects import Context
from epoxy_sim.patching import Patch, always, applied, nothing
from tests.node.bench import HandTransport, Node
from tests.node.keys import plain_write_differential
from tests.node.keys.plain_differential import Finding
from tests.node.keys.plain_write_differential import EncodedTransport
from tests.protocol.keys.harness import KEY, A, B, C, prop

WRITES = 1_500

is_plain, conclude, ask = plain_write.is_plain, PlainRequests.conclude, PlainWrites.ask
vote_of, answer, plan_of = PlainWrite._vote, PlainWrite._answer, RoundPlan.__init__


def test_no_write_is_made_differently() -> None:
    counts = plain_write_differential.run(WRITES, seed=1)
    assert counts["plain"] > WRITES / 5
    assert counts["committed"] > WRITES / 5


@pytest.mark.pure("replaces methods")
def test_every_end_of_a_plain_write_is_among_them() -> None:
    seen: Counter[tuple[str, object]] = Counter()

    def watched(name: str, told: Callable[[PlainWrite, object], object]) -> Patch:
        original = getattr(PlainWrite, name)

        def run(self: PlainWrite, *arguments: object) -> object:
            result = original(self, *arguments)
            seen[name, told(self, result)] += 1
            return result

        return Patch(PlainWrite, name, run)

    patches = (
        watched("_vote", lambda write, result: (result, write.pending.write.mutable, write._before.version > 0)),
        watched("_committed", lambda write, _: write.pending.write.mutable),
        watched("_help", lambda _, result: result),
        watched("_leave", lambda write, _: write._intent.offer is not None),
    )
    with applied(patches):
        plain_write_differential.run(WRITES, seed=2)
    assert {event for event, count in seen.items() if count > 3} >= {
        ("_vote", (True, False, False)),
        ("_vote", (True, True, False)),
        ("_vote", (True, True, True)),
        ("_vote", (False, False, False)),
        ("_committed", True),
        ("_committed", False),
        ("_help", True),
        ("_help", False),
        ("_leave", True),
        ("_leave", False),
    }


def at_once(_replica: Replica, done: Callable[[], None]) -> None:
    done()


def any_base(request: PlainRequest, _state: object, epoch: int) -> bool:
    return request.epoch == epoch


def promise_unseen(self: PlainRequests, commit: PlainRequest) -> bool:
    with applied((Patch(plain_requests, "is_bound", lambda _: False), Patch(type(self._rows), "read", overlooked))):
        return conclude(self, commit)


def overlooked(rows: object, view: object, key: bytes) -> tuple[bytes | None, bytes | None]:
    value, _, voted, *_ = rows._keyspace.rows_of(key)  # type: ignore[attr-defined]
    return view.get(value), view.get(voted)  # type: ignore[attr-defined]


def without(**fields: object) -> Patch:
    """A look at these fields is forgotten."""
    return Patch(plain_write, "is_plain", lambda write: is_plain(replace(write, **fields)))


def marks_too(write: Write) -> bool:
    return is_plain(replace(write, value=b"v")) if write.value is not None else False


def system_keys_too(write: Write) -> bool:
    return is_plain(replace(write, key=b"k"))


def never_joint(plan: RoundPlan, ctx: Context) -> None:
    plan_of(plan, ctx)
    plan.is_joint = False


def vote_first(write: PlainWrite) -> bool:
    with applied((Patch(StaleKeys, "is_watching", property(lambda _: False)),)):
        return vote_of(write)


def nothing_before(write: PlainWrite, proposal: Proposal) -> Committed:
    return replace(answer(write, proposal), previous=None)


def told_anyway(writes: PlainWrites, plan: RoundPlan, commit: bytes) -> None:
    for replica in plan.listeners:
        writes._send(replica, commit, 1, None)


def asked_twice(writes: PlainWrites, plan: RoundPlan, accept: bytes, heard: Callable[..., None]) -> None:
    ask(writes, plan, accept, heard)
    ask(writes, plan, accept, heard)


FAULTS: dict[str, Patch] = {
    "does not vote": Patch(PlainRequests, "vote", nothing),
    "does not wait for the disk": Patch(Replica, "when_durable", at_once),
    "commits on any base": Patch(plain_requests, "is_next", any_base),
    "commits below a promise": Patch(PlainRequests, "conclude", promise_unseen),
    "ignores a condition": without(if_version=None),
    "ignores NX": without(if_absent=False),
    "ignores a time to live": without(ttl_ms=0),
    "ignores a session": without(session=b""),
    "does not see marks": Patch(plain_write, "is_plain", marks_too),
    "does not see system keys": Patch(plain_write, "is_plain", system_keys_too),
    "votes in a joint epoch": Patch(RoundPlan, "__init__", never_joint),
    "does not read first": Patch(PlainWrite, "_vote", vote_first),
    "forgets what was there": Patch(PlainWrite, "_answer", nothing_before),
    "forgets what it put forward": Patch(PlainWrite, "_put_on_record", nothing),
    "hears no news": Patch(PlainWrite, "is_decided", property(always)),
    "tells through a closed gate": Patch(PlainWrites, "tell", told_anyway),
    "asks twice": Patch(PlainWrites, "ask", asked_twice),
    "votes as another": Patch(plain_write, "ballot_of", lambda _: bytes((1, C))),
}


@pytest.mark.pure("faults are planted in compiled modules")
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    with applied((FAULTS[name],)), pytest.raises((Finding, AssertionError)):
        plain_write_differential.run(4 * WRITES, seed=3)


def plain_node() -> Node:
    node = Node()
    transport = node.transport = node.driver.transport = EncodedTransport()
    node.driver.encode_writes(transport.send_encoded, lambda: True)
    return node


def test_a_plain_write_is_decided_in_one_round() -> None:
    node = plain_node()
    node.write(b"1", mutable=True)
    assert isinstance(node.driver._queues[KEY], PlainWrite)
    assert node.transport.sent == [], "the own vote is not durable yet"
    node.disk.sync()
    node.transport.take()[B].answer(AcceptOk())
    assert node.outcomes == [], "the commit is not durable yet"
    assert node.transport.sent == []
    node.disk.sync()
    expected = Proposal(value=b"1", version=1, mutable=True, proposal_id=node.state().committed.proposal_id)  # type: ignore[union-attr]
    assert node.outcomes == [Committed(proposal=expected, mine=True, path=Path.FAST)]
    assert set(node.transport.take()) == {B, C}
    assert node.driver._queues == {}


def test_a_plain_write_that_lost_leaves_it_to_the_rules() -> None:
    node = plain_node()
    node.write(b"mine")
    node.disk.sync()
    rival = prop(b"theirs", by=B, nonce=99)
    node.transport.take()[B].answer(AlreadyCommitted(committed=rival))
    node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()
    assert node.outcomes == [ExpectedValueDoesNotMatch(committed=rival, path=Path.FAST)]


def test_a_write_goes_by_the_rules_while_something_watches_the_requests() -> None:
    node = plain_node()
    node.driver.transport = HandTransport()
    node.write(b"1")
    assert type(node.driver._queues[KEY]).__name__ == "SingleWrite"


@pytest.mark.parametrize(
    "write",
    [
        Write(key=KEY, value=None, mutable=True),
        Write(key=KEY, value=None, mutable=True, amount=1),
        Write(key=KEY, value=b"v", mutable=True, if_version=0),
        Write(key=KEY, value=b"v", mutable=True, if_absent=True),
        Write(key=KEY, value=b"v", mutable=True, ttl_ms=1),
        Write(key=KEY, value=b"v", mutable=True, session=b"s" * 16),
        Write(key=KEY, value=None, mutable=True, touch=True),
        Write(key=b"\xff/config", value=b"v", mutable=True),
        Write(key=KEY, value=b"\xff/ordered"),
    ],
)
def test_what_is_not_plain(write: Write) -> None:
    assert not is_plain(write)


def test_what_is_plain() -> None:
    assert is_plain(Write(key=KEY, value=b""))
    assert is_plain(Write(key=KEY, value=b"\xff/ordered", mutable=True, returning=True))


def test_it_is_this_replicas_vote() -> None:
    node = plain_node()
    node.write(b"1")
    held = node.state().vote
    assert held is not None
    assert (held.ballot.counter, held.ballot.replica_id, held.epoch) == (1, A, 1)
