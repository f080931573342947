"""Actors, as a client sees them: `client.actors.get_or_create("chat-room", "lobby")`."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from epoxy.client import actor_calls
from epoxy.client.actor_calls import DEFAULT, ActorInfo, ActorPage, EnvoyInfo, Which

if TYPE_CHECKING:
    from epoxy.client.asynchronous import AsyncClient
    from epoxy.client.blocking import Client


class Actors:
    """At one node. An actor is found wherever it is; pages and envoys are those of the node's datacenter."""

    def __init__(self, client: "Client") -> None:
        self._run: Callable[..., Any] = partial(client._run, timeout=None)

    def get_or_create(
        self, name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
    ) -> ActorInfo:
        """The one actor of this name in the world. `given` is what it begins with, if this call makes it."""
        found: ActorInfo = self._run(actor_calls.ensure(name, key, namespace, pool, given, exclusive=False))
        return found

    def create(
        self, name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
    ) -> ActorInfo | None:
        """None: there is one already."""
        made: ActorInfo | None = self._run(actor_calls.ensure(name, key, namespace, pool, given, exclusive=True))
        return made

    def get(self, which: Which) -> ActorInfo | None:
        found: ActorInfo | None = self._run(actor_calls.get(which))
        return found

    def destroy(self, which: Which) -> ActorInfo | None:
        """None: there was none."""
        gone: ActorInfo | None = self._run(actor_calls.destroy(which))
        return gone

    def page(
        self, *, namespace: str = DEFAULT, name: str | None = None, after: str | None = None, limit: int | None = None
    ) -> ActorPage:
        listed: ActorPage = self._run(actor_calls.page(namespace, name, after, limit))
        return listed

    def request(self, which: Which, body: bytes, *, pool: str | None = None) -> bytes:
        """What the actor answers. With a pool the actor is made, if there is none."""
        answer: bytes = self._run(actor_calls.request(which, body, pool))
        return answer

    def envoys(self, *, namespace: str = DEFAULT, pool: str = DEFAULT) -> list[EnvoyInfo]:
        listed: list[EnvoyInfo] = self._run(actor_calls.envoys(namespace, pool))
        return listed

    def drain(self, envoy: str, *, namespace: str = DEFAULT, undo: bool = False) -> bool:
        done: bool = self._run(actor_calls.drain(namespace, envoy, undo=undo))
        return done


class AsyncActors:
    """As `Actors`, awaited."""

    def __init__(self, client: "AsyncClient") -> None:
        self._run: Callable[..., Awaitable[Any]] = partial(client._run, timeout=None)

    async def get_or_create(
        self, name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
    ) -> ActorInfo:
        found: ActorInfo = await self._run(actor_calls.ensure(name, key, namespace, pool, given, exclusive=False))
        return found

    async def create(
        self, name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
    ) -> ActorInfo | None:
        made: ActorInfo | None = await self._run(actor_calls.ensure(name, key, namespace, pool, given, exclusive=True))
        return made

    async def get(self, which: Which) -> ActorInfo | None:
        found: ActorInfo | None = await self._run(actor_calls.get(which))
        return found

    async def destroy(self, which: Which) -> ActorInfo | None:
        gone: ActorInfo | None = await self._run(actor_calls.destroy(which))
        return gone

    async def request(self, which: Which, body: bytes, *, pool: str | None = None) -> bytes:
        answer: bytes = await self._run(actor_calls.request(which, body, pool))
        return answer
