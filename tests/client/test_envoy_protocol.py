"""A worker's decisions in virtual time: when it pings, when it fences itself, and what waits for what."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace

from epoxy.client.envoy_protocol import (
    CLEAN_UP_MS,
    DRAIN_MS,
    STOP_MS,
    WELCOME_MS,
    Ended,
    EnvoyProtocol,
    WorkerRefused,
)
from epoxy.client.hosted.link import ActorLink, Ending, ToActor
from epoxy.model.envoy_messages import ActorRequest as Asked
from epoxy.model.envoy_messages import (
    AlarmDue,
    AskAnswer,
    Draining,
    EnvoyHello,
    FromEnvoy,
    Goodbye,
    Held,
    Opened,
    Ping,
    Pong,
    Rejected,
    Response,
    Running,
    Saved,
    Start,
    Stop,
    Stopped,
    Welcome,
)
from epoxy.model.exchanges import Credit, HeldSocket, Piece, RequestHead, Reset
from tests.protocol.placement.bench import Clock

WELCOME = Welcome(datacenter="dc", ping_every_ms=250, lost_after_ms=800)


class Code:
    """An actor's code that ends when the test says so."""

    def __init__(self, link: ActorLink, ended: Ended) -> None:
        self.link = link
        self.ended = ended
        self.asked: list[ToActor] = []
        self.told: list[str] = []
        self.connections: list[str] = []

    def heard(self, message: ToActor) -> None:
        self.asked.append(message)

    def connected(self) -> None:
        self.connections.append("connected")

    def lost(self) -> None:
        self.connections.append("lost")

    def finish(self) -> None:
        self.told.append("finish")

    def cancel(self) -> None:
        self.told.append("cancel")


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.said: list[FromEnvoy] = []
        self.codes: list[Code] = []
        self.drops = 0
        self.left = 0
        self.ended: list[str] = []
        hello = EnvoyHello(namespace="n", pool="p", envoy_key="w")
        self.protocol = EnvoyProtocol(hello, self.clock, self._begin, self._leave)
        self.protocol.end_process = self.ended.append

    def _begin(self, start: Start, link: ActorLink, ended: Ended) -> Code | None:
        if start.name == "unknown":
            return None
        self.codes.append(Code(link, ended))
        return self.codes[-1]

    def _leave(self) -> None:
        self.left += 1

    def connect(self) -> None:
        self.protocol.opened(self.said.append, self._drop)
        self.protocol.heard(WELCOME)

    def _drop(self) -> None:
        self.drops += 1
        self.protocol.closed()

    def start(self, generation: int = 1, name: str = "room") -> None:
        self.protocol.heard(start(generation, name))

    def take(self) -> list[FromEnvoy]:
        """What was said but for pings."""
        said: list[FromEnvoy] = [word for word in self.said if not isinstance(word, Ping)]
        self.said.clear()
        return said


def start(generation: int = 1, name: str = "room") -> Start:
    return Start(actor_id="a", generation=generation, namespace="n", name=name, key="k")


def running(generation: int) -> Running:
    return Running(actor_id="a", generation=generation)


def cancelled(generation: int) -> Stopped:
    return Stopped(actor_id="a", generation=generation, failed=True, cancelled=True)


@pytest.fixture
def world() -> World:
    made = World()
    made.connect()
    return made


def test_pings_come_by_their_own_timer_however_much_else_is_said(world: World) -> None:
    world.start()
    before = [word for word in world.said if isinstance(word, Ping)]
    for number in range(2_000):
        world.protocol.heard(Asked(request_id=number, actor_id="a", generation=1, body=b"hi"))
        world.codes[0].link.send(Response(request_id=number, body=b"ho"))
        world.clock.advance(1)
        world.protocol.heard(Pong(sent_ms=int(world.clock.now_ms())))
    pings = [word.sent_ms for word in world.said if isinstance(word, Ping)]
    assert len(before) == 1
    assert [later - sooner for sooner, later in pairwise(pings)] == [250] * 8


