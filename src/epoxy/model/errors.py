"""Every failure says whether it is definite.

    EpoxyError
    ├── InvalidRequest          definite    the caller's input is outside the contract
    ├── CodecError              definite    bytes that are not what the schema says
    │   ├── Truncated                       they end too early
    │   ├── TrailingBytes                   they go on too long
    │   ├── Oversized                       a length above its limit
    │   ├── NonCanonical                    a second spelling of a value
    │   ├── UnknownTag                      a union member the schema does not have
    │   ├── InvalidValue                    the right shape, but no value the model has
    │   └── UnknownVersion                  a format version this code does not speak
    ├── StoreError
    │   ├── Conflict            definite    a transaction lost against another; it is run again
    │   ├── TooManyConflicts    definite    ... until its limit
    │   ├── TransactionTooLarge definite    it was not started
    │   └── StoreFailed         indefinite  a write or fsync failed: the process must end
    └── InvariantViolation      indefinite  two values for one instance: stop believing, call somebody

Definite: it did not happen. Indefinite: it may have happened, or may still. Outcomes the protocol expects (a name
already taken, no quorum in time) are values, not exceptions: see `model.writes`.
"""


class EpoxyError(Exception):
    definite: bool = True


class InvalidRequest(EpoxyError):
    pass


class CodecError(EpoxyError):
    pass


class Truncated(CodecError):
    pass


class TrailingBytes(CodecError):
    pass


class Oversized(CodecError):
    pass


class NonCanonical(CodecError):
    pass


class UnknownTag(CodecError):
    pass


class InvalidValue(CodecError):
    pass


class UnknownVersion(CodecError):
    pass


class StoreError(EpoxyError):
    pass


class Conflict(StoreError):
    pass


class TooManyConflicts(StoreError):
    pass


class TransactionTooLarge(StoreError):
    pass


class StoreFailed(StoreError):
    definite = False


class InvariantViolation(EpoxyError):
    definite = False
