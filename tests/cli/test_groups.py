"""Groups of commands: lazily loaded modules, their order, and unknown names."""

import sys

import click
import pytest

from epoxy.cli.groups import Group, refuse


def test_commands_are_listed_in_the_order_of_their_definition() -> None:
    group = Group(rooms={"serve": "serve", "get": "reads"})
    group.add_command(click.Command("zeta"))
    group.add_command(click.Command("alpha"))
    assert group.list_commands(click.Context(group)) == ["serve", "get", "zeta", "alpha"]


def test_a_module_is_imported_when_its_command_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "epoxy.cli.inspection", raising=False)
    group = Group(rooms={"inspect": "inspection"})
    context = click.Context(group)
    assert group.get_command(context, "other") is None
    assert "epoxy.cli.inspection" not in sys.modules
    found = group.get_command(context, "inspect")
    assert found is not None
    assert found.name == "inspect"
    assert "epoxy.cli.inspection" in sys.modules


def test_an_unknown_name_is_answered_with_similar_ones_and_with_all() -> None:
    with pytest.raises(click.UsageError) as close:
        refuse("reserv", "command", ["get", "reserve"])
    assert close.value.message == "unknown command 'reserv'. Did you mean reserve? There are: get, reserve"
    with pytest.raises(click.UsageError) as far:
        refuse("xyz", "region", ["us-east-1"])
    assert far.value.message == "unknown region 'xyz'. There are: us-east-1"
