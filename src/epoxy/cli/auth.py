"""`epoxy auth`: tokens, and the grants they stand for."""

import os
import ssl
from pathlib import Path
from typing import NoReturn

import click

from epoxy.cli import auth_show, credentials, output, target
from epoxy.cli.auth_show import grant_json, made_words
from epoxy.cli.groups import SETTINGS, Group
from epoxy.client import auth_calls
from epoxy.client.auth_calls import GrantInfo, TokenMade
from epoxy.client.limits import TIMEOUT_S
from epoxy.client.pool import ask_once
from epoxy.model.access import AccessRole
from epoxy.model.errors import ConfigError, InvalidRequest
from epoxy.node.process.address_checks import EVERYWHERE
from epoxy.node.process.config import Settings, load
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.node.process.secret_files import read_secret
from epoxy.transport.peers.operator_header import operator_authorization
from epoxy.transport.tls import refuse_password

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MAX_DURATION_S = 100 * 365 * UNITS["d"]


class Duration(click.ParamType[int]):
    """A whole number with its unit, in seconds."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value)
        if text[-1:] not in UNITS or not text[:-1].isdecimal() or not int(text[:-1]) * UNITS[text[-1]] > 0:
            self.fail(f"{text!r} is no duration; write 45s, 90m, 12h, 30d or 2w", param, ctx)
        seconds = int(text[:-1]) * UNITS[text[-1]]
        if seconds > MAX_DURATION_S:
            self.fail(f"{text!r} is more than 100 years; leave it out for no end", param, ctx)
        return seconds


@click.group(cls=Group, context_settings=SETTINGS, short_help="Make, list, replace and revoke tokens.")
def auth() -> None:
    """Make, list, replace and revoke tokens: who may do what.

    A token stands for a name with roles, and with the prefixes or pools they are limited to. The first one is made on
    a node, with the cluster's secret; all others by an operator, from anywhere.

    \b
    Examples:
      epoxy auth init --config epoxy.toml --save
      epoxy auth token create ci --role writer --prefix user/ --expires 30d
      epoxy auth token list
      epoxy auth token revoke ci
      epoxy auth whoami
    """


@auth.command(short_help="On a node: make the first operator's token, with the cluster's secret.")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The node's epoxy.toml.")
@click.option("--name", default="admin", show_default=True, help="The name of the operator.")
@click.option("--save", is_flag=True, help=f"Write the token to {credentials.home_text()}, where commands look for it.")
@click.option("--url", help="The node's address.  [default: as in its epoxy.toml]")
@target.json_option
@credentials.certificate_options
def init(path: Path, name: str, save: bool, url: str | None, as_json: bool) -> None:
    """Make a token for an operator. Run it on a node that runs, as a user who can read the cluster's secret.

    It works at any time: it is also the way back when all tokens are lost. If there is an operator of that name, the
    new token replaces its own; a name of other clients is refused. The token is printed once, alone on stdout, or
    saved; only its hash is stored.

    \b
    Exit status:
      0   done
      1   the node does not answer, or reaches no quorum
      2   refused: the name cannot be one, or is that of other clients
      77  the node refused the secret
      78  the file, or the secret, cannot be read
    \b
    Examples:
      epoxy auth init --config epoxy.toml --save
      export EPOXY_TOKEN=$(epoxy auth init --config epoxy.toml --name ada)
    """
    try:
        settings = load(path, flags={}, environ=os.environ)
        secret = read_secret(settings)
    except ConfigError as error:
        click.echo(f"epoxy: {error}", err=True)
        raise click.exceptions.Exit(EXIT_CONFIG) from error
    call = auth_calls.init_auth(name)
    assert call.body is not None
    with target.NodeCall(urls=[], as_json=as_json).reporting():
        signature = operator_authorization(secret, settings.node.id, call.target, call.body)
        where = url or own_url(settings)
        made = ask_once(where, call, signature, timeout=TIMEOUT_S, tls=own_tls(settings, named=url is not None))
    hand_over(made, credentials.home_token() if save else None, replace=True, as_json=as_json)


def own_url(settings: Settings) -> str:
    """Where this node serves operators. A wildcard address is reached over the loopback."""
    address = settings.node.admin or settings.node.http
    loopback = "[::1]" if address.host == "::" else "127.0.0.1"
    host = f"[{address.host}]" if ":" in address.host else address.host
    scheme = "https" if settings.tls is not None else "http"
    return f"{scheme}://{loopback if address.host in EVERYWHERE else host}:{address.port}"


def own_tls(settings: Settings, *, named: bool) -> ssl.SSLContext | None:
    """With --ca, or an address of the caller's own, as every command. Otherwise the node's own certificate is trusted,
    and not looked at for a name: it is for the address that others use, and this one is the machine's own."""
    given = credentials.tls()
    if given is not None or named or settings.tls is None:
        return given
    context = ssl.create_default_context(cafile=settings.tls.ca or settings.tls.cert)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.tls.ca is not None:
        context.load_cert_chain(settings.tls.cert, settings.tls.key, password=refuse_password)
    return context


