"""Limits of a reader of commands. Apart from `resp`, which is compiled and cannot define records."""

from msgspec import Struct

SHORT_BYTES = 1024
"""The longest key. Arguments up to this take the short path."""

SHORT_ARGUMENTS = 8
"""The longest command that client libraries send by themselves, HELLO with all options, has seven."""


class ReaderLimits(Struct, frozen=True, kw_only=True):
    """`passed_bytes`: the longest argument of a command that is skipped because it exceeds the other limits. 0: such a
    command ends the connection.

    Invariant: a short command is within the limits, so that `skim` need not check them.
    """

    arguments: int
    argument_bytes: int
    command_bytes: int
    passed_bytes: int = 0

    def __post_init__(self) -> None:
        assert self.arguments >= SHORT_ARGUMENTS
        assert self.argument_bytes >= SHORT_BYTES
        assert self.command_bytes >= SHORT_ARGUMENTS * SHORT_BYTES
