"""Reads of long values: how many bytes are on their way at a time."""

from epoxy.node.long_reads import LONG_VALUE_BYTES, MAX_LONG_READS_BYTES, LongReads


def test_long_reads_are_counted_until_they_are_answered() -> None:
    reads, told = LongReads(), list[str]()
    half = MAX_LONG_READS_BYTES // 2
    first, second = reads.begin(half, told.append), reads.begin(half, told.append)
    assert reads.bytes == MAX_LONG_READS_BYTES
    assert reads.refuses(LONG_VALUE_BYTES)
    first("one")
    assert (told, reads.bytes) == (["one"], half)
    assert not reads.refuses(half)
    assert reads.refuses(half + 1)
    second("two")
    assert (told, reads.bytes) == (["one", "two"], 0)


def test_short_reads_are_never_refused_nor_counted() -> None:
    reads, told = LongReads(), list[str]()
    reads.begin(MAX_LONG_READS_BYTES, told.append)
    assert not reads.refuses(LONG_VALUE_BYTES - 1)
    reads.begin(LONG_VALUE_BYTES - 1, told.append)("short")
    assert (told, reads.bytes) == (["short"], MAX_LONG_READS_BYTES)