@auth.command(short_help="Show as whom a node knows this client.")
@target.call_options
def whoami(call: target.NodeCall) -> None:
    """Print the name, the roles and the limits of the token or certificate that this command shows.

    \b
    Example:
      EPOXY_TOKEN_FILE=ci.token epoxy auth whoami
    """
    with call.client() as client:
        me = client.auth.whoami()
    if call.as_json:
        output.emit_json(me)
    else:
        auth_show.tell_me(me)


@auth.group(cls=Group, context_settings=SETTINGS, short_help="Create, list, show, rotate and revoke tokens.")
def token() -> None:
    """Create, list, show, rotate and revoke tokens. These need the token of an operator.

    \b
    Examples:
      epoxy auth token create app --role writer --role caller --prefix user/ --requests-per-s 500
      epoxy auth token create chat --role worker --pool chat --save chat.token
      epoxy auth token rotate app --keep 1h
      epoxy auth token revoke app
    """


save_option = click.option(
    "--save",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the token to FILE, readable by you alone, instead of printing it.",
)
name_argument = click.argument("name")


@token.command(short_help="Make a token for a new name.")
@name_argument
@click.option(
    "--role",
    "roles",
    type=click.Choice([role.value for role in AccessRole]),
    multiple=True,
    help="What it may do; one or more.  [required]",
)
@click.option(
    "--prefix",
    "prefixes",
    type=target.Argument(),
    multiple=True,
    metavar="P",
    help="Only keys, or actors' namespace/name/key, that begin with P; may be repeated.  [default: all]",
)
@click.option("--pool", "pools", multiple=True, metavar="POOL", help="Only workers of POOL.  [default: all]")
@click.option("--expires", "expires_in_s", type=Duration(), default=None, help="It ends after so long, as 30d.")
@click.option("--requests-per-s", type=click.IntRange(min=1), metavar="N", help="At each node.  [default: no limit]")
@click.option("--stored-mib", type=click.IntRange(min=1), metavar="N", help="Stored at most.  [default: no limit]")
@click.option("--san", default="", metavar="NAME", help="Client certificates with this name stand for it, too.")
@click.option("--no-token", is_flag=True, help="Certificates alone stand for it (--san); no token is made.")
@save_option
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@target.call_options
def create(
    name: str,
    roles: tuple[str, ...],
    prefixes: tuple[bytes, ...],
    pools: tuple[str, ...],
    expires_in_s: int | None,
    requests_per_s: int | None,
    stored_mib: int | None,
    san: str,
    no_token: bool,
    file: Path | None,
    force: bool,
    call: target.NodeCall,
) -> None:
    """Make a token for NAME. It is printed once, alone on stdout, or written to FILE; only its hash is stored.
    Exit status: 0 made, 3 the name has one already, 77 not an operator.

    \b
    Roles:
      reader    reads keys under its prefixes
      writer    and reserves, puts, deletes them, also in transactions
      worker    hosts the actors of its pools
      caller    creates, asks and destroys actors under its prefixes
      operator  members, links, drain, backup, scrub, tokens; not the data
    \b
    Examples:
      epoxy auth token create ci --role writer --prefix user/ --expires 30d
      epoxy auth token create chat --role worker --pool chat --save chat.token
      epoxy auth token create web --role reader --san spiffe://example.com/web --no-token
    """
    if not roles:
        raise click.UsageError(f"--role is missing: one or more of {', '.join(role.value for role in AccessRole)}")
    if no_token and not san:
        raise click.UsageError("--no-token needs --san: without either nothing stands for the name")
    if no_token and file is not None:
        raise click.UsageError("--no-token makes no token that --save could write")
    check_place(file, replace=force)
    with call.client(writes=True) as client:
        made = client.auth.create_token(
            name,
            roles,
            prefixes=prefixes,
            pools=pools,
            san=san,
            expires_in_s=expires_in_s or 0,
            requests_per_s=requests_per_s or 0,
            stored_bytes=(stored_mib or 0) << 20,
            with_token=not no_token,
        )
    if made is None:
        click.echo(f"epoxy: there is a grant named {name!r}; revoke it first, or rotate its token", err=True)
        raise click.exceptions.Exit(target.LOST)
    hand_over(made, file, replace=force, as_json=call.as_json)


