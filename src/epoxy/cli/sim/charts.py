"""A line chart as SVG, by hand: for a report that is one command, a library would be most of it."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 64, 52
COLOURS = ("#2f7ed8", "#d9822b", "#3a9d5d", "#b04fc4", "#8a8a8a")
"""Apart from each other for most eyes, and strong enough on white and on black."""

STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:13px;fill:#444}.title{font-size:16px;font-weight:600;fill:#222}"
    ".grid{stroke:#888;stroke-opacity:.25}@media (prefers-color-scheme:dark){text{fill:#bbb}.title{fill:#eee}}"
)
STEPS = 5


def chart(title: str, x_label: str, ticks: Sequence[str], lines: Mapping[str, Sequence[float]]) -> str:
    """One value of each line for each tick, from 1 upwards."""
    top = max(max(values) for values in lines.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<style>{STYLE}</style>",
        words(LEFT, 24, title, "start", "title"),
        words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label),
    ]
    for step in range(STEPS + 1):
        value = 1 + (top - 1) * step / STEPS
        parts.append(f'<path class="grid" d="M{LEFT} {height(value, top):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(words(LEFT - 8, height(value, top) + 4, f"{value:.2f}", "end"))
    for index, tick in enumerate(ticks):
        parts.append(words(place(index, len(ticks)), HEIGHT - BOTTOM + 20, tick))
    across = float(LEFT)
    for colour, (name, values) in zip(COLOURS, lines.items(), strict=False):
        points = [(place(index, len(ticks)), height(value, top)) for index, value in enumerate(values)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'<path fill="none" stroke="{colour}" stroke-width="2.5" d="M{path}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
        parts.append(f'<rect x="{across:.0f}" y="38" width="14" height="4" fill="{colour}"/>')
        parts.append(words(across + 20, 45, name, "start"))
        across += 44 + 7.2 * len(name)
    return "\n".join([*parts, "</svg>\n"])


def place(index: int, count: int) -> float:
    return LEFT + (index + 0.5) * (WIDTH - LEFT - RIGHT) / count


def height(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (value - 1) / (top - 1 or 1) * (HEIGHT - TOP - BOTTOM)


def words(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'
