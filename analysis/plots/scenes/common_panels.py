"""What any trajectory has to show: the embedding, its structure, metrics and norms over time. All dimensionless."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import ndimage

from analysis.plots.drawing import colours
from analysis.plots.scenes.scene import Curves, Layer, LayerArrays, Panel, Points
from analysis.structures.circles_and_grids import CIRCLE_RATIO, circularity, count_imperfections
from analysis.structures.embedding_motion import time_unit
from analysis.structures.projection import PanelLimits, Projection, fit_projection, panel_limits
from dynamics.errors import TrajectoryError
from dynamics.settings import SettingsError
from dynamics.trajectory.schema import DIVERGED, read_settings

MAX_LABELLED_POINTS = 40
"""Points of a panel that are labelled; more would cover each other."""

MAX_FRAMES = 4000
"""Frames from which limits are taken: of a longer run so many, evenly."""

_MAX_COUNTED_PAIRS = 60_000_000
"""Pairs of pair sums, over all frames, that imperfections are counted among; else of fewer frames."""

_MAX_CIRCULARITY = 1e6
"""Circularity that is shown of tokens of which one is at the origin."""

_SMOOTHED_POINTS = 150
"""Points that a curve of many keeps apart when it is smoothed."""

PanelFactory = Callable[[], Panel]


class RunPanels(NamedTuple):
    """The panels of a run: by name, in their order, what makes each; and the arrays that their layers show."""

    panels: Mapping[str, PanelFactory]
    look: Callable[[np.ndarray, Sequence[str]], LayerArrays]


class RecordedRun:
    """One run of a trajectory: its valid frames, and what to count time in."""

    def __init__(self, trajectory: xr.Dataset, run: int, axes: tuple[int, int] | None = None, side: int = 96) -> None:
        """run: a place along `run`; axes, side: as `analysis.plots.panels.build_scene` has them. Raises SettingsError,
        TrajectoryError."""
        runs = trajectory.sizes["run"]
        if isinstance(run, bool) or not isinstance(run, int | np.integer) or not 0 <= run < runs:
            raise SettingsError("run", run, f"a place from 0 to {runs - 1}")
        self.place, self.axes, self.side = int(run), axes, side
        steps = trajectory["step"].values
        self.last_step = int(trajectory["last_step"].values[run])
        count = int(np.searchsorted(steps, self.last_step, side="right"))
        if count == 0:
            raise TrajectoryError(f"run {run}: diverged at step {self.last_step}, before the first frame")
        self.steps = steps[:count].astype(np.int64)
        self.data = trajectory.isel(run=[run], step=slice(0, count))
        self.settings: Any = read_settings(trajectory)  # of whichever system
        self.seed = int(trajectory["seed"].values[run])
        self.diverged = bool(trajectory["status"].values[run] == DIVERGED)
        self.unit, self.epoch_steps = time_unit(trajectory)
        self.clock = self.steps / self.epoch_steps

    @functools.cached_property
    def embedding(self) -> np.ndarray:
        """(frame, token, axis), as recorded. Raises TrajectoryError."""
        if "embedding" not in self.data:
            raise TrajectoryError("variable embedding: missing; a run with record=metrics keeps no weights")
        return self.data["embedding"].transpose("run", "step", "token", "axis").values[0]

    @property
    def numbers(self) -> bool:
        """Whether tokens are numbers modulo their number, so that they may form circles and grids."""
        if "embedding" not in self.data or "position" in self.data.dims:
            return False
        return self.data.sizes["token"] > 1 and int(self.data.attrs["modulus"]) == self.data.sizes["token"]

    def curve(self, name: str, dim: str) -> tuple[np.ndarray, list[str]]:
        """A metric (of dim, frame), and the names along dim."""
        values = self.data[name].transpose("run", dim, "step").values[0].astype(np.float64)
        return np.where(np.isfinite(values), values, np.nan), [str(each) for each in self.data[dim].values]

    @property
    def looked_at(self) -> np.ndarray:
        """Frames from which limits are taken, the first and the last among them."""
        return evenly_spaced_indices(len(self.steps), MAX_FRAMES)

    @property
    def some(self) -> str:
        """Of how many frames limits and scales are, where these are not all."""
        looked_at, count = len(self.looked_at), len(self.steps)
        return "" if looked_at == count else f"limits of {looked_at} of {count} frames"

    def box(self, places: np.ndarray, square: bool = True) -> PanelLimits:
        """The limits of points at the frames that are looked at, (frame, point, 2); see `box_of`."""
        return panel_limits(places, self.diverged, square)._replace(of=self.some)

    @property
    def span(self) -> tuple[float, float]:
        """The limits of the clock, with room for the cursor."""
        first, last = float(self.clock[0]), float(self.clock[-1])
        room = 0.015 * (last - first) if last > first else 0.5
        return first - room, last + room


def evenly_spaced_indices(count: int, most: int) -> np.ndarray:
    """At most so many (from 2) of `count` frames, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def join_notes(*notes: str) -> str:
    """Notes of a panel, those that are not empty."""
    return "; ".join(filter(None, notes))


