"""Every failure says whether it is definite.

    EpoxyError
    ├── InvalidRequest          definite    the caller's input is outside the contract
    │   └── StateError                      a value that the state of an actor cannot hold
    │       └── DocumentTooLarge            or more of them than it can
    ├── ConfigError             definite    a setting that is unknown or out of range; nothing was started
    ├── CannotListen            definite    an address is taken, perhaps only for now
    ├── BackupError             definite    a backup file that is damaged or incomplete, or cannot be written
    ├── CodecError              definite    bytes that are not what the schema says
    │   ├── Truncated                       they end too early
    │   ├── TrailingBytes                   they go on too long
    │   ├── Oversized                       a length above its limit
    │   ├── NonCanonical                    a second spelling of a value
    │   ├── UnknownTag                      a union member the schema does not have
    │   ├── InvalidValue                    the right shape, but no value the model has
    │   └── UnknownVersion                  a format version this code does not speak
    ├── StoreError
    │   ├── Conflict            definite    another transaction changed what this one read; it is run again
    │   ├── TooManyConflicts    definite    a transaction met a conflict in every attempt
    │   ├── TransactionTooLarge definite    it was not started
    │   ├── StoreRefused        definite    a data directory that must not be opened; it was left as it is
    │   ├── RottenRow           definite    a row whose checksum is wrong; it is never returned
    │   ├── StoreFailed         indefinite  a write or fsync failed: the process must end
    │   └── StoreUnavailable    definite    the database that nodes share does not answer; a read was not done
    │       └── TablesInUse                 by nodes that use another format of its tables; nothing was changed
    ├── InvariantViolation      indefinite  two values for one instance: a bug, or a corrupt store
    └── ClientError                         raised by the Python client about its own request
        ├── Unavailable         definite    no node accepted the request
        │   └── NotRunning                  the actor did not start in time; no other node is tried
        ├── CursorGone          definite    the changes that come next are no longer kept
        ├── AccessRefused       definite    a node knows who asks, or does not, and refuses; no other node is tried
        │   ├── Unauthenticated             no token, or one that is wrong, revoked or expired
        │   ├── Forbidden                   a valid token, without the role or the prefix that this takes
        │   └── QuotaExceeded               the token's requests a second, or its bytes, are used up
        ├── NoSession           definite    the session that was named is over, or never was
        ├── NotObtained         definite    a lock is another's, and was not given back in time
        ├── Lost                definite    a lease that was held is over, or no longer known to be held
        ├── WriteConflict       definite    not written, because of the committed value, which it carries
        │   ├── VersionMismatch             `if_version` is not the committed version
        │   ├── ImmutableKey                the name is reserved, for ever
        │   ├── NotAnInteger                the value is no number of 64 bits, or the sum would be none
        │   └── KeyExists                   `if_absent`, and the key has a value
        └── OutcomeUnknown      indefinite  a write was sent, and what became of it is not known
            ├── ConsensusFailed             the node stopped working on it before it was settled
            ├── Timeout                     no answer in time
            ├── ConnectionLost              the connection ended before the answer came
            └── UnexpectedAnswer            an answer that no Epoxy node gives

Definite: it did not happen. Indefinite: it may have happened, or may still. Outcomes the protocol expects (a name
already taken, no quorum in time) are values on the server's side: see `model.writes`. The client returns them as
results of reads and reservations, and raises them as exceptions for writes that were not carried out.
"""


class EpoxyError(Exception):
    definite: bool = True


class InvalidRequest(EpoxyError): ...


class StateError(InvalidRequest): ...


class DocumentTooLarge(StateError): ...


class ConfigError(EpoxyError): ...


class CannotListen(EpoxyError): ...


class BackupError(EpoxyError): ...


class CodecError(EpoxyError): ...


class Truncated(CodecError): ...


class TrailingBytes(CodecError): ...


class Oversized(CodecError): ...


class NonCanonical(CodecError): ...


class UnknownTag(CodecError): ...


class InvalidValue(CodecError): ...


class UnknownVersion(CodecError): ...


class StoreError(EpoxyError): ...


class Conflict(StoreError): ...


class TooManyConflicts(StoreError): ...


class TransactionTooLarge(StoreError): ...


class StoreRefused(StoreError): ...


class RottenRow(StoreError):
    """`key` is the row's. The store goes on: other rows can be read, and this one can be written anew."""

    def __init__(self, key: bytes) -> None:
        super().__init__(f"the row {key!r} is damaged on this node's disk")
        self.key = key


class StoreFailed(StoreError):
    definite = False


class StoreUnavailable(StoreError):
    """The database does not answer now. Nothing is known of what was asked for."""


class TablesInUse(StoreUnavailable): ...


class InvariantViolation(EpoxyError):
    definite = False


class ClientError(EpoxyError): ...


class Unavailable(ClientError): ...


class NotRunning(Unavailable): ...


class CursorGone(ClientError): ...


class AccessRefused(ClientError): ...


class Unauthenticated(AccessRefused): ...


class Forbidden(AccessRefused): ...


class QuotaExceeded(AccessRefused):
    """`retry_after_s`: when the node would admit the request. None: not before something is deleted, or the quota
    raised."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NoSession(ClientError): ...


class NotObtained(ClientError):
    """`holder`: the value of the lock. `ttl`: seconds that were left of it."""

    def __init__(self, message: str, *, holder: bytes | None = None, ttl: float | None = None) -> None:
        super().__init__(message)
        self.holder = holder
        self.ttl = ttl


class Lost(ClientError): ...


class WriteConflict(ClientError):
    """`value` None and `version` 0: as far as the node knows, the key was never written. A tombstone has a version and
    no value."""

    def __init__(self, message: str, *, value: bytes | None = None, version: int = 0) -> None:
        super().__init__(message)
        self.value = value
        self.version = version


class VersionMismatch(WriteConflict): ...


class ImmutableKey(WriteConflict): ...


class NotAnInteger(WriteConflict): ...


class KeyExists(WriteConflict):
    """`ttl`: seconds until the value ends, as the node counts. None: it does not, or with a session."""

    def __init__(self, message: str, *, value: bytes | None = None, version: int = 0, ttl: float | None = None) -> None:
        super().__init__(message, value=value, version=version)
        self.ttl = ttl


class OutcomeUnknown(ClientError):
    definite = False


class ConsensusFailed(OutcomeUnknown): ...


class Timeout(OutcomeUnknown): ...


class ConnectionLost(OutcomeUnknown): ...


class UnexpectedAnswer(OutcomeUnknown): ...
