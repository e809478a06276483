"""What is to be seen of one run: panels made of layers, and the arrays that their layers show; nothing here draws.

A layer says what stays the same through a run (colours, shapes, names) and names the array that changes. `Scene.look`
gives the arrays of any frames, so that a figure, a film and a page in a browser show the same. All values are
dimensionless; colours are sRGB in 0..1; places are in the coordinates of their panel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

MARKER_SHAPES = ("circle", "square", "triangle", "diamond", "cross")


@dataclass(frozen=True, eq=False)
class Points:
    """Marks at array (frame, point, 2). NaN is a point that is not there."""

    array: str
    colours: np.ndarray  # (point, rgb)
    names: tuple[str, ...]  # what each is, in words, for a label or a hover
    shapes: tuple[str, ...] = ()  # of SHAPES, one a point; none is all circles
    filled: np.ndarray | None = None  # (point,) bool; None is all
    size: float = 1.0  # of a mark, relative to others
    labelled: bool = False  # whether the names stand beside the marks


@dataclass(frozen=True, eq=False)
class Arrows:
    """Arrows from array[..., :2] to array[..., 2:], (frame, arrow, 4)."""

    array: str
    colours: np.ndarray  # (arrow, rgb)
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Map:
    """What holds at every place of the panel: array (frame, row, column) of unsigned integers, the lowest row first.

    A pixel has the colour of that number in the palette, and pixels tile the panel's limits. Level lines are where
    neighbours have different numbers.
    """

    array: str
    palette: np.ndarray  # (number, rgb)
    names: tuple[str, ...]  # of each number, for a hover
    lines: bool = True  # whether the edges between numbers are drawn as lines


@dataclass(frozen=True, eq=False)
class Image:
    """A matrix: array (frame, row, column), the first row at the top, stretched over the panel."""

    array: str
    low: float
    high: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_colours: np.ndarray | None = None  # (row, rgb), a strip at the left edge

    @property
    def scale(self) -> str:
        """What the first and the last colour stand for, for a note where no bar of colours says it."""
        return f"{self.low:.2g} to {self.high:.2g}"


@dataclass(frozen=True, eq=False)
class Curves:
    """Quantities of the whole run, with a cursor at the frame looked at. NaN is a gap."""

    x: np.ndarray  # (frame,) in the clock's unit
    y: np.ndarray  # (curve, frame)
    colours: np.ndarray  # (curve, rgb)
    names: tuple[str, ...]


Layer = Points | Arrows | Map | Image | Curves


@dataclass(frozen=True, eq=False)
class Panel:
    """Layers drawn upon each other, in their order, within limits that hold for all frames."""

    name: str  # a word that can be typed, such as normalised_sequences
    title: str
    layers: tuple[Layer, ...]
    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str = ""
    y_label: str = ""
    equal: bool = True  # whether a unit across is as long as one up
    log: bool = False  # whether the y axis is logarithmic
    origin: bool = False  # whether lines through the origin are drawn
    note: str = ""  # such as which axes of how many are shown


class EventMark(NamedTuple):
    """An event of a run, in steps."""

    kind: str  # drop, rise, spike, plateau, escape
    begin: int
    middle: int
    end: int


LayerArrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Scene:
    """All panels of one run."""

    title: str  # which run, in words
    steps: np.ndarray  # (frame,) int64: the recorded steps up to the last valid one
    clock: np.ndarray  # (frame,) what the curves run along: epochs, or steps
    unit: str  # epoch or step
    panels: tuple[Panel, ...]
    look: Callable[
        [np.ndarray, Sequence[str]], LayerArrays
    ]  # frames (frame,) int and names of arrays -> each (frame, ...)
    marks: tuple[EventMark, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)  # what else is known of the run, in words

    def arrays(self, frames: np.ndarray, panels: Sequence[str] | None = None) -> LayerArrays:
        """What the layers of some panels, or of all, show at frames: name -> (frame, ...)."""
        names = [layer.array for panel in self.panels if panels is None or panel.name in panels
                 for layer in panel.layers if not isinstance(layer, Curves)]  # fmt: skip
        return self.look(np.asarray(frames), list(dict.fromkeys(names)))
