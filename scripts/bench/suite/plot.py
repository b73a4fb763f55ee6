"""The ratios of a run as a picture: SVG, written by hand, so that no plotting library is needed.

A row per line of the record, a mark at each ratio with its 95 % interval; left of 1 dynamlir is faster. The scale is
logarithmic, so that twice and half are equally far away.
"""

from __future__ import annotations

import math
from typing import Any
from xml.sax.saxutils import escape

COLOURS = {"dynamlir/eager": "#9a9a9a", "dynamlir/inductor": "#c2410c"}
LEFT, WIDTH, RIGHT, ROW, TOP = 330, 640, 30, 18, 64
LOW, HIGH = 0.25, 2.0
TICKS = (0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0)


def across(ratio: float) -> float:
    """Returns the horizontal position of a ratio; one off the scale is placed at its end."""
    part = math.log(min(max(ratio, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return round(LEFT + part * WIDTH, 1)


def rows(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the titles of parts, and their lines with comparisons."""
    found: list[tuple[str, dict[str, Any]]] = []
    for part, content in document["parts"].items():
        lines = [line for line in content["lines"] if line.get("ratios")]
        if lines:
            found.append((part, {}))
        for line in lines:
            case = ", ".join(f"{name} {value}" for name, value in line["case"].items())
            found.append((f"{line['name']} ({case})", line["ratios"]))
    return found


def svg(document: dict[str, Any]) -> str:
    """Returns the picture."""
    listed = rows(document)
    height = TOP + ROW * len(listed) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{LEFT + WIDTH + RIGHT}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(document["machine"]["processor"])}</text>',
    ]
    for number, (pair, colour) in enumerate(COLOURS.items()):
        at = LEFT + 150 * number
        parts.append(f'<circle cx="{at}" cy="34" r="4" fill="{colour}"/><text x="{at + 8}" y="38">{pair}</text>')
    for tick in TICKS:
        dash = "" if tick == 1 else ' stroke-dasharray="2 3"'
        parts.append(
            f'<line x1="{across(tick)}" x2="{across(tick)}" y1="{TOP - 8}" y2="{height - 20}" stroke="#bbb"{dash}/>'
            f'<text x="{across(tick)}" y="{height - 6}" text-anchor="middle">{tick:g}</text>'
        )
    for number, (label, ratios) in enumerate(listed):
        y = TOP + ROW * number + 4
        weight = "" if ratios else ' font-weight="bold"'
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end"{weight}>{escape(label)}</text>')
        for pair, seen in ratios.items():
            colour = COLOURS.get(pair, "#1d4ed8")
            parts.append(
                f'<line x1="{across(seen["low"])}" x2="{across(seen["high"])}" y1="{y}" y2="{y}" stroke="{colour}" '
                f'stroke-width="2"/><circle cx="{across(seen["value"])}" cy="{y}" r="4" fill="{colour}"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"
