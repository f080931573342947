"""A request while it is being read, and its limits."""

from epoxy.transport.limits import ACTOR_PATH, WHOLE_BODY_BYTES, HttpLimits


class Refusal(Exception):
    """The request is refused with this answer, and the rest of it is not read."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Incoming:
    def __init__(self, limits: HttpLimits) -> None:
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.head_size = 0
        self.body_size = 0
        self.is_streamed = False
        """Its handler reads the body as it arrives."""
        self._limits = limits
        self._body: list[bytes] = []
        self._body_limit = limits.body_bytes
        self._head_raw = self._body_raw = 0

    @property
    def body(self) -> bytes:
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    def add_url(self, url: bytes) -> None:
        self.url += url
        self.count_head(len(url))

    def add_header(self, name: bytes, value: bytes) -> None:
        """A header that is sent twice is joined with a comma."""
        name = name.lower()
        earlier = self.headers.get(name)
        self.headers[name] = value if earlier is None else earlier + b", " + value

    def expect_body(self) -> None:
        coding = self.headers.get(b"transfer-encoding", b"chunked").lower()
        if coding != b"chunked":  # The coded bytes would be taken for the value itself.
            raise Refusal(501, "not_implemented", "the only transfer coding understood here is chunked")
        size = int(self.headers.get(b"content-length", b"0"))
        if self.url.startswith(ACTOR_PATH) and (size > WHOLE_BODY_BYTES or b"transfer-encoding" in self.headers):
            self.is_streamed = True
            return
        self._body_limit = self._limits.body_limits.get(self.url, self._limits.body_bytes)
        self._count_body(size)

    def add_body(self, data: bytes) -> None:
        self.body_size += len(data)
        self._count_body(self.body_size)
        self._body.append(data)

    def target(self) -> tuple[bytes, bytes]:
        """Path and query. Clients of proxies send `http://host/path`."""
        path, _, query = self.url.partition(b"#")[0].partition(b"?")
        if path.startswith(b"/"):
            return path, query
        _, scheme, rest = path.partition(b"://")
        host, slash, path = rest.partition(b"/")
        if not scheme or not host:
            raise Refusal(400, "bad_request", "the request's target is neither a path nor an address")
        return slash + path or b"/", query

    def count_head(self, size: int) -> None:
        self.head_size += size
        self._check_head(self.head_size)

    def count_unfinished(self, size: int) -> None:
        """The parser reports a line when it has ended; until then its bytes are counted here."""
        self._head_raw += size
        self._check_head(self._head_raw)

    def count_framing(self, size: int) -> None:
        """Chunks of one byte take six. More framing than that is an attack, not a body."""
        if self._body_raw > 8 * self.body_size + self._limits.head_bytes:
            raise Refusal(400, "bad_request", "far more framing than body")
        self._body_raw += size

    def _check_head(self, size: int) -> None:
        if size > self._limits.head_bytes:
            message = f"address and headers have more than {self._limits.head_bytes} bytes"
            raise Refusal(431, "head_too_large", message)

    def _count_body(self, size: int) -> None:
        if size > self._body_limit:
            raise Refusal(413, "body_too_large", f"the body has more than {self._body_limit} bytes")
