"""Secrets, which stand in files of their own."""

import stat
from pathlib import Path

from epoxy.model.errors import ConfigError
from epoxy.node.process.config import Settings

MIN_SECRET_BYTES = 16
"""128 bits: too many to guess."""


MAX_SECRETS = 2
"""An old one and a new one, while one is replaced by the other."""


def read_secrets(settings: Settings) -> tuple[bytes, ...]:
    return secrets_in("cluster.secret_file", settings.cluster.secret_file)


def read_secret(settings: Settings) -> bytes:
    """The one that is spoken."""
    return read_secrets(settings)[0]


def secrets_in(setting: str, path: Path) -> tuple[bytes, ...]:
    """One or two lines, each a secret: the first is spoken, both are accepted. Empty lines do not count."""
    lines = [line.strip() for line in secret_in(setting, path, MIN_SECRET_BYTES).splitlines() if line.strip()]
    if len(lines) > MAX_SECRETS:
        raise ConfigError(f"{setting} {path}: {len(lines)} lines; a secret is one line, and there are two at most")
    for number, line in enumerate(lines, 1):
        if len(line) < MIN_SECRET_BYTES:
            raise ConfigError(f"{setting} {path}: line {number}: {len(line)} bytes; at least {MIN_SECRET_BYTES}")
    if len(set(lines)) < len(lines):
        raise ConfigError(f"{setting} {path}: both lines are the same secret")
    return tuple(lines)


def secret_in(setting: str, path: Path, least: int) -> bytes:
    """Without the line end that editors add."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{setting} {path}: cannot be read: {error.strerror}") from error
    if len(secret) < least:
        raise ConfigError(f"{setting} {path}: {len(secret)} bytes; at least {least}")
    return secret


def is_open_to_others(path: Path) -> bool:
    """A file that is gone is not."""
    try:
        return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False
