"""Which of the named panels of a figure are drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from analysis.panels.figure_panels import ALL, check_names


@dataclasses.dataclass
class PanelChoice:
    """The panels that are asked for, and those of the figures that are drawn."""

    names: tuple[str, ...] = ()
    """Names of the panels that are asked for; empty for the default panels."""
    drawn: tuple[str, ...] = ()
    """Names of the panels of the last figure."""
    left_out: tuple[str, ...] = ()
    """Names of the panels that it could also have."""

    def check(self) -> None:
        """Raise SettingsError if panels are asked for of a figure that has no names of
        panels."""
        if not self.drawn:
            check_names(self.names, ())

    def describe(self) -> str:
        """The drawn panels and those that are left out, in words."""
        rest = f"; with --panels also {', '.join(self.left_out)}"
        return ", ".join(self.drawn) + (rest if self.left_out else "")


_CHOICE: ContextVar[PanelChoice | None] = ContextVar("panels", default=None)


@contextmanager
def choose_panels(names: Sequence[str] = ()) -> Iterator[PanelChoice]:
    """Draw only the panels with these names in the figures of a `with` block; without
    names, draw the default panels of each figure."""
    choice = PanelChoice(tuple(names))
    token = _CHOICE.set(choice)
    try:
        yield choice
    finally:
        _CHOICE.reset(token)


def panels_to_draw(names: Sequence[str], default: Sequence[str]) -> set[str]:
    """The names of the panels that a figure draws.

    names: of all its panels, in their order. default: of the panels that it draws if
    none are asked for. Raises SettingsError if it has no panel of a name."""
    choice = _CHOICE.get() or PanelChoice()
    every = tuple(dict.fromkeys(names))
    check_names(choice.names, every)
    wanted = set(choice.names or default)
    if choice.names == (ALL,):
        wanted = set(every)
    choice.drawn = tuple(name for name in every if name in wanted)
    choice.left_out = tuple(name for name in every if name not in wanted)
    return wanted