def test_a_worker_that_is_not_answered_stops_what_it_runs_and_connects_anew(world: World) -> None:
    world.start()
    world.clock.advance(500)
    world.protocol.heard(Pong(sent_ms=int(world.clock.now_ms()) - 100))
    world.clock.advance(700)
    assert (world.codes[0].told, world.drops) == ([], 0)
    world.clock.advance(5)
    assert (world.codes[0].told, world.drops) == (["cancel"], 1)
    world.connect()
    assert world.drops == 1, "the new connection is a new lease"
    assert world.said[-2] == EnvoyHello(namespace="n", pool="p", envoy_key="w", running=(Held("a", 1),))


def test_a_process_that_stood_still_looks_at_its_lease_before_its_mail(world: World) -> None:
    world.start()
    world.clock.time_ms += 5_000
    world.protocol.heard(Asked(request_id=1, actor_id="a", generation=1, body=b"hi"))
    assert world.codes[0].told == ["cancel"]
    assert world.codes[0].asked == []


def test_a_start_that_was_in_the_mail_when_the_lease_ended_begins_nothing(world: World) -> None:
    """The node has given the actor to another worker by now. If it is still for this one, it says so again."""
    world.clock.time_ms += 5_000
    world.start()
    assert (world.codes, world.drops) == ([], 1)
    world.start()
    assert world.codes == []
    world.connect()
    world.start(generation=2)
    assert len(world.codes) == 1


def test_what_waited_for_a_clean_up_does_not_begin_after_the_lease(world: World) -> None:
    world.start()
    world.start(generation=2)
    world.clock.time_ms += 5_000
    world.codes[0].ended(Ending(failed=True))
    assert len(world.codes) == 1


def test_a_worker_says_that_it_stood_still_and_why_it_cancels_its_actors(world: World) -> None:
    told: list[str] = []
    world.protocol.warn = told.append
    world.start()
    world.clock.time_ms += 650
    world.clock.advance(0)
    assert [line[:23] for line in told] == ["a ping is 0.4 s late: t"]
    told.clear()
    world.clock.advance(5_000)
    assert told == ["no ping of the last 0.8 s was answered, so the lease is over: 1 actors cancelled"]


def test_a_node_that_does_not_welcome_is_tried_again() -> None:
    world = World()
    world.protocol.opened(world.said.append, world._drop)
    world.clock.advance(WELCOME_MS - 1)
    assert world.drops == 0
    world.clock.advance(1)
    assert world.drops == 1


def test_a_generation_waits_for_the_one_before_it(world: World) -> None:
    world.start()
    world.start(generation=2)
    assert world.codes[0].told == ["cancel"]
    world.start(generation=2)
    world.start(generation=1)
    assert world.take()[1:] == [running(1)], "not said of one that is on its way out"
    world.codes[0].ended(Ending(failed=True))
    assert world.take() == [cancelled(1), running(2)]
    assert [each.generation for each in world.protocol.hosted] == [2]


def test_a_generation_that_is_stopped_while_it_waits_is_told_of_when_the_one_before_has_ended(world: World) -> None:
    world.start()
    world.start(generation=2)
    world.take()
    world.protocol.heard(Stop(actor_id="a", generation=2))
    assert world.take() == []
    world.codes[0].ended(Ending(failed=True))
    assert world.take() == [cancelled(1), Stopped(actor_id="a", generation=2)]
    assert len(world.codes) == 1


def test_the_next_actor_of_a_name_waits_for_the_one_before_it_too(world: World) -> None:
    """It was destroyed, and its node has taken this worker for lost since; its clean-up takes longer than that."""
    world.start()
    world.take()
    other = Start(actor_id="b", generation=1, namespace="n", name="room", key="k")
    world.protocol.heard(other)
    assert world.codes[0].told == ["cancel"]
    world.protocol.heard(Stop(actor_id="b", generation=1))
    assert world.take() == []
    world.protocol.heard(other)
    world.codes[0].ended(Ending(failed=True))
    assert world.take() == [cancelled(1), Running(actor_id="b", generation=1)]
    world.protocol.heard(Stop(actor_id="a", generation=1))
    assert world.take() == [Stopped(actor_id="a", generation=1)]


