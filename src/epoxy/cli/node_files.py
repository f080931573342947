"""The files of a node on this machine: its epoxy.toml, and what that names, looked at whether the node runs or not."""

from collections.abc import Iterator
from pathlib import Path
from shutil import disk_usage
from urllib.parse import urlsplit

from epoxy.cli.diagnosis_certificates import PLACEHOLDERS
from epoxy.cli.diagnosis_files import NodeFiles
from epoxy.model.errors import ConfigError
from epoxy.node.process.certificates import CertificateFiles
from epoxy.node.process.config import Settings, load
from epoxy.node.process.secret_files import is_open_to_others, read_secrets
from epoxy.transport.tls import TlsFiles

LEAST_DISTINCT = 5
"""Different bytes in a secret. One of 16 random hexadecimal digits, the shortest there is, has fewer once in two
million."""


def look_at_files(path: Path) -> NodeFiles:
    """Raises ConfigError, if the file itself cannot be read."""
    settings = load(path)
    wrong, weak, flaw = [], "", ""
    try:
        weak = weakness(read_secrets(settings))
    except ConfigError as error:
        wrong.append(str(error))
    try:
        flaw = flaw_of_files(settings)
    except ConfigError as error:
        wrong.append(str(error))
    data_dir = settings.node.data_dir
    return NodeFiles(
        path=path,
        url=listener_url(settings),
        readable={setting: file for setting, file in private_files(path, settings) if is_open_to_others(file)},
        wrong=tuple(wrong),
        weak=weak,
        secret_file=settings.cluster.secret_file,
        flaw=flaw,
        data_dir=data_dir,
        free=disk_usage(data_dir).free if settings.store.driver == "embedded" and data_dir.is_dir() else None,
    )


def listener_url(settings: Settings) -> str:
    """Where operators are served on this machine."""
    address = settings.node.admin or settings.node.http
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    return f"{'https' if settings.tls is not None else 'http'}://{f'[{host}]' if ':' in host else host}:{address.port}"


def private_files(path: Path, settings: Settings) -> Iterator[tuple[str, Path]]:
    yield "cluster.secret_file", settings.cluster.secret_file
    if settings.tls is not None:
        yield "tls.key", settings.tls.key
    if settings.store.url and urlsplit(settings.store.url).password:
        yield "the password of store.url in", path


def weakness(secrets: tuple[bytes, ...]) -> str:
    for secret in secrets:
        if secret in [word.encode() for word in PLACEHOLDERS]:
            return "it is that of an example"
        if len(set(secret)) < LEAST_DISTINCT:
            return f"it has {len(secret)} bytes, of {len(set(secret))} different ones alone"
    return ""


def flaw_of_files(settings: Settings) -> str:
    """Why peers refuse the certificate in them. Raises ConfigError."""
    if settings.tls is None:
        return ""
    tls = settings.tls
    files = TlsFiles(cert=tls.cert, key=tls.key, ca=tls.ca, client_ca=tls.client_ca)
    return CertificateFiles(files, urlsplit(settings.node.advertise_url).hostname or "").flaw_found
