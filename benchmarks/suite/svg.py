"""Line and bar charts as SVG, by hand: axes, ticks, labels, a legend; readable on light and on dark pages."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from msgspec import Struct

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 78, 20, 64, 56
COLOURS = ("#2f7ed8", "#d9822b", "#3a9d5d", "#b04fc4", "#8a8a8a")
"""Apart from each other for most eyes, and strong enough on white and on black."""

STYLE = (
    "text{font-family:system-ui,-apple-system,Segoe UI,sans-serif;font-size:13px;fill:#444}"
    ".title{font-size:16px;font-weight:600;fill:#222}.group{font-weight:600}.grid{stroke:#888;stroke-opacity:.25}.axis{stroke:#888}"
    "@media (prefers-color-scheme:dark){text{fill:#bbb}.title{fill:#eee}}"
)

Points = Sequence[tuple[float, float]]


class Axis(Struct, frozen=True, kw_only=True):
    """A logarithmic one has no zero: its values are above it."""

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool

    def place(self, value: float) -> float:
        """From 0 at the low end to 1 at the high one."""
        scale: Callable[[float], float] = math.log10 if self.log else float
        span = scale(self.high) - scale(self.low)
        return (scale(value) - scale(self.low)) / span if span else 0.5


def logarithmic(label: str, values: Sequence[float]) -> Axis:
    """From the power of ten at or below the least to the one at or above the most."""
    if min(values) <= 0:
        raise ValueError("a logarithm wants values above 0")
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    last = max(last, first + 1)
    ticks = tuple(10.0**power for power in range(first, last + 1))
    return Axis(label=label, low=ticks[0], high=ticks[-1], ticks=ticks, log=True)


def linear(label: str, values: Sequence[float]) -> Axis:
    """From 0, in round steps."""
    most = max(values) or 1.0
    power = 10.0 ** math.floor(math.log10(most))
    step = next(power * part for part in (0.2, 0.5, 1.0, 2.0, 5.0) if most / (power * part) <= 6)
    count = math.ceil(most / step)
    ticks = tuple(step * number for number in range(count + 1))
    return Axis(label=label, low=0.0, high=ticks[-1], ticks=ticks, log=False)


def places(label: str, values: Sequence[float], *, log: bool) -> Axis:
    """With a tick at every value that was measured, and at no other."""
    return Axis(label=label, low=min(values), high=max(values), ticks=tuple(sorted(set(values))), log=log)


def number(value: float) -> str:
    """Short: in thousands, or in KiB where it is a whole number of them."""
    if value >= 1024 and value % 1024 == 0:
        return f"{value / 1024:.4g}Ki"
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


BAR, BAR_GAP, GROUP_GAP = 16, 4, 30
"""Heights of a bar, of the gap after it, and of the heading of a group."""

BARS_LEFT, BARS_RIGHT = 250, 70


def bar_chart(title: str, label: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Horizontal bars under the heading of their group, each with its number; one name has one colour."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    most = max((value for bars in groups.values() for value in bars.values()), default=0.0) or 1.0
    parts, top = [], 46.0
    for group, bars in groups.items():
        parts.append(text(16, top + GROUP_GAP - 12, group, "group"))
        top += GROUP_GAP
        for name, value in bars.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            width = value / most * (WIDTH - BARS_LEFT - BARS_RIGHT)
            parts.append(text(BARS_LEFT - 8, top + 12, name, anchor="end"))
            parts.append(
                f'<rect x="{BARS_LEFT}" y="{top:.0f}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
            )
            parts.append(text(BARS_LEFT + width + 6, top + 12, number(value)))
            top += BAR + BAR_GAP
    height = round(top + 16)
    return "\n".join([*opening(title, height), text(WIDTH - 20, 44, label, anchor="end"), *parts, "</svg>\n"])


def opening(title: str, height: int, left: int = 16) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        text(left, 24, title, "title"),
    ]


def chart(title: str, x: Axis, y: Axis, lines: Mapping[str, Points]) -> str:
    parts = [*opening(title, HEIGHT, LEFT), *grid(x, y), *legend(list(lines))]
    for colour, points in zip(COLOURS, lines.values(), strict=False):
        parts += line(colour, [(across(x.place(a)), up(y.place(b))) for a, b in points])
    return "\n".join([*parts, "</svg>\n"])


def across(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def up(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def grid(x: Axis, y: Axis) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{right}"/>']
    for value in y.ticks:
        height = up(y.place(value))
        parts.append(f'<path class="grid" d="M{LEFT} {height:.1f}H{right}"/>')
        parts.append(text(LEFT - 8, height + 4, number(value), anchor="end"))
    for value in x.ticks:
        place = across(x.place(value))
        parts.append(f'<path class="grid" d="M{place:.1f} {TOP}V{bottom}"/>')
        parts.append(text(place, bottom + 18, number(value), anchor="middle"))
    parts.append(text((LEFT + right) / 2, HEIGHT - 12, x.label, anchor="middle"))
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text x="18" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 18 {middle:.1f})">'
        f"{escape(y.label)}</text>"
    )
    return parts


def legend(names: Sequence[str]) -> list[str]:
    parts, place = [], float(LEFT)
    for colour, name in zip(COLOURS, names, strict=False):
        parts.append(f'<rect x="{place:.0f}" y="38" width="14" height="4" rx="2" fill="{colour}"/>')
        parts.append(text(place + 20, 45, name))
        place += 44 + 7.2 * len(name)
    return parts


def line(colour: str, points: Points) -> list[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [f'<path fill="none" stroke="{colour}" stroke-width="2.5" d="M{path}"/>']
    return parts + [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(words)}</text>'