def cancel_by(world: World, how: str) -> None:
    if how == "successor":
        world.protocol.welcome = Welcome(datacenter="dc", ping_every_ms=250, lost_after_ms=3_600_000)
        world.start(generation=2)
    elif how == "fence":
        world.clock.advance(WELCOME.lost_after_ms + 1)
    else:
        world.protocol.drain()
        world.protocol.drain()


@pytest.mark.parametrize("how", ["successor", "fence", "leaving"])
def test_code_that_goes_on_after_it_was_cancelled_ends_the_process(world: World, how: str) -> None:
    world.start()
    cancel_by(world, how)
    world.clock.advance(CLEAN_UP_MS - 1)
    assert (world.codes[0].told[:1], world.ended) == (["cancel"], [])
    world.clock.advance(1)
    assert world.ended == ["actor room/k was cancelled 10 s ago, its end is waited for, and it goes on"]


@pytest.mark.parametrize("how", ["successor", "fence", "leaving"])
def test_code_that_ends_in_time_does_not_end_the_process(world: World, how: str) -> None:
    world.start()
    cancel_by(world, how)
    world.clock.advance(CLEAN_UP_MS - 1)
    world.codes[0].ended(Ending(failed=True))
    world.clock.advance(CLEAN_UP_MS)
    assert world.ended == []


def test_planted_without_the_deadline_code_goes_on_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EnvoyProtocol, "_insist", lambda _protocol, _held: None)
    with pytest.raises(AssertionError):
        test_code_that_goes_on_after_it_was_cancelled_ends_the_process(world, "fence")


def test_a_stop_has_the_deadline_too(world: World) -> None:
    """The node waits for it: it moves the actor, or the name may be made anew."""
    world.protocol.welcome = Welcome(datacenter="dc", ping_every_ms=250, lost_after_ms=3_600_000)
    world.start()
    world.protocol.heard(Stop(actor_id="a", generation=1))
    world.clock.advance(STOP_MS + CLEAN_UP_MS - 1)
    assert (world.codes[0].told, world.ended) == (["finish", "cancel"], [])
    world.clock.advance(1)
    assert len(world.ended) == 1


def test_a_stop_is_patient_for_a_while(world: World) -> None:
    world.protocol.welcome = Welcome(datacenter="dc", ping_every_ms=250, lost_after_ms=3_600_000)
    world.start()
    world.protocol.heard(Stop(actor_id="a", generation=0))
    assert world.codes[0].told == [], "an older one"
    world.protocol.heard(Stop(actor_id="a", generation=1))
    world.protocol.heard(Stop(actor_id="a", generation=1))
    assert world.codes[0].told == ["finish"]
    world.take()
    world.protocol.heard(Asked(request_id=1, actor_id="a", generation=1, body=b""))
    (refused,) = world.take()
    assert isinstance(refused, Response)
    assert refused.refused
    world.clock.advance(STOP_MS)
    assert world.codes[0].told == ["finish", "cancel"]
    world.protocol.heard(Stop(actor_id="b", generation=7))
    assert world.take() == [Stopped(actor_id="b", generation=7)]


def test_an_actor_without_code_has_failed(world: World) -> None:
    world.start(name="unknown")
    assert world.take()[1:] == [Stopped(actor_id="a", generation=1, failed=True)]


