"""Description of what a figure, a film or a browser page shows of one run. This module
does not draw.

A scene consists of panels, and a panel of layers (points, arrows, maps, images,
curves). A layer holds the constant properties, such as colours and names, and the array
that changes: its name, and the function that computes it at any frames. Layers with the
same array show the same values. All values are dimensionless; colours are sRGB in 0..1;
positions are in the panel's coordinates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

ArrayFunction = Callable[[np.ndarray], np.ndarray]
"""Frames (frame,) -> array (frame, ...)."""


def no_values(frames: np.ndarray) -> np.ndarray:
    """The function of layers of a live run, which has arrays of the present only."""
    raise NotImplementedError("values: a layer needs the function of its array")


MARKER_SHAPES = ("circle", "square", "triangle", "diamond", "cross")


@dataclass(frozen=True, eq=False)
class Points:
    """Markers at array (frame, point, 2). A point at NaN is not drawn."""

    array: str
    colours: np.ndarray  # (point, rgb)
    names: tuple[str, ...]  # of each point: its label, or the text at the pointer
    shapes: tuple[str, ...] = ()  # of MARKER_SHAPES, one per point; empty: all circles
    filled: np.ndarray | None = None  # (point,) bool; None: all
    size: float = 1.0  # area of a marker relative to other layers
    labelled: bool = False  # whether names are drawn on the markers
    joined: bool = False  # whether a closed line runs through the points, in order
    values: ArrayFunction = no_values


@dataclass(frozen=True, eq=False)
class Arrows:
    """Arrows from array[..., :2] to array[..., 2:], (frame, arrow, 4)."""

    array: str
    colours: np.ndarray  # (arrow, rgb)
    names: tuple[str, ...]
    values: ArrayFunction = no_values


@dataclass(frozen=True, eq=False)
class Map:
    """Categories over the plane: array (frame, row, column) of unsigned integers, the
    lowest row first.

    Each integer is an index into the palette. The pixels tile the panel's limits.
    Contours run between neighbours with different integers."""

    array: str
    palette: np.ndarray  # (category, rgb)
    names: tuple[str, ...]  # of each category
    lines: bool = True  # whether contours are drawn
    values: ArrayFunction = no_values


@dataclass(frozen=True, eq=False)
class Image:
    """A matrix: array (frame, row, column), the first row at the top, stretched over
    the panel."""

    array: str
    low: float
    high: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_colours: np.ndarray | None = None  # (row, rgb), a strip at the left edge
    values: ArrayFunction = no_values
    borders: tuple[float, ...] = ()  # x of vertical lines between columns


@dataclass(frozen=True, eq=False)
class Curves:
    """Quantities of the whole run, with a cursor at the current frame. NaN is a gap."""

    x: np.ndarray  # (frame,) in the unit of the scene's clock
    y: np.ndarray  # (curve, frame)
    colours: np.ndarray  # (curve, rgb)
    names: tuple[str, ...]


ChangingLayer = Points | Arrows | Map | Image
Layer = ChangingLayer | Curves


class Span(NamedTuple):
    """A band behind curves, in the unit of the scene's clock."""

    begin: float
    end: float
    colour: str
    name: str


@dataclass(frozen=True, eq=False)
class Panel:
    """Layers drawn on top of each other, in their order, within limits that hold for
    all frames, or for each frame."""

    name: str  # as typed on a command line, such as normalised_sequences
    title: str
    layers: tuple[Layer, ...]
    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str = ""
    y_label: str = ""
    equal: bool = True  # whether both axes have the same scale
    log: bool = False  # whether the y axis is logarithmic
    unit: str = ""  # of the quantities of curves, if they have one
    origin: bool = False  # whether lines through the origin are drawn
    note: str = ""  # which axes are shown, and what colours and symbols mean
    explanation: str = ""  # what the panel shows, and what to look for
    spans: tuple[Span, ...] = ()  # behind curves
    views: np.ndarray | None = None
    """Limits of each frame (frame, axis, end), where they follow the points."""

    @property
    def heading(self) -> str:
        """The title with the unit, which says if the y axis is logarithmic."""
        words = ", ".join(filter(None, (self.unit, "log" if self.log else "")))
        return f"{self.title} ({words})" if words else self.title


class EventMark(NamedTuple):
    """An event of a run, in steps."""

    kind: str  # drop, rise, spike, plateau, escape, decision
    begin: int
    middle: int
    end: int


LayerArrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Scene:
    """All panels of one run."""

    title: str  # describes the run
    steps: np.ndarray  # (frame,) int64: the recorded steps up to the last valid one
    clock: np.ndarray  # (frame,) x values of curves: epochs, or steps
    unit: str  # of the clock: epoch or step
    panels: tuple[Panel, ...]
    main_panels: tuple[str, ...] = ()
    """Names of the panels that are shown if none are chosen."""
    detect_events: Callable[[], tuple[EventMark, ...]] = tuple
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further properties of the run, by name."""

    @functools.cached_property
    def marks(self) -> tuple[EventMark, ...]:
        """Events of the run, which are detected at the first use."""
        return self.detect_events()

    def clock_at(self, steps: np.ndarray) -> np.ndarray:
        """Times of steps in the unit of the clock, interpolated between frames."""
        return np.interp(steps, self.steps, self.clock)

    def event_counts(self) -> dict[str, str]:
        """Number of events of each kind except escapes and decisions, such as {"drops":
        "2"}."""
        single = ("escape", "decision")
        kinds = [mark.kind for mark in self.marks if mark.kind not in single]
        return {f"{kind}s": str(kinds.count(kind)) for kind in dict.fromkeys(kinds)}

    def arrays(
        self, frames: np.ndarray | Sequence[int], panels: Sequence[str] | None = None
    ) -> LayerArrays:
        """Arrays of the layers of some panels, or of all, at frames: name -> (frame,
        ...)."""
        frames = np.asarray(frames)
        layers = self.changing_layers(panels)
        return {layer.array: layer.values(frames) for layer in layers}

    def changing_layers(
        self, panels: Sequence[str] | None = None
    ) -> list[ChangingLayer]:
        """The layers of some panels, or of all, that change over time: the first of
        each array."""
        layers: dict[str, ChangingLayer] = {}
        for panel in self.panels:
            if panels is None or panel.name in panels:
                for layer in panel.layers:
                    if not isinstance(layer, Curves):
                        layers.setdefault(layer.array, layer)
        return list(layers.values())
