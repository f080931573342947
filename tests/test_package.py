"""The front window of the package: everything in it is real, and nothing is loaded before it is wanted."""

import subprocess
import sys

import pytest

import epoxy
from epoxy.model.errors import EpoxyError


@pytest.mark.parametrize("name", epoxy.__all__)
def test_everything_offered_is_there(name: str) -> None:
    assert getattr(epoxy, name) is not None
    assert name in dir(epoxy)


def test_what_is_not_offered_is_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'epoxy' has no attribute 'Cleint'"):
        _ = epoxy.Cleint  # type: ignore[attr-defined]


def test_exceptions_are_one_tree() -> None:
    offered = [getattr(epoxy, name) for name in epoxy.__all__]
    errors = [thing for thing in offered if isinstance(thing, type) and issubclass(thing, Exception)]
    assert len(errors) > 10
    assert all(issubclass(error, EpoxyError) and isinstance(error.definite, bool) for error in errors)


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_none_of_its_rooms() -> None:
    loaded = loaded_after("import epoxy")
    assert {name for name in loaded if name.startswith("epoxy.")} == set()
    assert loaded.isdisjoint({"msgspec", "asyncio", "socket", "httptools"})


def test_a_client_loads_nothing_of_the_server() -> None:
    rooms = {name.split(".")[1] for name in loaded_after("from epoxy import Client, EpoxyError") if "epoxy." in name}
    assert rooms == {"client", "codec", "model"}


def test_a_command_loads_neither_simulator_nor_server() -> None:
    loaded = loaded_after("import epoxy.cli.reads, epoxy.cli.writes")
    assert {name.split(".")[1] for name in loaded if name.startswith("epoxy.")} == {"cli", "client", "codec", "model"}
    assert "rich" not in loaded