@pytest.mark.parametrize("how", ["moved", "late", "asked twice"])
def test_a_drain_ends_when_the_actors_have_ended(world: World, how: str) -> None:
    """A node that hears a goodbye starts them elsewhere at once, so it is said behind the last clean-up."""
    world.protocol.welcome = Welcome(datacenter="dc", ping_every_ms=250, lost_after_ms=3_600_000)
    world.start()
    world.protocol.drain()
    assert (world.take()[-1], world.left) == (Draining(), 0)
    ends: dict[str, Callable[[], None]] = {
        "moved": lambda: None,
        "late": lambda: world.clock.advance(DRAIN_MS),
        "asked twice": world.protocol.drain,
    }
    ends[how]()
    assert (world.take(), world.left) == ([], 0)
    assert world.codes[0].told == ([] if how == "moved" else ["cancel"])
    world.codes[0].ended(Ending())
    assert (world.take()[-1], world.left) == (Goodbye(), 1)
    world.start(generation=2)
    assert len(world.codes) == 1, "nothing is begun any more"
    world.protocol.drain()
    assert world.left == 1


def test_a_worker_that_leaves_connects_again_while_its_actors_clean_up(world: World) -> None:
    world.start()
    world.protocol.drain()
    world.protocol.drain()
    world.protocol.closed()
    assert (world.protocol.leaving, world.protocol.departed) == (True, False)
    world.connect()
    assert Draining() in world.take()
    world.start(generation=2)
    world.codes[0].ended(Ending(failed=True))
    assert (len(world.codes), world.take()[-1], world.protocol.departed) == (1, Goodbye(), True)


def test_a_refusal_ends_the_worker_unless_it_may_try_again(world: World) -> None:
    world.protocol.heard(Rejected(message="later", expired=True))
    with pytest.raises(WorkerRefused, match="the node refused this worker: the key is in use"):
        world.protocol.heard(Rejected(message="the key is in use"))


def test_what_comes_for_an_actor_reaches_it_and_no_other_generation(world: World) -> None:
    world.start()
    (code,) = world.codes
    saved = Saved(actor_id="a", generation=1, number=1, version=2)
    opened = Opened(stream=5, actor_id="a", generation=1, head=RequestHead())
    due = AlarmDue(actor_id="a", generation=1, at_ms=3)
    messages: tuple[Saved | Opened | AlarmDue, ...] = (saved, opened, due)
    for message in messages:
        world.protocol.heard(message)
        world.protocol.heard(replace(message, generation=2))
    assert code.asked == [saved, opened, due]
    assert world.take()[-1] == Reset(stream=5, reason="the actor is not here any more", refused=True)
    world.protocol.heard(Piece(stream=5))
    assert len(code.asked) == 3, "the actor did not open it"
    code.link.open(5)
    call = code.link.new_call()
    more: tuple[ToActor, ...] = (Piece(stream=5), Credit(stream=5, amount=1), Reset(stream=5), AskAnswer(call=call))
    for each in more:
        world.protocol.heard(each)
        assert code.asked[-1] == each
    code.ended(Ending())
    code.link.send(Response(request_id=1))
    world.protocol.heard(Piece(stream=5))
    world.protocol.heard(AskAnswer(call=call))
    assert world.take() == [Stopped(actor_id="a", generation=1)], "nothing of it leaves behind its end"
    assert len(code.asked) == 7


def test_actors_learn_of_their_connection(world: World) -> None:
    world.start()
    world.protocol.closed()
    world.connect()
    assert world.codes[0].connections == ["lost", "connected"]


def test_an_actor_that_is_fenced_is_cancelled_and_its_end_waited_for(world: World) -> None:
    world.start()
    world.take()
    world.codes[0].link.interrupt()
    assert world.codes[0].told == ["cancel"]
    world.codes[0].ended(Ending(asleep=True))
    assert world.take() == [cancelled(1)], "whatever else it was about to do"


def test_how_an_actor_ended_is_told(world: World) -> None:
    held = HeldSocket(stream=1, head=RequestHead(upgrade=True))
    for generation, ending in enumerate((Ending(asleep=True, sockets=(held,)), Ending(destroyed=True)), 1):
        world.start(generation)
        world.take()
        world.codes[-1].ended(ending)
        (told,) = world.take()
        assert isinstance(told, Stopped)
        assert (told.asleep, told.sockets, told.destroyed) == (ending.asleep, ending.sockets, ending.destroyed)
