"""HTTP/1.1, as much as two servers and one client that know each other need.

A right answer is written as its status and, after that, what its body must contain.
"""

from benchmarks.suite.job import Exchange

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"


def request(
    method: str, path: bytes, body: bytes | None = None, content_type: str = "application/octet-stream"
) -> bytes:
    head = b"%b %b HTTP/1.1\r\nHost: localhost\r\n" % (method.encode(), path)
    if body is None:
        return head + b"\r\n"
    return head + b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n" % (content_type.encode(), len(body)) + body


def whole(data: bytes | bytearray) -> int:
    """How many bytes the first answer has; 0 while some of it is missing. ValueError: it does not say."""
    end = data.find(HEAD_END)
    if end < 0:
        return 0
    head = bytes(data[:end]).lower()
    at = head.find(LENGTH)
    if at < 0:
        raise ValueError("an answer without a length")
    size = end + len(HEAD_END) + int(head[at + len(LENGTH) :].partition(b"\r\n")[0])
    return size if len(data) >= size else 0


def accepts(answer: bytes, expected: bytes) -> bool:
    if answer[9:12] != expected[:3]:
        return False
    return len(expected) == 3 or expected[3:] in answer


def create(key: bytes, value: bytes) -> Exchange:
    return Exchange(request("PUT", b"/v2/kv/" + key, value), b"201")


def put(key: bytes, value: bytes) -> Exchange:
    """201 the first time, 200 afterwards: the client looks at it."""
    return Exchange(request("PUT", b"/v2/kv/" + key + b"?mode=put", value), b"")


def get(key: bytes, value: bytes) -> Exchange:
    return Exchange(request("GET", b"/v2/kv/" + key), b"200" + HEAD_END + value)
