"""The addresses of one member: a datacenter of several nodes has a URL for each of them.

Configurations, messages and rows have one text for them, the URLs with commas between them, so that a member with one
address looks as it always did. A URL of a node has a scheme, a host and a port, and so no comma in it.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

MAX_NODE_URLS = 16
"""Of one member. A datacenter that needs more nodes than this for its clients needs a larger database first; peers
look for the gateway among them one after the other."""

MAX_URLS_BYTES = 2048
"""Of the URLs of one member together, with their commas: what a configuration has room for (`ReplicaInfo.url`)."""

DEFAULT_PORTS = {"http": 80, "https": 443}

HOST_NAME = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
GROUP = "[0-9a-fA-F]{1,4}"
IPV6 = "|".join(
    [
        f"({GROUP}:){{7}}{GROUP}",
        *(f"({GROUP}:){{1,{before}}}(:{GROUP}){{1,{7 - before}}}" for before in range(1, 7)),
        f"({GROUP}:){{1,7}}:",
        f":(:{GROUP}){{1,7}}",
        "::",
    ]
)
"""In full, or with `::` for some groups of zeros."""

NODE_URL = f"https?://({HOST_NAME}|\\[({IPV6})\\])(:{PORT})?"
"""The pattern of one URL."""


class BadUrls(ValueError):
    """What is wrong with the addresses of a member, of which each is one of a node."""


def split_urls(joined: str) -> tuple[str, ...]:
    """The URLs of a member. None, if it has no address."""
    return tuple(joined.split(",")) if joined else ()


def join_urls(urls: Iterable[str]) -> str:
    """BadUrls: none, too many, one of them twice, or too long together."""
    given = tuple(urls)
    if not 1 <= len(given) <= MAX_NODE_URLS:
        raise BadUrls(f"a member has 1 to {MAX_NODE_URLS} addresses, not {len(given)}")
    twice = first_twice(given)
    if twice is not None:
        raise BadUrls(f"{twice} is named twice")
    joined = ",".join(given)
    if len(joined) > MAX_URLS_BYTES:
        raise BadUrls(f"the addresses of a member have at most {MAX_URLS_BYTES} characters, not {len(joined)}")
    return joined


def first_twice(urls: Iterable[str]) -> str | None:
    """The first URL that was there before, perhaps in another spelling."""
    seen = set()
    for url in urls:
        if spelling(url) in seen:
            return url
        seen.add(spelling(url))
    return None


def same_url(one: str, other: str) -> bool:
    """Whether two URLs of nodes differ in spelling alone."""
    return spelling(one) == spelling(other)


def is_one_of(url: str, joined: str) -> bool:
    """Whether a URL is one of a member's."""
    return any(same_url(url, each) for each in split_urls(joined))


def spelling(url: str) -> tuple[str, str, int | None]:
    """Of a URL, as all its spellings have it."""
    parts = urlsplit(url)
    if not parts.hostname:
        return "", url, None
    scheme = parts.scheme.lower()
    return scheme, parts.hostname.rstrip("."), parts.port or DEFAULT_PORTS.get(scheme)
