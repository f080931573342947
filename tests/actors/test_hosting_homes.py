"""What the lease of a datacenter decides: adopted, fenced and released actors."""

from epoxy.actors import directory
from epoxy.actors.messages import CallActor, OwnerUnavailable, Unknown, Verdict
from epoxy.model.actors import ActorEntry, ActorState, make_id
from epoxy.model.envoy_messages import ActorRequest, Response, Start, Stop
from epoxy.model.homes import HomeRecord, generation_of
from epoxy.protocol.placement.records import EnvoyId
from tests.actors.bench import NAME, THERE, Datacenter

FIRST, SECOND = b"1" * 16, b"2" * 16
ENVOY = EnvoyId("prod", "a")


def record(lease: bytes, epoch: int) -> HomeRecord:
    return HomeRecord(actor_id=make_id(1, 2, THERE), label=1, lease=lease, epoch=epoch, pool="web", create_ts=5)


def adopted(here: Datacenter, lease: bytes, epoch: int, *, fresh: bool = False) -> ActorEntry:
    told: list[ActorEntry] = []
    here.hosting.adopt(NAME, record(lease, epoch), told.append, fresh=fresh)
    (actor,) = told
    return actor


def leased(lease: bytes | None) -> Datacenter:
    here = Datacenter()
    here.hosting.lease = lambda: lease
    return here


def test_an_adopted_actor_starts_in_its_epoch_and_is_not_clean() -> None:
    here = leased(FIRST)
    session = here.connect("a")
    actor = adopted(here, FIRST, 3)
    assert (actor.state, actor.generation, actor.lease) == (ActorState.STARTING, generation_of(3, 1), FIRST)
    assert (actor.clean, actor.saved, actor.create_ts) == (False, True, 5)
    assert [word.generation for word in session.take() if isinstance(word, Start)] == [generation_of(3, 1)]
    assert here.hosting.get(NAME) == actor
    again = adopted(here, FIRST, 3)
    assert again == actor, "it may be said twice"


def test_a_fresh_one_has_no_state_to_look_for() -> None:
    actor = adopted(leased(FIRST), FIRST, 0, fresh=True)
    assert (actor.state, actor.clean, actor.saved) == (ActorState.PENDING, True, False)


def test_a_fenced_datacenter_stops_its_actors_and_answers_nothing() -> None:
    here = leased(FIRST)
    session = here.connect("a")
    actor = adopted(here, FIRST, 0, fresh=True)
    here.hosting.running(ENVOY, actor.id, actor.generation)
    told: list[Verdict] = []
    here.hosting.call(CallActor(target=NAME, body=b"hi"), told.append)
    (asked,) = (word for word in session.take() if isinstance(word, ActorRequest))
    here.hosting.lease = lambda: None
    here.hosting.fenced()
    assert session.take() == [Stop(actor_id=actor.id.hex(), generation=actor.generation)]
    here.hosting.calls.heard(ENVOY, Response(request_id=asked.request_id, body=b"ho"))
    here.hosting.call(CallActor(target=NAME, body=b"again"), told.append)
    lost = "here has lost its lease as a home of actors"
    assert told == [Unknown(reason=lost), OwnerUnavailable(reason="here is not the actor's home now")]
    here.hosting.stopped(ENVOY, actor.id, actor.generation, failed=False)
    assert here.look(actor).state is ActorState.ASLEEP, "not destroyed, and not given to another envoy"
    here.beat("a", ms=5_000)
    assert session.take() == []
    here.hosting.lease = lambda: SECOND
    back = adopted(here, SECOND, 1)
    assert (back.state, back.generation) == (ActorState.STARTING, generation_of(1, 1))


def test_one_that_still_runs_under_an_earlier_lease_ends_before_it_starts_again() -> None:
    here = leased(FIRST)
    session = here.connect("a")
    actor = adopted(here, FIRST, 0, fresh=True)
    here.hosting.running(ENVOY, actor.id, actor.generation)
    session.take()
    here.hosting.lease = lambda: SECOND
    assert adopted(here, SECOND, 1).state is ActorState.MOVING
    assert session.take() == [Stop(actor_id=actor.id.hex(), generation=1)]
    here.hosting.stopped(ENVOY, actor.id, 1, failed=False)
    assert here.look(actor).generation == generation_of(1, 1)


def test_a_released_actor_has_ended_and_is_at_home_nowhere() -> None:
    here = leased(FIRST)
    session = here.connect("a")
    actor = adopted(here, FIRST, 0, fresh=True)
    here.hosting.running(ENVOY, actor.id, actor.generation)
    session.take()
    done: list[ActorEntry | None] = []
    here.hosting.release(actor.id, done.append)
    assert done == []
    assert session.take() == [Stop(actor_id=actor.id.hex(), generation=1)]
    here.hosting.stopped(ENVOY, actor.id, 1, failed=False)
    (gone,) = done
    assert gone is not None
    assert (gone.state, gone.lease) == (ActorState.ASLEEP, directory.RELEASED)
    here.hosting.release(actor.id, done.append)
    here.hosting.release(make_id(9, 9, 1), done.append)
    assert done == [gone, gone, None]
    assert adopted(here, FIRST, 2).generation == generation_of(2, 1), "it may come back, in a later epoch"
