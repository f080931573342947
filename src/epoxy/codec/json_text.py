"""JSON of clients and other programs, read into a type.

The decoder raises three kinds of errors: its own, `UnicodeDecodeError` for bytes that are not UTF-8, and
`RecursionError` for arrays or objects nested a thousand deep. Here all of them become one.
"""

from typing import TypeVar

import msgspec

from epoxy.model.errors import InvalidValue

T = TypeVar("T")


def decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Raises InvalidValue with a message of one line."""
    try:
        return decoder.decode(data)
    except UnicodeDecodeError as error:
        raise InvalidValue(f"not UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise InvalidValue("arrays or objects are nested too deep") from error
    except msgspec.MsgspecError as error:
        raise InvalidValue(str(error)) from error
