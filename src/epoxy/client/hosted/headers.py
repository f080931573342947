"""Headers of requests and answers, as an actor's code sees and gives them."""

import re
from collections.abc import Iterable, Iterator, Mapping

from epoxy.model.errors import InvalidRequest
from epoxy.model.exchanges import MAX_HEADERS_BYTES, Headers

GivenHeaders = Mapping[str, str] | Iterable[tuple[str, str]]

NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class HeaderMap(Mapping[str, str]):
    """By name, in whatever case it is written. Of a name that comes more than once, the values with commas between
    them; `pairs` has them one by one."""

    def __init__(self, pairs: Headers) -> None:
        self.pairs = pairs
        self._joined: dict[str, str] = {}
        for name, value in pairs:
            known = self._joined.get(name.lower())
            self._joined[name.lower()] = value if known is None else f"{known}, {value}"

    def __getitem__(self, name: str) -> str:
        return self._joined[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._joined)

    def __len__(self) -> int:
        return len(self._joined)

    def __repr__(self) -> str:
        return f"HeaderMap({self._joined!r})"


def checked_headers(given: GivenHeaders | None) -> Headers:
    """Raises InvalidRequest: a line break in a value would begin a header of its own."""
    if given is None:
        return ()
    pairs = tuple(given.items()) if isinstance(given, Mapping) else tuple(given)
    for name, value in pairs:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InvalidRequest(f"not the name of a header: {name!r}")
        if not isinstance(value, str) or not VALUE.fullmatch(value):
            raise InvalidRequest(f"not the value of a header, {name}: {value!r}")
    size = sum(len(name) + len(value.encode(errors="replace")) for name, value in pairs)
    if size > MAX_HEADERS_BYTES:
        raise InvalidRequest(f"the headers have {size:,} bytes; the limit is {MAX_HEADERS_BYTES:,}")
    return pairs
