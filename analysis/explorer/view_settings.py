"""What is looked at on the page of recorded runs: its settings, and how panels and axes are named in words."""

from collections.abc import Sequence
from typing import Any

import param

from analysis.explorer.screen import SIZES
from analysis.explorer.timeline import BY
from dynamics.settings import SettingsError

NONE = "none"
"""No file to compare with, or no panels."""
SHOWN = 8
"""Panels that are shown at first, of those that a run has."""
FIRST = (
    "embedding", "pair_sums", "normalised_sums", "attention", "sequence_embeddings", "transform_map",
    "normalised_sequences", "output_map", "loss", "accuracy", "imperfections", "circularity", "gradient_norm",
)  # fmt: skip
"""Panels by how much they say, for a first look."""


class RunsSettings(param.Parameterized):
    """What is looked at. Words that are empty mean what the page chooses."""

    file: Any = param.Selector(objects=[""], label="file", precedence=0)
    run = param.Integer(default=None, bounds=(0, None), allow_None=True, label="place along run", precedence=1)
    step = param.Integer(default=None, bounds=(0, None), allow_None=True, label="step", precedence=2)
    panels = param.String(default="", label="panels, by name", precedence=3)
    axes = param.String(default="", label="two axes, such as 0,1", precedence=4)
    other_file: Any = param.Selector(objects=[NONE], default=NONE, label="compared with a run of", precedence=5)
    other_run = param.Integer(default=None, bounds=(0, None), allow_None=True, label="compared run", precedence=6)
    by: Any = param.Selector(objects=list(BY), default="clock", label="compared at the same", precedence=7)
    size: Any = param.Selector(objects=list(SIZES), default="medium", label="size of panels", precedence=8)


def first_panels(names: Sequence[str], most: int = SHOWN) -> list[str]:
    """The panels for a first look, in the order that the run has them."""
    wanted = [name for name in FIRST if name in names]
    wanted += [name for name in names if name not in wanted]
    return [name for name in names if name in wanted[:most]]


def chosen_panels(words: str, names: Sequence[str]) -> list[str]:
    """Those of some panels that words name, with commas between them, in their order. Raises SettingsError."""
    wanted = [word.strip() for word in words.split(",") if word.strip() and words.strip() != NONE]
    for word in wanted:
        if word not in names:
            raise SettingsError("panels", word, "some of " + ", ".join(names))
    return [name for name in names if name in wanted]


def axes_of(words: str) -> tuple[int, int] | None:
    """Two axes from words such as "0,1". Raises SettingsError."""
    if not words:
        return None
    parts = words.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise SettingsError("axes", words, "two numbers of axes from 0, such as 0,1")
    first, second = map(int, parts)
    return first, second
