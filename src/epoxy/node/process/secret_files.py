"""Secrets and passwords, which stand in files of their own."""

import stat
from pathlib import Path

from epoxy.model.errors import ConfigError
from epoxy.node.process.config import Settings

MIN_SECRET_BYTES = 16
"""128 bits: too many to guess."""


def read_secret(settings: Settings) -> bytes:
    return secret_in("cluster.secret_file", settings.cluster.secret_file, MIN_SECRET_BYTES)


def secret_in(setting: str, path: Path, least: int) -> bytes:
    """Without the line end that editors add."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{setting} {path}: cannot be read: {error.strerror}") from error
    if len(secret) < least:
        raise ConfigError(f"{setting} {path}: {len(secret)} bytes; at least {least}")
    return secret


def read_resp_password(settings: Settings) -> str | None:
    path = settings.node.resp_password_file
    if path is None:
        return None
    try:
        return secret_in("node.resp_password_file", path, 1).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"node.resp_password_file {path}: is not UTF-8 (byte {error.start})") from error


def is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
