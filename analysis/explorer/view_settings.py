"""Settings of the page of recorded runs, and parsing of panels and axes."""

from collections.abc import Sequence
from typing import Any

import param

from analysis.explorer.screen import PANEL_SIZES
from analysis.explorer.timeline import COMPARE_BY
from dynamics.settings import SettingsError

NO_CHOICE = "none"
"""Value that means no second file, or no panels."""
_DEFAULT_PANELS = 8
"""Number of panels that are shown at first."""
_PANEL_PRIORITY = (
    "frequency_1",
    "frequency_2",
    "embedding",
    "pair_sums",
    "normalised_sums",
    "attention",
    "sequence_embeddings",
    "transform_map",
    "normalised_sequences",
    "output_map",
    "correct_logits",
    "loss",
    "accuracy",
    "restricted_loss",
    "imperfections",
    "circularity",
    "gradient_norm",
)
"""Panels in the order of their priority for the first view."""


class ViewSettings(param.Parameterized):
    """Settings of the view of recorded runs. The page chooses the values of empty
    texts."""

    file: Any = param.Selector(objects=[""], label="file", precedence=0)
    run = param.Integer(
        default=None, bounds=(0, None), allow_None=True, label="run index", precedence=1
    )
    step = param.Integer(
        default=None, bounds=(0, None), allow_None=True, label="step", precedence=2
    )
    panels = param.String(default="", label="panels, by name", precedence=3)
    axes = param.String(default="", label="two axes, such as 0,1", precedence=4)
    other_file: Any = param.Selector(
        objects=[NO_CHOICE],
        default=NO_CHOICE,
        label="file of the compared run",
        precedence=5,
    )
    other_run = param.Integer(
        default=None,
        bounds=(0, None),
        allow_None=True,
        label="compared run",
        precedence=6,
    )
    by: Any = param.Selector(
        objects=list(COMPARE_BY), default="clock", label="runs aligned by", precedence=7
    )
    size: Any = param.Selector(
        objects=list(PANEL_SIZES),
        default="medium",
        label="size of panels",
        precedence=8,
    )


def default_panel_names(*runs: Sequence[str], most: int = _DEFAULT_PANELS) -> list[str]:
    """Names of the panels that are shown when the page opens; those of the first run
    come first.

    runs: names of the panels of one run, or of two; if both have a panel with priority,
    it is shown."""
    shared = [name for name in _PANEL_PRIORITY if all(name in names for names in runs)]
    requested = set()
    for names in runs:
        ranked = dict.fromkeys(
            name for name in (*shared, *_PANEL_PRIORITY, *names) if name in names
        )
        requested.update(list(ranked)[:most])
    return list(
        dict.fromkeys(name for names in runs for name in names if name in requested)
    )


def split_panels(words: str) -> list[str]:
    """The names in a comma-separated list."""
    return [
        word.strip()
        for word in words.split(",")
        if word.strip() and words.strip() != NO_CHOICE
    ]


def parse_panels(words: str, names: Sequence[str]) -> list[str]:
    """The panels that a comma-separated list names, in the order of `names`. Raises
    SettingsError."""
    requested = split_panels(words)
    for word in requested:
        if word not in names:
            raise SettingsError("panels", word, "one or more of " + ", ".join(names))
    return [name for name in names if name in requested]


def parse_axes(words: str) -> tuple[int, int] | None:
    """Two axes from a text such as "0,1". Raises SettingsError."""
    if not words:
        return None
    parts = words.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise SettingsError(
            "axes", words, "two indices of axes, counted from 0, such as 0,1"
        )
    first, second = map(int, parts)
    return first, second
