"""Draw the small pictures of the main results as SVG: docs/cards, which write_results.py
writes. Their text has the colour of the page's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex

from analysis.panels.colours import class_colours
from analysis.reproduction.claim import Verdict
from analysis.reproduction.report.headlines import (
    AGAINST,
    HEADLINES,
    LINK,
    SUPPORTED,
    Findings,
    HeadlineNumber,
    accuracy_by_decayed_part,
    number_interval,
)
from analysis.statistics.intervals import Interval
from analysis.structures.circles_and_grids import (
    count_imperfections,
    is_circle,
    structure_name,
)
from docs.picture_data import read_drawing

DATA = Path(__file__).parent / "picture-data"
WIDTH = 150
PANEL = 72
"""Side of an embedding in pixels."""
BLUE, GREY, ORANGE = "#2f7fc4", "#8b95a0", "#d9771e"
CELL = 13
"""Side of a square that stands for a statement, with its margin."""


def svg(
    width: int, height: int, shows: str, body: Sequence[str], rest: str = ""
) -> str:
    """A drawing. shows: its text for those who do not see it."""
    begin = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" font-family="sans-serif" font-size="12"'
        f' fill="currentColor" role="img" aria-label="{shows}"{rest}>'
    )
    return "\n".join([begin, *body, "</svg>", ""])


def draw_tokens(points: np.ndarray, left: float, top: float, side: float) -> list[str]:
    """Tokens (token, 2) in a square, joined in their order."""
    reach = 1.12 * float(np.abs(points).max())
    places = np.round(side / 2 * (1 + points * [1, -1] / reach) + [left, top], 1)
    line = " ".join(f"{x:g},{y:g}" for x, y in [*places, places[0]])
    marks = [
        f'<polygon points="{line}" fill="none" stroke="{GREY}" stroke-width=".5"/>'
    ]
    for (x, y), rgb in zip(places, class_colours(len(points)), strict=True):
        size = side / 24
        marks.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{size:g}" fill="{to_hex(rgb)}"/>'
        )
    return marks


def most_regular_grid(embeddings: np.ndarray) -> np.ndarray:
    """The embedding with the fewest imperfections, of those (run, token, 2) that are not
    circles and not nearly flat."""
    spread = np.linalg.svd(embeddings, compute_uv=False)
    able = ~is_circle(embeddings) & (spread[:, 1] > 0.25 * spread[:, 0])
    counts = np.where(able, count_imperfections(embeddings), np.inf)
    return embeddings[int(counts.argmin())]


def circle_and_grid(embeddings: np.ndarray, what: str) -> str:
    """The first circle and the most regular grid of some embeddings, side by side."""
    first = embeddings[int(np.argmax(is_circle(embeddings)))]
    body = []
    for place, (x, name) in enumerate(
        ((first, "a circle"), (most_regular_grid(embeddings), "a grid"))
    ):
        left = place * (WIDTH - PANEL)
        body += draw_tokens(x, left, 0, PANEL)
        middle = left + PANEL / 2
        body.append(f'<text x="{middle:g}" y="87" text-anchor="middle">{name}</text>')
    return svg(WIDTH, 92, f"{what}: a circle and a grid of 17 numbers", body)


def bars(rows: Mapping[str, Interval], title: str, shows: str) -> str:
    """Percentages as bars from 0 to 100 with their intervals; the first is blue."""
    body = [f'<text x="0" y="11" font-size="11" font-style="italic">{title}</text>']
    for place, (label, number) in enumerate(rows.items()):
        top = 32 * place + 19
        value, low, high = (round(WIDTH / 100 * item, 1) for item in number)
        colour = GREY if place else BLUE
        body += [
            f'<text x="0" y="{top + 11}">{label}</text>',
            f'<text x="{WIDTH}" y="{top + 11}" text-anchor="end" font-weight="bold">'
            f"{number.value:.0f}%</text>",
            f'<rect y="{top + 16}" width="{WIDTH}" height="9" opacity=".15"/>',
            f'<rect y="{top + 16}" width="{value:g}" height="9" fill="{colour}"/>',
            f'<path d="M{low:g} {top + 20.5}H{high:g}" stroke="currentColor"/>',
        ]
    return svg(WIDTH, 32 * len(rows) + 13, shows, body)


def verdict_squares(findings: Findings) -> str:
    """A square for each statement of a paper, by its verdict."""
    groups = {
        "agree or hold": (findings.of_papers(SUPPORTED), BLUE),
        "open": (findings.of_papers((Verdict.OPEN,)), GREY),
        "do not hold": (findings.of_papers(AGAINST), ORANGE),
    }
    columns = WIDTH // CELL
    colours = [colour for count, colour in groups.values() for _ in range(count)]
    body = [
        f'<rect x="{k % columns * CELL}" y="{k // columns * CELL}" width="{CELL - 2}"'
        f' height="{CELL - 2}" fill="{colour}"/>'
        for k, colour in enumerate(colours)
    ]
    top = -(-len(colours) // columns) * CELL + 11
    for place, (name, (count, colour)) in enumerate(groups.items()):
        y = top + 16 * place
        body.append(f'<rect y="{y - 10}" width="11" height="11" fill="{colour}"/>')
        body.append(f'<text x="16" y="{y}">{count} {name}</text>')
    words = ", ".join(f"{count} {name}" for name, (count, _) in groups.items())
    return svg(WIDTH, top + 36, f"Statements of the papers: {words}", body)


def four_networks(embeddings: np.ndarray) -> str:
    """The embeddings of the first four networks in a row, on a white background, for
    pages such as README whose colours are not known."""
    side, gap = 200, 10
    body = ['<rect width="830" height="232" fill="#ffffff"/>']
    for place, x in enumerate(embeddings[:4]):
        left = place * (side + gap)
        name = structure_name(x)
        body += draw_tokens(x, left, 28, side)
        body.append(
            f'<text x="{left + side / 2:g}" y="20" text-anchor="middle" font-size="15">'
            f"seed {place}: {name}</text>"
        )
    return svg(830, 232, "Embeddings of four networks", body, ' color="#222832"')


def draw_cards(findings: Findings) -> dict[str, str]:
    """All drawings by their names."""
    modular, *_ = read_drawing(DATA / "modular.zip").arguments
    networks = modular["embedding"].isel(step=-1).values.astype(np.float64)
    particles, *_ = read_drawing(DATA / "particles.zip").arguments
    numbers = {item.card: item.numbers for item in HEADLINES}
    forces, drops = (
        {
            name: number_interval(number, findings)
            for name, number in numbers[card].items()
        }
        for card in ("forces", "drops")
    )
    parts = {
        "classifier": "classifier alone",
        "nothing": "no decay",
        "all": "all parts",
    }
    accuracy = {
        name: number_interval(
            HeadlineNumber(LINK, estimate=accuracy_by_decayed_part(part)), findings
        )
        for part, name in parts.items()
    }
    return {
        "networks": circle_and_grid(networks, "Embeddings of networks"),
        "particles": circle_and_grid(particles, "Particles"),
        "forces": bars(
            {"the forces": forces["here"], "numbers renamed": forces["renamed"]},
            "gradient explained (R²)",
            "Parts of the gradient that the forces explain",
        ),
        "decay": bars(
            accuracy,
            "other sums correct",
            "Correct sums, by the part with weight decay",
        ),
        "drops": bars(
            {"second drop": drops["here"], "first drop": drops["first"]},
            "drop due to the MLP",
            "Parts of the two drops of the loss that are due to the MLP",
        ),
        "verdicts": verdict_squares(findings),
        "four-networks": four_networks(networks),
    }
