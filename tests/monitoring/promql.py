"""The metrics and labels that an expression of PromQL names, and which of them no scrape has."""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<range>\[[^\]]*\])"""
    r"""|(?P<word>[A-Za-z_:][\w:]*)|(?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^=<>(){},@])|(?P<number>\d[\w.]*)|(?P<bad>\S))"""
)
GROUPING = frozenset(("by", "without", "on", "ignoring", "group_left", "group_right"))
BETWEEN = frozenset(("and", "or", "unless", "bool", "offset"))

Labels = Mapping[str, str]
Seen = Mapping[str, Iterable[Labels]]
"""The labels of all samples, by the name of their metric."""


class Matcher(Struct, frozen=True):
    label: str
    sign: str
    value: str

    def is_seen(self, samples: Iterable[Labels]) -> bool:
        """Whether each value that it asks for is one of a sample. A variable of a dashboard may be any."""
        found = {labels[self.label] for labels in samples if self.label in labels}
        if not found or "$" in self.value or self.sign in ("!=", "!~"):
            return bool(found)
        wanted = self.value.split("|") if self.sign == "=~" else [re.escape(self.value)]
        return all(any(re.fullmatch(each, value) for value in found) for each in wanted)


class Selector(Struct, frozen=True):
    metric: str
    matchers: tuple[Matcher, ...] = ()


class Named(Struct, frozen=True):
    """`labels`: those that an expression groups or joins by."""

    selectors: tuple[Selector, ...]
    labels: frozenset[str]


def tokens(expression: str) -> Iterator[tuple[str, str]]:
    for found in TOKEN.finditer(expression):
        kind = found.lastgroup
        if kind is None or kind == "bad":
            raise ValueError(f"not understood: {found[0]!r} in {expression!r}")
        yield kind, found[kind]
    yield "end", ""


def named(expression: str) -> Named:
    """Words that are neither functions nor keywords are metrics."""
    read = list(tokens(expression.strip()))
    selectors: list[Selector] = []
    labels: set[str] = set()
    at = 0
    while at < len(read):
        kind, word = read[at]
        at += 1
        if kind != "word" or word in BETWEEN:
            continue
        following = read[at][1]
        if word in GROUPING:
            end = read.index(("sign", ")"), at)
            labels.update(text for what, text in read[at:end] if what == "word")
            at = end
        elif following == "{":
            end = read.index(("sign", "}"), at)
            selectors.append(Selector(word, tuple(matchers(read[at + 1 : end]))))
            at = end
        elif following != "(" and following not in GROUPING:
            selectors.append(Selector(word))
    return Named(tuple(selectors), frozenset(labels))


def matchers(read: list[tuple[str, str]]) -> Iterator[Matcher]:
    for at in range(0, len(read), 4):  # label, sign, value, comma
        (_, label), (_, sign), (_, value) = read[at : at + 3]
        yield Matcher(label, sign, value[1:-1])


def unseen(expression: str, seen: Seen) -> list[str]:
    """What an expression names and no sample has."""
    found, wrong = named(expression), []
    for selector in found.selectors:
        samples = list(seen.get(selector.metric, ()))
        if not samples:
            wrong.append(selector.metric)
            continue
        wrong += [
            f"{selector.metric}{{{m.label}{m.sign}{m.value}}}" for m in selector.matchers if not m.is_seen(samples)
        ]
    known = {label for selector in found.selectors for labels in seen.get(selector.metric, ()) for label in labels}
    return wrong + sorted(found.labels - known)
