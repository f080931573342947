"""What commands show to a node: the options for a token and for certificates.

There is no option that takes the token itself: the command line of a process can be read by every user of the machine,
and shells keep it in their history.
"""

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from epoxy.client.token import TOKEN, TOKEN_FILE
from epoxy.model.errors import InvalidRequest

Command = TypeVar("Command", bound=Callable[..., Any])

META = "epoxy.credentials"
PATH = click.Path(path_type=Path, dir_okay=False)


def remember(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """In the context, and not as a parameter: every command that asks a node has these options, and only what makes a
    client needs them."""
    ctx.meta.setdefault(META, {})[param.name] = value


def credential_options(command: Command) -> Command:
    """--token-file, and those for certificates."""
    words = f"The token.  [default: {TOKEN}, {TOKEN_FILE}, or {home_text()}]"
    return click.option("--token-file", **shared(None), help=words)(certificate_options(command))


def certificate_options(command: Command) -> Command:
    """--ca, --cert and --key."""
    for option in (
        click.option("--key", "tls_key", **shared("EPOXY_KEY"), help="The private key of --cert."),
        click.option("--cert", "tls_cert", **shared("EPOXY_CERT"), help="A certificate to show to https nodes (PEM)."),
        click.option("--ca", "tls_ca", **shared("EPOXY_CA"), help="Trust https nodes of this authority alone (PEM)."),
    ):
        command = option(command)
    return command


def shared(variable: str | None) -> dict[str, Any]:
    named = {"envvar": variable, "show_envvar": True} if variable is not None else {}
    return {"type": PATH, "metavar": "FILE", "expose_value": False, "callback": remember, **named}


def home_token(environ: Mapping[str, str] = os.environ) -> Path:
    """Where `epoxy auth ... --save` puts a token, and where commands look for one last."""
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config"
    return Path(base) / "epoxy" / "token"


def home_text() -> str:
    return "~/.config/epoxy/token"


def given(name: str) -> Path | None:
    ctx = click.get_current_context(silent=True)
    found: Path | None = ctx.meta.get(META, {}).get(name) if ctx is not None else None
    return found


def token() -> Path | None:
    """The file of the token; None: as the environment says, which the client looks at itself."""
    named = given("token_file")
    if named is not None or os.environ.get(TOKEN) or os.environ.get(TOKEN_FILE):
        return named
    return home_token() if home_token().is_file() else None


def token_file() -> Path | None:
    """The file that the token comes from, if it comes from one."""
    if given("token_file") is None and os.environ.get(TOKEN):
        return None
    named = os.environ.get(TOKEN_FILE)
    return token() or (Path(named) if named else None)


def has_token() -> bool:
    return token() is not None or bool(os.environ.get(TOKEN) or os.environ.get(TOKEN_FILE))


def tls() -> ssl.SSLContext | None:
    """Raises InvalidRequest. None: the system's authorities, and no certificate."""
    authority, certificate, key = given("tls_ca"), given("tls_cert"), given("tls_key")
    if certificate is None and key is not None:
        raise InvalidRequest("--key is the key of a certificate; --cert is missing")
    if authority is None and certificate is None:
        return None
    context = loaded("--ca", authority, lambda: ssl.create_default_context(cafile=authority))
    if certificate is not None:
        from epoxy.transport.tls import refuse_password  # Only here: most commands have no certificate.

        loaded("--cert", certificate, lambda: context.load_cert_chain(certificate, key, password=refuse_password))
    return context


T = TypeVar("T")


def loaded(option: str, file: Path | None, load: Callable[[], T]) -> T:
    try:
        return load()
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise InvalidRequest(f"{option} {file}: {str(reason).replace('_', ' ').lower()}") from None


def write_private(file: Path, text: str, *, replace: bool) -> None:
    """Readable by its owner alone, from the first moment on. Raises InvalidRequest, also if it exists and is not to be
    replaced."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as opened:
                opened.write(f"{text}\n")
            if replace or not file.exists():
                partial.replace(file)
            else:
                raise InvalidRequest(f"{file} exists; --force replaces it")
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be written: {(error.strerror or str(error)).lower()}") from None
