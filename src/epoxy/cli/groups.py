"""Commands that come in groups, and a helping hand for those who mistype one."""

from difflib import get_close_matches
from typing import NoReturn

import click

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Group(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            refuse(args[0], "command" if ctx.parent is None else "protocol", self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def refuse(word: str, what: str, known: list[str]) -> NoReturn:
    """A bad name: what it may have meant, and all there are."""
    close = get_close_matches(word, known, n=2)
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    raise click.UsageError(f"unknown {what} {word!r}.{meant} There are: {', '.join(known)}")
