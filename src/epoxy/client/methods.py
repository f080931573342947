"""Methods of the clients, made from functions that return a Call: both clients have the same, with the same signatures
and docstrings, and one of them is awaited."""

import ssl
from collections.abc import Callable, Coroutine, Iterable
from functools import update_wrapper
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_args

from epoxy.client.calls import Call
from epoxy.client.http1 import NodeAddress
from epoxy.client.limits import CONNECT_TIMEOUT_S, MAX_CONNECTIONS, TIMEOUT_S, checked_timeout
from epoxy.client.routing import fleet_of
from epoxy.client.token import BearerToken, check_encrypted, token_of

P = ParamSpec("P")
T = TypeVar("T")
PoolT = TypeVar("PoolT")
M = TypeVar("M", bound=Callable[..., object])

SELF = Parameter("self", Parameter.POSITIONAL_ONLY)


class Pooled(Generic[PoolT]):
    """What both clients are made of: the nodes they know, and a pool of connections to each."""

    _pool: Callable[[NodeAddress, float, int, ssl.SSLContext | None, BearerToken], PoolT]

    def __init__(
        self,
        *urls: str | Iterable[str],
        timeout: float = TIMEOUT_S,
        connect_timeout: float = CONNECT_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        tls: ssl.SSLContext | None = None,
        token: str | Path | None = None,
        token_over_http: bool | None = None,
    ) -> None:
        self._fleet = fleet_of(urls, token_of(token))
        check_encrypted(self._fleet.token, self._fleet.nodes, over_http=token_over_http)
        self._timeout = checked_timeout(timeout)
        wait = checked_timeout(connect_timeout)
        shown = self._fleet.token
        self._pools = {node: self._pool(node, wait, max_connections, tls, shown) for node in self._fleet.nodes}

    def _deadline(self, call: Call[T], began: float) -> float:
        return began + (self._timeout if call.timeout is None else checked_timeout(call.timeout))


class Runner(Protocol):
    def _run(self, call: Call[T]) -> T: ...


class AsyncRunner(Protocol):
    async def _run(self, call: Call[T]) -> T: ...


def blocking(make: Callable[P, Call[T]]) -> Callable[Concatenate[Runner, P], T]:
    """A method that runs the call and returns its result."""

    def method(self: Runner, /, *given: P.args, **named: P.kwargs) -> T:
        return self._run(make(*given, **named))

    return describe(method, make)


def awaited(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncRunner, P], Coroutine[Any, Any, T]]:
    """As `blocking`, for asyncio."""

    async def method(self: AsyncRunner, /, *given: P.args, **named: P.kwargs) -> T:
        return await self._run(make(*given, **named))

    return describe(method, make)


def describe(method: M, make: Callable[..., Call[Any]]) -> M:
    """For `help` and for editors: name, docstring and parameters of the function, and the result of its call."""
    call = signature(make)
    (result,) = get_args(call.return_annotation)
    described = update_wrapper(method, make)
    described.__signature__ = call.replace(  # type: ignore[attr-defined]
        parameters=[SELF, *call.parameters.values()], return_annotation=result
    )
    return method
