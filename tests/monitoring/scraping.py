"""Scrapes of real nodes, as the series that a Prometheus would have of them after minutes or hours.

A phase is two scrapes of every node, with something done in between. Over its minutes a gauge stays at what the second
one said, and a counter goes on rising by what it rose between the two. So an alert that waits for an hour is tried in
seconds, on nothing but what nodes said.
"""

import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from urllib.error import URLError
from urllib.request import urlopen

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

JOB = "epoxy"
SCRAPE_S = 10.0
"""The default of Prometheus."""

CLOCK = "epoxy_clock_seconds"
"""It is compared with the time of the scrape, and a phase has times of its own."""

MINUTES = 75
"""Longer than any alert waits."""

RISING = ("counter", "histogram")

Key = tuple[str, tuple[tuple[str, str], ...]]


class Scrape(Struct, frozen=True):
    at_s: float
    samples: Mapping[Key, float]
    rising: Collection[str]
    """Names of samples that only rise."""


class Phase(Struct, frozen=True):
    """By instance; None: it did not answer."""

    minutes: int
    first: Mapping[str, Scrape | None]
    second: Mapping[str, Scrape | None]


def scrape(url: str, context: ssl.SSLContext | None = None) -> Scrape | None:
    """Its time is that of its duration which is nearest to the node's clock: that a scrape was slow says nothing about
    a clock."""
    begun_s = time.time()
    try:
        with urlopen(f"{url}/metrics", timeout=SCRAPE_S, context=context) as answer:
            text = answer.read().decode()
    except (URLError, OSError):
        return None
    samples: dict[Key, float] = {}
    rising = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
            if family.type in RISING:
                rising.add(sample.name)
    return Scrape(min(max(begun_s, samples.get((CLOCK, ()), begun_s)), time.time()), samples, rising)


def phase(
    urls: Mapping[str, str],
    between: Callable[[], object] = lambda: None,
    *,
    minutes: int = MINUTES,
    context: ssl.SSLContext | None = None,
) -> Phase:
    """`urls` by instance."""
    first = {instance: scrape(url, context) for instance, url in urls.items()}
    between()
    return Phase(minutes, first, {instance: scrape(url, context) for instance, url in urls.items()})


def series(phases: Sequence[Phase], names: Collection[str]) -> dict[str, str]:
    """As `promtool test rules` takes them, one value a minute."""
    instances = {instance for each in phases for instance in each.second}
    made = {}
    for instance in sorted(instances):
        made[written("up", (), instance)] = " ".join([up(each, instance) for each in phases])
        keys = {key for each in phases for key in samples_of(each.second.get(instance)) if key[0] in names}
        for key in sorted(keys):
            began, parts = 0, []
            for each in phases:
                parts.append(part(each, instance, key, began))
                began += each.minutes
            made[written(*key, instance)] = " ".join(parts)
    return made


def up(each: Phase, instance: str) -> str:
    """Without values while Prometheus does not know of it."""
    if instance not in each.second:
        return f"_x{each.minutes}"
    return values_of(float(each.second[instance] is not None), 0.0, each.minutes)


def part(each: Phase, instance: str, key: Key, began: int) -> str:
    first, second = each.first.get(instance), each.second.get(instance)
    if second is None or key not in second.samples:
        return f"_x{each.minutes}"
    value = second.samples[key]
    if key[0] == CLOCK:
        return values_of(value - second.at_s + 60.0 * began, 60.0, each.minutes)
    before = samples_of(first).get(key, value)
    return values_of(value, value - before if key[0] in second.rising and value > before else 0.0, each.minutes)


def values_of(start: float, step: float, minutes: int) -> str:
    return f"{start:.6f}+{step:.6f}x{minutes - 1}"


def written(name: str, labels: Sequence[tuple[str, str]], instance: str) -> str:
    pairs = [*labels, ("instance", instance), ("job", JOB)]
    return f"{name}{{{','.join(f'{label}={quoted(value)}' for label, value in pairs)}}}"


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def samples_of(found: Scrape | None) -> Mapping[Key, float]:
    return found.samples if found is not None else {}


def seen_in(phases: Sequence[Phase]) -> dict[str, list[dict[str, str]]]:
    """Labels of all samples, by metric, with those that Prometheus adds."""
    seen: dict[str, list[dict[str, str]]] = {"up": [{"job": JOB, "instance": ""}]}
    for each in phases:
        for instance, found in each.second.items():
            for name, labels in samples_of(found):
                seen.setdefault(name, []).append(dict(labels) | {"job": JOB, "instance": instance})
    return seen


def until(condition: Callable[[], bool], words: str, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        with suppress(KeyError):
            if condition():
                return
        assert time.monotonic() < deadline, f"never {words}"
        time.sleep(0.05)


def value(url: str, name: str, context: ssl.SSLContext | None = None) -> float:
    """The sum over all labels. KeyError: there is none."""
    found = scrape(url, context)
    values = [sample for (each, _), sample in samples_of(found).items() if each == name]
    if not values:
        raise KeyError(name)
    return sum(values)
