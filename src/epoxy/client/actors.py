"""Actors, as a client sees them: `client.actors.get_or_create("chat-room", "lobby")`."""

from typing import TYPE_CHECKING

from epoxy.client import actor_calls
from epoxy.client.actor_calls import Which
from epoxy.model.api import DEFAULT, ActorInfo, ActorOrder, ActorPage, EnvoyInfo

if TYPE_CHECKING:
    from epoxy.client.asynchronous import AsyncClient
    from epoxy.client.blocking import Client


class Actors:
    """At one node. An actor is found wherever it is; pages and envoys are those of the node's datacenter."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def get_or_create(
        self, name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
    ) -> ActorInfo:
        """The one actor of this name in the world. `given` is what it begins with, if this call makes it."""
        order = ActorOrder(name=name, key=key, namespace=namespace, pool=pool, input=given)
        return self._client._run(actor_calls.get_or_create(order), None)

    def create(
        self, name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
    ) -> ActorInfo | None:
        """None: there is one already."""
        order = ActorOrder(name=name, key=key, namespace=namespace, pool=pool, input=given)
        return self._client._run(actor_calls.create(order), None)

    def get(self, which: Which) -> ActorInfo | None:
        return self._client._run(actor_calls.get(which), None)

    def destroy(self, which: Which) -> ActorInfo | None:
        """None: there was none."""
        return self._client._run(actor_calls.destroy(which), None)

    def page(
        self, *, namespace: str = DEFAULT, name: str | None = None, after: str | None = None, limit: int | None = None
    ) -> ActorPage:
        return self._client._run(actor_calls.page(namespace, name, after, limit), None)

    def request(self, which: Which, body: bytes, *, pool: str | None = None) -> bytes:
        """What the actor answers. With a pool the actor is made, if there is none."""
        return self._client._run(actor_calls.request(which, body, pool), None)

    def envoys(self, *, namespace: str = DEFAULT, pool: str = DEFAULT) -> list[EnvoyInfo]:
        return self._client._run(actor_calls.envoys(namespace, pool), None)

    def drain(self, envoy: str, *, namespace: str = DEFAULT, undo: bool = False) -> bool:
        return self._client._run(actor_calls.drain(namespace, envoy, undo=undo), None)


class AsyncActors:
    """As `Actors`, awaited."""

    def __init__(self, client: "AsyncClient") -> None:
        self._client = client

    async def get_or_create(
        self, name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
    ) -> ActorInfo:
        order = ActorOrder(name=name, key=key, namespace=namespace, pool=pool, input=given)
        return await self._client._run(actor_calls.get_or_create(order), None)

    async def create(
        self, name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
    ) -> ActorInfo | None:
        order = ActorOrder(name=name, key=key, namespace=namespace, pool=pool, input=given)
        return await self._client._run(actor_calls.create(order), None)

    async def get(self, which: Which) -> ActorInfo | None:
        return await self._client._run(actor_calls.get(which), None)

    async def destroy(self, which: Which) -> ActorInfo | None:
        return await self._client._run(actor_calls.destroy(which), None)

    async def request(self, which: Which, body: bytes, *, pool: str | None = None) -> bytes:
        return await self._client._run(actor_calls.request(which, body, pool), None)
