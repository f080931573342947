"""Redis' protocol."""

from benchmarks.suite.job import Exchange

OK = b"+OK\r\n"


def command(*arguments: bytes) -> bytes:
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
    return b"".join(parts)


def bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


def create(key: bytes, value: bytes) -> Exchange:
    return Exchange(command(b"SET", key, value, b"NX"), OK)


def reserve(key: bytes, value: bytes) -> Exchange:
    """For ever, as Epoxy does."""
    return Exchange(command(b"RESERVE", key, value), OK)


def put(key: bytes, value: bytes) -> Exchange:
    return Exchange(command(b"SET", key, value), OK)


def increment(key: bytes, _value: bytes) -> Exchange:
    """Any integer is a right answer: the client looks at it."""
    return Exchange(command(b"INCR", key), b"")


def get(key: bytes, value: bytes) -> Exchange:
    return Exchange(command(b"GET", key), bulk(value))


def waited(exchange: Exchange, replicas: int) -> Exchange:
    """Until so many replicas have it, however long that takes."""
    return Exchange(exchange.raw + command(b"WAIT", b"%d" % replicas, b"0"), exchange.reply + b":%d\r\n" % replicas)
