"""Transactions and their results as JSON.

Keys are percent-encoded, as in URLs. A value is text in `value`, or any bytes in `value_base64`; results have both,
`value` only if it is text.
"""

from base64 import b64encode
from collections.abc import Iterable
from typing import Annotated, assert_never
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec
from msgspec import UNSET, Struct, UnsetType

from epoxy.codec import json_text
from epoxy.model.api import Base64, documented
from epoxy.model.errors import CodecError, InvalidValue, Oversized
from epoxy.model.records import MAX_KEY_BYTES, MAX_TTL_MS
from epoxy.model.transactions import (
    MAX_PARTS,
    MAX_TRANSACTION_BYTES,
    MOST,
    Add,
    Compare,
    Delete,
    Done,
    Executed,
    Expire,
    Get,
    Operation,
    OrderedValue,
    Put,
    Txn,
    Wrong,
    flaw_of,
)

MAX_JSON_BYTES = 16 * MAX_TRANSACTION_BYTES
"""Base64 adds a third, an escaped control character takes six bytes, and names and braces come on top."""


Key = Annotated[str, documented("Percent-encoded.", minLength=1, maxLength=MAX_KEY_BYTES)]
several = documented(maxItems=MAX_PARTS)


class CompareJson(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Holds if the key has one of these values, or if it is absent and may be; or, with `version`, if that is its
    version (0: never written). At least one of them is given, not both `value` and `value_base64`, and nothing beside a
    version."""

    key: Key
    value: str | UnsetType = UNSET
    value_base64: Base64 | UnsetType = UNSET
    one_of: Annotated[list[str], several] = []
    one_of_base64: Annotated[list[Base64], several] = []
    absent: bool = False
    version: Annotated[int, documented(minimum=0)] | UnsetType = UNSET


class GetJson(Struct, forbid_unknown_fields=True, tag_field="op", tag="get"):
    key: Key


class PutJson(Struct, forbid_unknown_fields=True, omit_defaults=True, tag_field="op", tag="put"):
    """The value is `value`, or `value_base64`. `ttl`: the milliseconds after which it ends; 0: never."""

    key: Key
    value: str | UnsetType = UNSET
    value_base64: Base64 | UnsetType = UNSET
    ttl: Annotated[int, documented(minimum=0, maximum=MAX_TTL_MS)] | UnsetType = UNSET


class DeleteJson(Struct, forbid_unknown_fields=True, tag_field="op", tag="delete"):
    key: Key


class AddJson(Struct, forbid_unknown_fields=True, tag_field="op", tag="add"):
    key: Key
    amount: Annotated[int, documented(minimum=-MOST, maximum=MOST)]


OperationJson = GetJson | PutJson | DeleteJson | AddJson


class TxnJson(Struct, forbid_unknown_fields=True, omit_defaults=True, rename={"otherwise": "else"}):
    """If every compare holds `then` is done, else `else`. `reads` are looked up before anything is done. At least one
    key is named."""

    compare: Annotated[list[CompareJson], several] = []
    then: Annotated[list[OperationJson], several] = []
    otherwise: Annotated[list[OperationJson], several] = []
    reads: Annotated[list[Key], several] = []


transactions = msgspec.json.Decoder(TxnJson)


class SeenJson(Struct):
    """`version` 0: the key was never written."""

    key: str
    value: str | None
    value_base64: bytes | None
    version: int = 0


class ResultJson(Struct):
    """`version`: of the key after the operation."""

    op: str
    key: str
    value: str | None
    value_base64: bytes | None
    version: int = 0
    error: str | UnsetType = UNSET


class ExecutedJson(Struct):
    succeeded: bool
    compares: list[SeenJson]
    results: list[ResultJson]
    reads: list[SeenJson]


executions = msgspec.json.Decoder(ExecutedJson)


# Requests


def decode_txn(data: bytes) -> Txn:
    """Raises a CodecError with a message for the client."""
    if len(data) > MAX_JSON_BYTES:
        raise Oversized(f"a transaction has at most {MAX_JSON_BYTES} bytes of JSON")
    asked = json_text.decode(transactions, data)
    parts = (asked.compare, asked.then, asked.otherwise, asked.reads)
    if max([len(part) for part in parts]) > MAX_PARTS:
        raise Oversized(f"a transaction has at most {MAX_PARTS} compares, operations and reads, each")
    if not any(parts):
        raise InvalidValue("a transaction names at least one key")
    txn = Txn(
        compares=tuple([compare_of(each) for each in asked.compare]),
        then=tuple([operation_of(each) for each in asked.then]),
        otherwise=tuple([operation_of(each) for each in asked.otherwise]),
        reads=tuple([key_of(key) for key in asked.reads]),
    )
    flaw = flaw_of(txn)
    if flaw is not None:
        raise Oversized(flaw) if txn.size > MAX_TRANSACTION_BYTES else InvalidValue(flaw)
    return txn


def key_of(text: str) -> bytes:
    return unquote_to_bytes(text)


def value_of(text: str | UnsetType, raw: bytes | UnsetType) -> bytes | None:
    """None if neither is given."""
    if isinstance(text, str) and isinstance(raw, bytes):
        raise InvalidValue("either value or value_base64, not both")
    return text.encode() if isinstance(text, str) else raw if isinstance(raw, bytes) else None


def compare_of(asked: CompareJson) -> Compare:
    one = value_of(asked.value, asked.value_base64)
    values = (*(() if one is None else (one,)), *(text.encode() for text in asked.one_of), *asked.one_of_base64)
    if isinstance(asked.version, int):
        if values or asked.absent:
            raise InvalidValue(f"a compare has a version, or values, not both: '{asked.key}'")
        if asked.version < 0:
            raise InvalidValue(f"a version is 0 or more: '{asked.key}'")
        return Compare(key=key_of(asked.key), version=asked.version)
    if not values and not asked.absent:
        raise InvalidValue(f"a compare has a value, one_of, a version or absent: '{asked.key}' has none")
    if len(values) > MAX_PARTS:
        raise Oversized(f"a compare has at most {MAX_PARTS} values")
    return Compare(key=key_of(asked.key), values=values, absent=asked.absent)


def operation_of(asked: OperationJson) -> Operation:
    key = key_of(asked.key)
    match asked:
        case GetJson():
            return Get(key=key)
        case DeleteJson():
            return Delete(key=key)
        case PutJson():
            value = value_of(asked.value, asked.value_base64)
            if value is None:
                raise InvalidValue(f"a put has a value: '{asked.key}' has none")
            ttl_ms = 0 if asked.ttl is UNSET else asked.ttl
            if not 0 <= ttl_ms <= MAX_TTL_MS:
                raise InvalidValue(f"a ttl has 0 to {MAX_TTL_MS} ms: '{asked.key}'")
            return Put(key=key, value=value, ttl_ms=ttl_ms)
        case AddJson():
            if abs(asked.amount) > MOST:
                raise InvalidValue(f"an amount has at most 63 bits: '{asked.key}'")
            return Add(key=key, amount=abs(asked.amount), negative=asked.amount < 0)
        case _:
            assert_never(asked)


def encode_txn(txn: Txn) -> bytes:
    """For clients: the request."""
    return msgspec.json.encode(
        TxnJson(
            compare=[
                CompareJson(
                    key=quoted(each.key),
                    one_of_base64=list(each.values),
                    absent=each.absent,
                    version=UNSET if each.version is None else each.version,
                )
                for each in txn.compares
            ],
            then=[operation_json(each) for each in txn.then],
            otherwise=[operation_json(each) for each in txn.otherwise],
            reads=[quoted(key) for key in txn.reads],
        )
    )


def operation_json(operation: Operation) -> OperationJson:
    key = quoted(operation.key)
    match operation:
        case Get():
            return GetJson(key=key)
        case Delete():
            return DeleteJson(key=key)
        case Put():
            return PutJson(key=key, value_base64=operation.value, ttl=operation.ttl_ms or UNSET)
        case Add():
            return AddJson(key=key, amount=-operation.amount if operation.negative else operation.amount)
        case Expire():
            raise InvalidValue("a value ends by itself: clients do not expire it")
        case _:
            assert_never(operation)


# Results


def executed_json(txn: Txn, executed: Executed) -> ExecutedJson:
    operations = txn.then if executed.succeeded else txn.otherwise
    return ExecutedJson(
        succeeded=executed.succeeded,
        compares=seen((compare.key for compare in txn.compares), executed.compared),
        results=[result_json(each, done) for each, done in zip(operations, executed.done, strict=True)],
        reads=seen(txn.reads, executed.reads),
    )


def seen(keys: Iterable[bytes], held: Iterable[OrderedValue]) -> list[SeenJson]:
    return [
        SeenJson(key=quoted(key), value=as_text(each.value), value_base64=each.value, version=each.at)
        for key, each in zip(keys, held, strict=True)
    ]


def result_json(operation: Operation, done: Done) -> ResultJson:
    return ResultJson(
        op=type(operation).__name__.lower(),
        key=quoted(operation.key),
        value=as_text(done.value),
        value_base64=done.value,
        version=done.version,
        error=done.wrong.value if done.wrong is not None else UNSET,
    )


def decode_executed(data: bytes) -> Executed:
    """For clients: the response."""
    try:
        result = json_text.decode(executions, data)
        return Executed(
            succeeded=result.succeeded,
            compared=tuple([held_of(each) for each in result.compares]),
            done=tuple([done_of(each) for each in result.results]),
            reads=tuple([held_of(each) for each in result.reads]),
        )
    except ValueError as error:
        raise CodecError(f"not the result of a transaction: {error}") from error


def held_of(seen: SeenJson) -> OrderedValue:
    return OrderedValue(value=seen.value_base64, version=seen.version)


def done_of(result: ResultJson) -> Done:
    wrong = Wrong(result.error) if isinstance(result.error, str) else None
    return Done(value=result.value_base64, version=result.version, wrong=wrong)


def quoted(key: bytes) -> str:
    return quote_from_bytes(key, safe="/")


def as_text(value: bytes | None) -> str | None:
    try:
        return value.decode() if value is not None else None
    except UnicodeDecodeError:
        return None


def in_words(value: bytes | None) -> str:
    """For a person."""
    if value is None:
        return "(absent)"
    text = as_text(value)
    return text if text is not None else f"base64:{b64encode(value).decode()}"
