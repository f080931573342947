"""Groups of commands whose modules are loaded on demand, and the error for an unknown name."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from epoxy.cli import server_packages

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

INTERRUPTED = 130
"""The exit status that shells expect after Ctrl-C: 128 plus the number of the signal."""


class Interrupted(click.ClickException):
    """Ctrl-C, with a message."""


class Group(click.Group):
    """`rooms` maps a command to its module, which is imported when the command is used: `epoxy get` does not load the
    simulator."""

    def __init__(self, *given: Any, rooms: Mapping[str, str] | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._rooms = dict(rooms or {})

    def list_commands(self, _: click.Context) -> list[str]:
        """In the order of their definition."""
        return [*self._rooms, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        room = self._rooms.get(cmd_name)
        if room is None:
            return super().get_command(ctx, cmd_name)
        try:
            command = getattr(import_module(f"epoxy.cli.{room}"), cmd_name)
        except ModuleNotFoundError as error:
            if not server_packages.is_missing(error):
                raise
            return server_packages.stand_in(cmd_name, str(error.name))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            refuse(args[0], "protocol" if ctx.info_name == "sim" else "command", self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def refuse(word: str, what: str, known: list[str]) -> NoReturn:
    """The error for an unknown name: similar names, and all there are."""
    close = get_close_matches(word, known, n=2)
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    raise click.UsageError(f"unknown {what} {word!r}.{meant} There are: {', '.join(known)}")
