"""What a reader of commands allows. Apart from `resp`, which is compiled, as records cannot be."""

from msgspec import Struct

SHORT_BYTES = 1024
"""The longest key. Arguments up to this are skimmed."""

SHORT_ARGUMENTS = 8
"""The longest command clients send on their own, HELLO with everything, has seven."""


class ReaderLimits(Struct, frozen=True, kw_only=True):
    """`passed_bytes`: how long an argument may be of a command that is passed over because it exceeds the other limits.
    Nothing of it is kept. 0: what exceeds them ends the connection.

    Invariant: a short command is within the limits, so that whoever skims need not look at them.
    """

    arguments: int
    argument_bytes: int
    command_bytes: int
    passed_bytes: int = 0

    def __post_init__(self) -> None:
        assert self.arguments >= SHORT_ARGUMENTS
        assert self.argument_bytes >= SHORT_BYTES
        assert self.command_bytes >= SHORT_ARGUMENTS * SHORT_BYTES
