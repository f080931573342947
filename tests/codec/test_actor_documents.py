"""What an actor saves is what the next one starts with."""

import msgspec
import pytest

from epoxy.codec.actor_documents import ActorDocument, KeptAnswer, decode_document, encode_document
from epoxy.model.errors import InvalidValue

ANSWER = KeptAnswer(key="k", at_ms=5, status=201, headers=(("a", "b"),), body=b"\xff")


def test_fields_and_answers_come_back() -> None:
    fields = {"n": msgspec.msgpack.encode(1), "é": msgspec.msgpack.encode([b"\x00", "x", None])}
    assert decode_document(encode_document(fields, (ANSWER,))) == (fields, (ANSWER,))
    assert decode_document(b"") == ({}, ()), "an actor that has saved nothing"


@pytest.mark.parametrize("raw", [b"\xc1", b"\x93", b"\x93\x01", b"\x81\xa1a\x01", b"\x93\x01\x81\xa1\xff\x01\x90"])
def test_what_is_no_document_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidValue, match="not the document of an actor"):
        decode_document(raw)


def test_a_later_format_is_named() -> None:
    with pytest.raises(InvalidValue, match="a document of format 2; this SDK reads format 1"):
        decode_document(msgspec.msgpack.encode(ActorDocument(format=2)))
