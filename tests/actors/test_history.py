"""What a process remembers of where actors were."""

from epoxy.actors.history import MAX_ACTORS, MAX_MOVES, ActorMoves
from epoxy.actors.messages import Destroy
from epoxy.model.actors import ActorEntry, ActorName, ActorState, make_id
from tests.actors.bench import THERE, Datacenter, give_lease
from tests.actors.test_hosting import envoy, run


def kinds(here: Datacenter, actor: ActorEntry) -> list[str]:
    return [each.kind for each in here.hosting.moves.of(actor.id)]


def test_an_actor_that_moves_from_one_worker_to_another() -> None:
    here = Datacenter()
    here.connect("a")
    actor = run(here, here.made(), "a")
    here.connect("b")
    here.hosting.drain(envoy("a"))
    here.clock.advance(1)
    here.hosting.stopped(envoy("a"), actor.id, actor.generation, failed=False)
    here.clock.advance(1)
    moves = here.hosting.moves.of(actor.id)
    assert [(each.kind, each.worker) for each in moves] == [
        ("home", "a"),
        ("started", "a"),
        ("ended", "a"),
        ("started", "b"),
    ]
    assert moves[-1].generation == moves[1].generation + 1
    assert moves[0].at_ms <= moves[-1].at_ms


def test_sleep_failure_and_the_end() -> None:
    here = Datacenter()
    here.connect("a")
    actor = run(here, here.made(), "a")
    here.hosting.stopped(envoy("a"), actor.id, actor.generation, failed=False, asleep=True)
    here.hosting.wake(actor.id)
    here.clock.advance(1)
    actor = run(here, actor, "a")
    here.hosting.stopped(envoy("a"), actor.id, actor.generation, failed=True)
    here.beat("a", ms=3_000)
    actor = run(here, actor, "a")
    here.ask(Destroy(target=actor.id.hex()))
    here.hosting.stopped(envoy("a"), actor.id, actor.generation, failed=False)
    assert kinds(here, actor) == ["home", "started", "asleep", "started", "failed", "started", "destroyed", "ended"]


def test_code_that_returns_has_destroyed_its_actor() -> None:
    here = Datacenter()
    here.connect("a")
    actor = run(here, here.made(), "a")
    here.hosting.stopped(envoy("a"), actor.id, actor.generation, failed=False)
    assert kinds(here, actor) == ["home", "started", "destroyed"]


def test_an_actor_that_is_given_to_another_datacenter_has_left() -> None:
    here = Datacenter()
    give_lease(here.keys, THERE)
    here.connect("a")
    actor = run(here, here.made(), "a")
    here.hosting.release(actor.id, lambda _: None)
    here.clock.advance(1)
    here.hosting.stopped(envoy("a"), actor.id, actor.generation, failed=False)
    assert kinds(here, actor) == ["home", "started", "left", "ended"]


def entry(number: int, epoch: int = 0, generation: int = 1) -> ActorEntry:
    return ActorEntry(
        id=make_id(number, number, 1),
        name=ActorName("default", "room", str(number)),
        pool="default",
        state=ActorState.STARTING,
        envoy_key="w",
        generation=generation,
        create_ts=1,
        epoch=epoch,
    )


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first() -> None:
    moves = ActorMoves(lambda: 5)
    for number in range(1, MAX_ACTORS + 1):
        moves.note("started", entry(number))
    moves.note("ended", entry(1))
    moves.note("started", entry(MAX_ACTORS + 1))
    assert len(moves.of(entry(1).id)) == 2, "it moved last"
    assert moves.of(entry(2).id) == []
    for generation in range(MAX_MOVES + 3):
        moves.note("started", entry(1, generation=generation))
    remembered = moves.of(entry(1).id)
    assert (len(remembered), remembered[-1].generation) == (MAX_MOVES, MAX_MOVES + 2)


def test_a_home_is_noted_once() -> None:
    moves = ActorMoves(lambda: 5)
    for epoch in (0, 0, 1, 1):
        moves.note("home", entry(1, epoch))
    assert [each.epoch for each in moves.of(entry(1).id)] == [0, 1]