@token.command("list", short_help="List all names, and what they may do.")
@target.call_options
def list_tokens(call: target.NodeCall) -> None:
    """List all names that have a token or a certificate, what they may do, and when they end."""
    with call.client() as client:
        grants = client.auth.grants()
    if call.as_json:
        output.emit_json({"grants": [grant_json(grant) for grant in grants]})
    elif grants:
        output.table(auth_show.HEADS, [auth_show.cells(grant) for grant in grants])
    else:
        click.echo("There are no tokens; `epoxy auth init` on a node makes the first.")


@token.command(short_help="Show what one name may do.")
@name_argument
@target.call_options
def show(name: str, call: target.NodeCall) -> None:
    """Print what NAME may do. Exit status: 0 found, 4 there is no such name."""
    with call.client() as client:
        found = next((grant for grant in client.auth.grants() if grant.name == name), None)
    tell_grant(name, found, as_json=call.as_json)


@token.command(short_help="Replace a token, with both accepted for a while.")
@name_argument
@click.option("--keep", "keep_s", type=Duration(), help="Accept the present token for so long, as 1h.  [default: not]")
@save_option
@target.call_options
def rotate(name: str, keep_s: int | None, file: Path | None, call: target.NodeCall) -> None:
    """Make another token for NAME. With --keep both are accepted until the end of that time, so that clients change
    over without a gap; without it the present one ends now. FILE is replaced if it exists; clients that were given the
    token as a file read it again when the old one is refused.

    \b
    Examples:
      epoxy auth token rotate ci --keep 1h --save ci.token
      epoxy auth token rotate ci
    """
    check_place(file, replace=True)
    with call.client(writes=True) as client:
        made = client.auth.rotate_token(name, keep_s=keep_s or 0)
    if made is None:
        refuse_unknown(name)
    hand_over(made, file, replace=True, as_json=call.as_json)


@token.command(short_help="Revoke a name: all its tokens end.")
@name_argument
@target.call_options
def revoke(name: str, call: target.NodeCall) -> None:
    """Remove NAME. Its tokens and certificates are refused at every node within 5 seconds, and open connections end. A
    node that reaches no other goes on with what it knows. Exit status: 0 revoked, 4 there is no such name.

    \b
    Example:
      epoxy auth token revoke ci
    """
    with call.client(writes=True) as client:
        gone = client.auth.revoke_token(name)
    if gone is not None and not call.as_json:
        click.secho("revoked: ", fg="green", bold=True, nl=False)
        click.echo(f"{name} is refused everywhere within 5 seconds")
        return
    tell_grant(name, gone, as_json=call.as_json)


def tell_grant(name: str, found: GrantInfo | None, *, as_json: bool) -> None:
    if found is None:
        refuse_unknown(name)
    if as_json:
        output.emit_json(grant_json(found))
    else:
        auth_show.tell(found)


def refuse_unknown(name: str) -> NoReturn:
    click.echo(f"epoxy: there is no grant named {name!r}", err=True)
    raise click.exceptions.Exit(target.NOT_FOUND)


def check_place(file: Path | None, *, replace: bool) -> None:
    """Before a token is made: one that cannot be written down would be lost."""
    if file is None:
        return
    if file.exists() and not replace:
        raise click.UsageError(f"{file} exists; --force replaces it")
    if not os.access(file.parent, os.W_OK):
        raise click.UsageError(f"{file.parent} is no folder, or cannot be written to")


def hand_over(made: TokenMade, file: Path | None, *, replace: bool, as_json: bool) -> None:
    """The token, once: into the file, or on stdout. If the file fails, on stdout all the same: it exists only here."""
    shown = made.token
    if file is not None and shown:
        try:
            credentials.write_private(file, shown, replace=replace)
            shown = ""
        except InvalidRequest as error:
            click.echo(f"epoxy: {error}; the token follows", err=True)
    if as_json:
        saved = {"saved": str(file)} if file is not None and not shown else {}
        output.emit_json({"token": shown or None, **saved, "grant": grant_json(made.grant)})
        return
    click.echo(made_words(made, file if not shown else None), err=bool(shown))
    if shown:
        click.echo(shown)
