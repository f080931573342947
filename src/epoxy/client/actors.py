"""Actors, as a client sees them: `client.actors.get_or_create("chat-room", "lobby")`."""

from epoxy.client import actor_calls
from epoxy.client.methods import AsyncRunner, Runner, awaited, blocking


class Actors:
    """At one node. An actor is found wherever it is; pages and envoys are those of the node's datacenter."""

    get_or_create = blocking(actor_calls.get_or_create)
    create = blocking(actor_calls.create)
    get = blocking(actor_calls.get)
    destroy = blocking(actor_calls.destroy)
    move = blocking(actor_calls.move)
    page = blocking(actor_calls.page)
    request = blocking(actor_calls.request)
    fetch = blocking(actor_calls.fetch)
    envoys = blocking(actor_calls.envoys)
    homeless = blocking(actor_calls.homeless)
    pools = blocking(actor_calls.pools)
    drain = blocking(actor_calls.drain)

    def __init__(self, client: Runner) -> None:
        self._run = client._run


class AsyncActors:
    """As `Actors`, awaited."""

    get_or_create = awaited(actor_calls.get_or_create)
    create = awaited(actor_calls.create)
    get = awaited(actor_calls.get)
    destroy = awaited(actor_calls.destroy)
    move = awaited(actor_calls.move)
    request = awaited(actor_calls.request)
    fetch = awaited(actor_calls.fetch)

    def __init__(self, client: AsyncRunner) -> None:
        self._run = client._run