# ------------------------------------------------------------------------------------------- panels of points


def plane_panel(
    name: str, title: str, layers: Sequence[Layer], box: PanelLimits, plane: Projection | None = None, note: str = "",
        **more
) -> Panel:  # fmt: skip
    """A panel of places in the plane, within a box."""
    line = plane is not None and plane.heights is not None
    notes = join_notes(plane.note if plane else "", note, box.note)
    y = (-1.0, 1.0) if line else box.y
    options = {"equal": not line, "origin": True, **more}
    return Panel(name, title, tuple(layers), box.x, y, note=notes, **options)


def _embedding_panels(recorded: RecordedRun) -> RunPanels:
    """The tokens, numbered and coloured along the number line."""
    x = recorded.embedding
    tokens = x.shape[1]

    @functools.cache
    def plane() -> Projection:
        return fit_projection(x[-1], recorded.axes)

    def look(frames: np.ndarray, names: Sequence[str]) -> LayerArrays:
        return {"embedding": plane().places(x[frames])} if "embedding" in names else {}

    def panel() -> Panel:
        box = recorded.box(plane().places(x[recorded.looked_at]))
        return plane_panel("embedding", "embedding", [token_points("embedding", tokens)], box, plane())

    return RunPanels({"embedding": panel}, look)


def token_points(array: str, tokens: int) -> Points:
    """Marks of numbered tokens."""
    names = tuple(map(str, range(tokens)))
    size = 1.4 if tokens <= MAX_LABELLED_POINTS else 0.6
    return Points(array, colours.sequential_colours(tokens), names, size=size, labelled=tokens <= MAX_LABELLED_POINTS)


# ------------------------------------------------------------------------------------------ panels of curves


def curve_panel(
    recorded: RecordedRun, name: str, title: str, values: np.ndarray, names: Sequence[str], rgb: np.ndarray, log: bool,
    y: tuple[float, float] | None = None, note: str = "",
) -> Panel:  # fmt: skip
    """Quantities (curve, frame) against the clock; on a logarithmic axis zeros stand at the lower edge."""
    values = np.asarray(values, np.float64)
    limits, said = y or curve_limits(values, log, recorded.diverged), ""
    if log:
        zero = values <= 0
        said = "0 at the lower edge" if zero.any() else ""
        values = np.where(zero, limits[0], values)
    known = values[np.isfinite(values)]
    ways = {"above": (known > limits[1]).any(), "below": (known < limits[0]).any()}
    goes = " and ".join(way for way, gone in ways.items() if gone)
    none = "" if known.size else "no values"
    said = join_notes(note, none, said, f"goes {goes}" if goes else "")
    layer = Curves(recorded.clock, values, rgb, tuple(names))
    return Panel(name, title, (layer,), recorded.span, limits, recorded.unit, "", False, log, note=said)


def curve_limits(values: np.ndarray, log: bool, diverged: bool) -> tuple[float, float]:
    """Limits that hold curves (curve, frame); of one that diverged some orders about its middle or begin."""
    known = values[np.isfinite(values) & ((values > 0) | (not log))]
    if not known.size:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = float(known.min()), float(known.max())
    if diverged:
        begun = float(np.nanmax(np.abs(values[:, 0]), initial=0.0))
        middle = min(float(np.median(np.abs(known))), 10 * begun or np.inf) or high
        high = min(high, 1e3 * middle)
        low = min(max(low, 1e-6 * middle), high) if log else min(low, high)
    if log:
        room = max((high / low) ** 0.05, 1.05)
        return low / room, high * room
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def metric_panels(recorded: RecordedRun) -> dict[str, PanelFactory]:
    """Loss, accuracy and the norms of gradients and updates, as far as they were recorded."""
    makers: dict[str, PanelFactory] = {}
    if "loss" in recorded.data:
        makers["loss"] = lambda: _split_panel(recorded, "loss", log=True)
    if "accuracy" in recorded.data:
        makers["accuracy"] = lambda: _split_panel(recorded, "accuracy", log=False, y=(-0.03, 1.03))
    makers["gradient_norm"] = lambda: _norm_panel(recorded, "gradient_norm", _gradient_title(recorded))
    makers["update_norm"] = lambda: _norm_panel(recorded, "update_norm", "norm of the update")
    return makers


def _split_panel(recorded: RecordedRun, name: str, log: bool, y: tuple[float, float] | None = None) -> Panel:
    """A metric of every split."""
    values, splits = recorded.curve(name, "split")
    return curve_panel(recorded, name, name, values, splits, colours.split_colours(splits), log, y)


