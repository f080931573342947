"""Stored commands of the ordered engine in formats 2 and 3, which are the same. They are read as long as a replica may
keep one, and no longer written: a put and an addition had no time to live, a compare had no version, nothing was
imported, and no versions of keys were counted.
"""

from collections.abc import Callable
from typing import TypeVar

from epoxy.codec.bare import decode_data, decode_length, decode_uint, unknown_tag
from epoxy.codec.epoxy_v3 import decode_bool
from epoxy.codec.epoxy_v4 import decode_keys, decode_values
from epoxy.model.errors import InvalidValue
from epoxy.model.instances import MAX_BATCH, Command
from epoxy.model.records import MAX_KEY_BYTES, MAX_VALUE_BYTES
from epoxy.model.transactions import MAX_PARTS, MOST, Add, Compare, Delete, Get, Operation, Put, Txn

Item = TypeVar("Item")


def decode_command(buffer: bytes, position: int) -> tuple[Command, int]:
    txns, position = decode_list(decode_txn, buffer, position, 1, MAX_BATCH)
    return Command(txns=txns, versioned=False), position


def decode_list(
    decode: Callable[[bytes, int], tuple[Item, int]], buffer: bytes, position: int, low: int, high: int
) -> tuple[tuple[Item, ...], int]:
    count, position = decode_length(buffer, position, low, high)
    found: list[Item] = []
    for _ in range(count):
        item, position = decode(buffer, position)
        found.append(item)
    return tuple(found), position


def decode_txn(buffer: bytes, position: int) -> tuple[Txn, int]:
    compares, position = decode_list(decode_compare, buffer, position, 0, MAX_PARTS)
    then, position = decode_list(decode_operation, buffer, position, 0, MAX_PARTS)
    otherwise, position = decode_list(decode_operation, buffer, position, 0, MAX_PARTS)
    reads, position = decode_keys(buffer, position)
    if not (compares or then or otherwise or reads):
        raise InvalidValue("a transaction names at least one key")
    return Txn(compares=compares, then=then, otherwise=otherwise, reads=reads), position


def decode_compare(buffer: bytes, position: int) -> tuple[Compare, int]:
    key, position = decode_data(buffer, position, 1, MAX_KEY_BYTES)
    values, position = decode_values(buffer, position)
    absent, position = decode_bool(buffer, position)
    if not values and not absent:
        raise InvalidValue("nothing would make this compare hold")
    return Compare(key=key, values=values, absent=absent), position


def decode_operation(buffer: bytes, position: int) -> tuple[Operation, int]:
    tag, start = buffer[position], position
    key, position = decode_data(buffer, position + 1, 1, MAX_KEY_BYTES)
    match tag:
        case 0:
            return Get(key=key), position
        case 1:
            value, position = decode_data(buffer, position, 0, MAX_VALUE_BYTES)
            return Put(key=key, value=value), position
        case 2:
            return Delete(key=key), position
        case 3:
            amount, position = decode_uint(buffer, position)
            negative, position = decode_bool(buffer, position)
            if amount > MOST:
                raise InvalidValue("an amount has at most 63 bits")
            return Add(key=key, amount=amount, negative=negative), position
        case _:
            raise unknown_tag("Operation", buffer, start)
