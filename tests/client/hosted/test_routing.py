"""Which actor of a worker a stream or a call belongs to."""

from epoxy.client.hosted.link import FromActor
from epoxy.client.hosted.routing import ActorRouting, Hosted, HostedLink
from epoxy.model.exchanges import Credit
from tests.client.hosted.bench import START
from tests.protocol.placement.bench import Clock


def test_what_an_actor_has_open_ends_with_it_and_others_go_on() -> None:
    said: list[tuple[Hosted, FromActor]] = []
    interrupted: list[Hosted] = []
    routing = ActorRouting(Clock(), lambda held, message: said.append((held, message)), interrupted.append)
    one, other = Hosted(START), Hosted(START)
    first, second = HostedLink(routing, one), HostedLink(routing, other)
    first.open(1)
    second.open(2)
    calls = [first.new_call(), second.new_call(), first.new_call()]
    assert len(set(calls)) == 3
    second.close(1)
    second.end_call(calls[0])
    assert (routing.streams, set(routing.calls)) == ({1: one, 2: other}, set(calls)), "not its own"
    first.end_call(calls[2])
    first.send(Credit(stream=1, amount=1))
    second.interrupt()
    assert (said, interrupted) == ([(one, Credit(stream=1, amount=1))], [other])
    routing.forget(one)
    first.close(1)
    assert (routing.streams, routing.calls) == ({2: other}, {calls[1]: other})
