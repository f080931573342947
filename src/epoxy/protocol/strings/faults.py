"""Errors of commands, in the words of Redis 7."""

from epoxy.model.records import MAX_VALUE_BYTES

NOT_AN_INTEGER = "ERR value is not an integer or out of range"
SYNTAX_ERROR = "ERR syntax error"
TOO_LONG = f"ERR string exceeds maximum allowed size ({MAX_VALUE_BYTES} bytes)"


class CommandFault(Exception):
    """What a command is answered with instead of its result: the error as a client reads it, code included."""


def wrong_arity(name: str) -> str:
    return f"ERR wrong number of arguments for '{name}' command"


def invalid_expiry(name: str) -> str:
    return f"ERR invalid expire time in '{name}' command"
