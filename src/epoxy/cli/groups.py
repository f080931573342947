"""Commands that come in groups, and a helping hand for those who mistype one."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

INTERRUPTED = 130
"""What a shell expects of a program that was ended by Ctrl-C: 128 and the number of the signal."""


class Interrupted(click.ClickException):
    """By Ctrl-C, where there is more to say than that."""


class Group(click.Group):
    """`rooms` says in which module a command is found. It is loaded when it is wanted: a `get` should not wait for the
    simulator."""

    def __init__(self, *given: Any, rooms: Mapping[str, str] | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._rooms = dict(rooms or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._rooms, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        room = self._rooms.get(cmd_name)
        if room is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(f"epoxy.cli.{room}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            refuse(args[0], "protocol" if ctx.info_name == "sim" else "command", self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def refuse(word: str, what: str, known: list[str]) -> NoReturn:
    """A bad name: what it may have meant, and all there are."""
    close = get_close_matches(word, known, n=2)
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    raise click.UsageError(f"unknown {what} {word!r}.{meant} There are: {', '.join(known)}")
