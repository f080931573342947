"""What `epoxy auth` prints of grants."""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from epoxy.cli import output
from epoxy.cli.credentials import home_token
from epoxy.client.auth_calls import GrantInfo, TokenMade, WhoAmI, prefix_of
from epoxy.client.token import TOKEN_FILE
from epoxy.model.access import AccessRole

HEADS = ("name", "roles", "limited to", "ends", "stands for it", "quota", "made")

KEYS = (AccessRole.READER, AccessRole.WRITER, AccessRole.CALLER)


def grant_json(grant: GrantInfo) -> dict[str, Any]:
    return {**msgspec.to_builtins(grant), "expired": is_over(grant)}


def is_over(grant: GrantInfo, now_s: float | None = None) -> bool:
    now = time.time() if now_s is None else now_s
    ends = [end for end in (grant.expires_s,) if end]
    return any(end <= now for end in ends) or (
        not grant.san and bool(grant.token_ends) and all(0 < end <= now for end in grant.token_ends)
    )


def cells(grant: GrantInfo) -> tuple[str, ...]:
    made = f"{day(grant.created_s)}{f' by {grant.created_by}' if grant.created_by else ''}"
    return (grant.name, roles_of(grant), scope(grant), end_words(grant), stands(grant), quota(grant) or "-", made)


def tell(grant: GrantInfo) -> None:
    click.secho(grant.name, bold=True)
    output.row("roles", roles_of(grant))
    output.row("limited to", scope(grant))
    output.row("ends", end_words(grant))
    output.row("stands for it", stands(grant))
    output.row("quota", quota(grant) or "none")
    output.row("made", f"{day(grant.created_s)} by {grant.created_by or 'an operator'}")


def tell_me(me: WhoAmI) -> None:
    if me.auth == "open":
        click.secho("open: this node asks for no tokens, and every client may do everything", bold=True)
        return
    click.secho(me.name, bold=True)
    output.row("roles", roles_of(me))
    output.row("limited to", scope(me))
    output.row("ends", moment(me.expires_s))
    output.row("quota", quota(me) or "none")


def made_words(made: TokenMade, file: Path | None) -> str:
    grant = made.grant
    limits = "" if scope(grant) == "-" else f" limited to: {scope(grant)};"
    head = f"{grant.name}: {roles_of(grant)};{limits} ends: {end_words(grant)}."
    if not made.token:
        return f"{head}\nNo token was made: certificates for {grant.san} stand for it."
    if file == home_token():
        return f"{head}\nThe token is in {file}, readable by you alone: commands look for it there."
    if file is not None:
        return f"{head}\nThe token is in {file}, readable by you alone; {TOKEN_FILE}={file} makes commands use it."
    return f"{head}\nThe token is shown this once; only its hash is stored."


def roles_of(grant: GrantInfo | WhoAmI) -> str:
    return ", ".join(role.value for role in grant.roles)


def scope(grant: GrantInfo | WhoAmI) -> str:
    """Prefixes and pools, as far as the roles have to do with them."""
    parts = []
    if any(role in KEYS for role in grant.roles):
        prefixes = [output.text_of(prefix_of(prefix)) for prefix in grant.prefixes]
        parts.append(", ".join(prefixes) if prefixes else "any key")
    if AccessRole.WORKER in grant.roles:
        pools = ", ".join(grant.pools)
        parts.append(f"pools {pools}" if pools else "any pool")
    return "; ".join(parts) or "-"


def quota(grant: GrantInfo | WhoAmI) -> str:
    parts = []
    if grant.requests_per_s:
        parts.append(f"{grant.requests_per_s:,} requests a second at each node")
    if grant.stored_bytes:
        parts.append(f"{grant.stored_bytes / (1 << 20):,.0f} MiB")
    return ", ".join(parts)


def stands(grant: GrantInfo) -> str:
    parts = []
    if grant.token_ends:
        parts.append(output.plural(len(grant.token_ends), "token"))
    if grant.san:
        parts.append(f"certificates for {grant.san}")
    return ", ".join(parts)


def end_words(grant: GrantInfo) -> str:
    """Of the grant; and of a token that is being replaced."""
    if is_over(grant):
        return f"EXPIRED {moment(grant.expires_s)}"
    ending = [end for end in grant.token_ends[1:] if end]
    return moment(grant.expires_s) + (f" (the token before: {moment(ending[0])})" if ending else "")


def moment(end_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(end_s)) if end_s else "never"


def day(at_s: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at_s)) if at_s else "-"
