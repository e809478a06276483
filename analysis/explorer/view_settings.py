"""Settings of the page of recorded runs, and parsing of panels and axes."""

from collections.abc import Sequence
from typing import Any

import param

from analysis.panels.scene import Scene
from dynamics.settings import SettingsError

NO_CHOICE = "none"
"""Value that means no second file, or no panels."""


class ViewSettings(param.Parameterized):
    """Settings of the view of recorded runs. The page chooses the values of empty
    texts."""

    file: Any = param.Selector(objects=[""], label="file", precedence=0)
    run: Any = param.Integer(None, bounds=(0, None), allow_None=True, precedence=1)
    step: Any = param.Integer(None, bounds=(0, None), allow_None=True, precedence=2)
    panels = param.String("", label="panels, by name", precedence=3)
    axes = param.String("", label="two axes, such as 0,1", precedence=4)
    other_file: Any = param.Selector(
        objects=[NO_CHOICE], default=NO_CHOICE, precedence=5
    )
    other_run: Any = param.Integer(
        None, bounds=(0, None), allow_None=True, precedence=6
    )


def default_panel_names(scenes: Sequence[Scene]) -> list[str]:
    """Names of the panels that the page shows at first, of one run or of two: the main
    panels of each, in the order of its panels."""
    main = {name for scene in scenes for name in scene.main_panels}
    every = dict.fromkeys(panel.name for scene in scenes for panel in scene.panels)
    return [name for name in every if name in main]


def split_panels(words: str) -> list[str]:
    """The names in a comma-separated list."""
    names = [word.strip() for word in words.split(",")]
    return [] if names == [NO_CHOICE] else [name for name in names if name]


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
    parts = [part.strip() for part in words.split(",")]
    if not words:
        return None
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        allowed = "two indices of axes, counted from 0, such as 0,1"
        raise SettingsError("axes", words, allowed)
    return int(parts[0]), int(parts[1])
