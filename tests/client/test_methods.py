"""Both clients have the same methods, and say what these take."""

import inspect

import pytest

from epoxy import AsyncClient, Client
from epoxy.client.actors import Actors, AsyncActors
from epoxy.client.results import Written
from epoxy.model.errors import InvalidRequest

WRITES = ("reserve", "put", "add", "delete", "txn", "change_members")
CALLS = (*WRITES, "get", "read", "page", "status", "members", "inspect")

PUT = ["key", "value", "if_version", "if_absent", "ttl", "keep_ttl", "session", "returning", "timeout"]


@pytest.mark.parametrize("name", CALLS)
def test_a_method_of_both_clients_has_one_signature_and_one_docstring(name: str) -> None:
    blocking, awaited = getattr(Client, name), getattr(AsyncClient, name)
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert blocking.__doc__ == awaited.__doc__
    assert blocking.__name__ == awaited.__name__ == name
    assert inspect.iscoroutinefunction(awaited)
    assert not inspect.iscoroutinefunction(blocking)


def test_the_parameters_are_those_of_the_call_behind_self() -> None:
    assert list(inspect.signature(Client.put).parameters) == ["self", *PUT]
    assert inspect.signature(Client.put).return_annotation is Written
    assert list(inspect.signature(Client("http://127.0.0.1:1").put).parameters) == PUT


def test_actors_have_those_of_actors() -> None:
    for name in ("get_or_create", "create", "get", "destroy", "request"):
        assert inspect.signature(getattr(Actors, name)) == inspect.signature(getattr(AsyncActors, name))


@pytest.mark.parametrize("timeout", [0, -1, 3601])
def test_a_timeout_of_a_call_is_checked(timeout: float) -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(InvalidRequest, match="timeout"):
        client.status(timeout=timeout)
