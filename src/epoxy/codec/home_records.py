"""Records of homes, leases and states as values of keys: a byte for the format, then MessagePack."""

from typing import TypeVar

import msgspec

from epoxy.codec.tuple import pack
from epoxy.model.actors import ID_BYTES, ID_FORMAT, RESERVATION_KEYS, ActorName, label_of
from epoxy.model.errors import CodecError
from epoxy.model.homes import HOME_KEYS, DatacenterLease, HomeRecord, StateRecord

FORMAT = 0x02
"""The values of reservations once were ids, which begin with 0x01."""

T = TypeVar("T")

encode_record = msgspec.msgpack.Encoder().encode
homes = msgspec.msgpack.Decoder(HomeRecord)
leases = msgspec.msgpack.Decoder(DatacenterLease)
states = msgspec.msgpack.Decoder(StateRecord)


def encode(record: HomeRecord | DatacenterLease | StateRecord) -> bytes:
    return bytes((FORMAT,)) + encode_record(record)


def decode_home(value: bytes) -> HomeRecord:
    """Also of a reservation that is an id only: it belongs to the datacenter in it, under no lease."""
    if len(value) == ID_BYTES and value[0] == ID_FORMAT:
        return HomeRecord(actor_id=value, label=label_of(value))
    return read(homes, value)


def decode_lease(value: bytes) -> DatacenterLease:
    return read(leases, value)


def decode_state(value: bytes) -> StateRecord:
    return read(states, value)


def read(decoder: msgspec.msgpack.Decoder[T], value: bytes) -> T:
    """Raises CodecError."""
    if not value or value[0] != FORMAT:
        raise CodecError(f"a record begins with {FORMAT}, not {value[:1].hex() or 'nothing'}")
    try:
        return decoder.decode(memoryview(value)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CodecError(str(error)) from error


def reservation_key(name: ActorName) -> bytes:
    return RESERVATION_KEYS + pack((name.namespace, name.name, name.key))


def home_key(name: ActorName) -> bytes:
    return HOME_KEYS + pack((name.namespace, name.name, name.key))