def _gradient_title(recorded: RecordedRun) -> str:
    """Particles have a force."""
    return "norm of the gradient" if "loss" in recorded.data else "norm of the force"


def _norm_panel(recorded: RecordedRun, name: str, title: str) -> Panel:
    """A norm of every layer; the update at step 0, which is none, is a gap. Those of many frames, which would cover
    each other, are smoothed."""
    values, layers = recorded.curve(name, "layer")
    if name == "update_norm" and recorded.steps[0] == 0:
        values[:, 0] = np.nan
    width, note = len(recorded.steps) // _SMOOTHED_POINTS | 1, ""
    if width > 1 and len(layers) > 1:
        values, note = geometric_moving_mean(values, width), f"geometric mean over {width} frames"
    names = [layer.replace("_", " ") for layer in layers]
    rgb = colours.class_colours(len(layers))
    return curve_panel(recorded, name, title, values, names, rgb, log=True, note=note)


def geometric_moving_mean(values: np.ndarray, width: int) -> np.ndarray:
    """The geometric mean over `width` frames around each, of those that are positive: (curve, frame)."""
    positive = values > 0
    logarithm = np.log(np.where(positive, values, 1.0))
    near = [
        ndimage.uniform_filter1d(each, width, axis=1, mode="constant") for each in (logarithm, positive.astype(float))
    ]
    mean = np.divide(near[0], near[1], out=np.full(values.shape, -np.inf), where=near[1] > 0.5 / width)
    return np.where(np.isnan(values), np.nan, np.exp(mean))


def structure_panels(recorded: RecordedRun) -> dict[str, PanelFactory]:
    """Circularity and, where tokens are numbers modulo their number, grid imperfections over time."""
    x = recorded.embedding
    makers: dict[str, PanelFactory] = {}
    if x.shape[1] > 1 and x.shape[2] > 1:
        makers["circularity"] = lambda: _circularity_panel(recorded)
    if recorded.numbers:
        makers["imperfections"] = lambda: _imperfections_panel(recorded)
    return makers


def _circularity_panel(recorded: RecordedRun) -> Panel:
    """Largest over smallest norm, and what it is below on a circle (CA algorithm 1)."""
    ratio = np.minimum(circularity(recorded.embedding), _MAX_CIRCULARITY)
    values = np.stack([ratio, np.full(len(ratio), CIRCLE_RATIO)])
    high = float(np.clip(np.quantile(ratio, 0.9) * 1.3, 4.0, 100.0))
    rgb = colours.class_colours(2)
    names = ("largest / smallest norm", f"circle below {CIRCLE_RATIO:g}")
    return curve_panel(recorded, "circularity", "circularity", values, names, rgb, log=True, y=(0.95, high))


def _imperfections_panel(recorded: RecordedRun) -> Panel:
    """Pair sums whose nearest other one has another modular sum (CA algorithm 2), in some frames if all take long."""
    x = recorded.embedding
    pairs = x.shape[1] * (x.shape[1] + 1) // 2
    at = evenly_spaced_indices(len(x), max(2, int(_MAX_COUNTED_PAIRS / pairs**1.5)))
    count = np.interp(np.arange(len(x)), at, count_imperfections(x[at]))[None]
    note = f"of {pairs} pairs" + ("" if len(at) == len(x) else f", counted in {len(at)} frames")
    high = 1.05 * max(1.0, float(count.max()))
    rgb = colours.class_colours(1)
    names = ("imperfections",)
    return curve_panel(
        recorded, "imperfections", "grid imperfections", count, names, rgb, log=False, y=(-0.03 * high, high), note=note
    )


def scalar_panels(recorded: RecordedRun) -> dict[str, PanelFactory]:
    """A system's own numbers, one a frame."""
    own = [str(name) for name, values in recorded.data.data_vars.items() if set(values.dims) == {"run", "step"}]
    return {name: functools.partial(_scalar_panel, recorded, name) for name in own}


def _scalar_panel(recorded: RecordedRun, name: str) -> Panel:
    values = recorded.data[name].transpose("run", "step").values.astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    return curve_panel(recorded, name, name.replace("_", " "), values, (name,), colours.class_colours(1), log=False)


# --------------------------------------------------------------------------------------------- any system


def build_default_panels(recorded: RecordedRun) -> RunPanels:
    """The panels of a system of which nothing else is known."""
    if "embedding" not in recorded.data:
        return RunPanels({**metric_panels(recorded), **scalar_panels(recorded)}, lambda frames, names: {})
    shown = _embedding_panels(recorded)
    makers = {**shown.panels, **structure_panels(recorded), **metric_panels(recorded), **scalar_panels(recorded)}
    return RunPanels(makers, shown.look)
