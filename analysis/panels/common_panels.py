"""Panels that any trajectory has: the embedding, its structure, metrics and norms over
time. All dimensionless."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import xarray as xr
from scipy import ndimage

from analysis.panels import colours
from analysis.panels.limits import PanelLimits, following_limits, panel_limits
from analysis.panels.scene import (
    ArrayFunction,
    Curves,
    Layer,
    Panel,
    Points,
    no_values,
)
from analysis.structures.circles_and_grids import (
    CIRCLE_RATIO,
    count_imperfections,
    norm_ratio,
)
from analysis.structures.projection import Projection, fit_projection
from dynamics.errors import TrajectoryError
from dynamics.settings import RecordedSettings, SettingsError
from dynamics.trajectory.schema import (
    DIVERGED,
    adds_numbers,
    check_variable_recorded,
    read_settings,
    time_unit,
)

MAX_PANELS = 16
"""Panels that are drawn by default, of a system without a choice of its own."""

MAX_LABELLED_POINTS = 40
"""Largest number of points of a panel for which labels are drawn."""

MAX_JOINED_POINTS = 150
"""Largest number of tokens through which a line is drawn; more would cover the panel
with it."""

MAX_FRAMES = 4000
"""Largest number of frames from which limits are computed; in a longer run, they are
evenly spaced."""

_MAX_COUNTED_PAIRS = 60_000_000
"""Largest number of comparisons of pair sums, over all frames, for which imperfections
are counted in every frame."""

_MAX_NORM_RATIO = 1e6
"""Circularity that is drawn if a token is at the origin."""

_SMOOTHED_POINTS = 150
"""Number of independent points that remain when the curve of a long run is smoothed."""

PanelFactory = Callable[[], Panel]


class RunPanels(NamedTuple):
    """Panels of a run, not yet computed."""

    panels: Mapping[str, PanelFactory]
    """A function for each panel, by its name and in order."""
    main: Sequence[str] = ()
    """Names of the panels that are shown if none are chosen."""

    def main_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """The main panels if all of them are among the names, otherwise the first of
        the names."""
        shows_main = self.main and set(self.main) <= set(names)
        return tuple(self.main if shows_main else names[:MAX_PANELS])


class RecordedRun:
    """One run of a trajectory: its valid frames, and the unit of its time axis."""

    def __init__(
        self,
        trajectory: xr.Dataset,
        run: int,
        axes: tuple[int, int] | None = None,
        side: int = 96,
        follow: float = 0.0,
    ) -> None:
        """run: index along `run`; axes, side, follow: see `analysis.panels.build_scene`.
        Raises SettingsError, TrajectoryError."""
        runs = trajectory.sizes["run"]
        if (
            isinstance(run, bool)
            or not isinstance(run, int | np.integer)
            or not 0 <= run < runs
        ):
            raise SettingsError("run", run, f"an index from 0 to {runs - 1}")
        self.run = int(run)
        self.axes = axes
        self.side = side
        self.follow = follow
        steps = trajectory["step"].values
        self.last_step = int(trajectory["last_step"].values[run])
        count = int(np.searchsorted(steps, self.last_step, side="right"))
        if count == 0:
            raise TrajectoryError(
                f"run {run}: ended at step {self.last_step}, before the first frame"
            )
        self.steps = steps[:count].astype(np.int64)
        self.data = trajectory.isel(run=[run], step=slice(0, count))
        self.settings: Any = read_settings(trajectory)  # of any system
        self.seed = int(trajectory["seed"].values[run])
        self.diverged = bool(trajectory["status"].values[run] == DIVERGED)
        self.unit, self.epoch_steps = time_unit(trajectory)
        self.clock = self.steps / self.epoch_steps

    @functools.cached_property
    def embedding(self) -> np.ndarray:
        """Recorded embedding, (frame, token, axis). Raises TrajectoryError."""
        check_variable_recorded(self.data, "embedding")
        return (
            self.data["embedding"].transpose("run", "step", "token", "axis").values[0]
        )

    @property
    def has_residue_tokens(self) -> bool:
        """Whether each token is a residue modulo the number of tokens, so that circles
        and grids may form."""
        if "embedding" not in self.data or "position" in self.data.dims:
            return False
        return (
            self.data.sizes["token"] > 1
            and int(self.data.attrs["modulus"]) == self.data.sizes["token"]
        )

    def metric(self, name: str, dim: str) -> tuple[np.ndarray, list[str]]:
        """A metric, (dim, frame) with NaN where it is not finite, and the labels along
        dim."""
        values = (
            self.data[name].transpose("run", dim, "step").values[0].astype(np.float64)
        )
        return np.where(np.isfinite(values), values, np.nan), [
            str(value) for value in self.data[dim].values
        ]

    @property
    def limit_frames(self) -> np.ndarray:
        """Indices of the frames from which limits are computed, the first and the last
        among them."""
        return evenly_spaced_indices(len(self.steps), MAX_FRAMES)

    @property
    def limits_note(self) -> str:
        """Note on the number of frames from which limits and colour scales are
        computed, unless these are all."""
        used = len(self.limit_frames)
        count = len(self.steps)
        return "" if used == count else f"limits of {used} of {count} frames"

    def limits(self, places: np.ndarray, square: bool = True) -> PanelLimits:
        """Limits of points (frame, point, 2) at the frames `limit_frames`; see
        `panel_limits`, `following_limits`."""
        if self.follow:
            result = following_limits(
                places, self.limit_frames, len(self.steps), square, self.follow
            )
        else:
            result = panel_limits(places, self.diverged, square)
        return result._replace(of=self.limits_note)

    @property
    def clock_limits(self) -> tuple[float, float]:
        """Limits of the time axis, with a margin for the cursor."""
        first, last = float(self.clock[0]), float(self.clock[-1])
        margin = 0.015 * (last - first) if last > first else 0.5
        return first - margin, last + margin


def evenly_spaced_indices(count: int, most: int) -> np.ndarray:
    """At most `most` (from 2) evenly spaced indices below `count`, the first and the
    last among them."""
    return np.unique(
        np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
    )


Result = TypeVar("Result")


def keep_last(
    function: Callable[[np.ndarray], Result],
) -> Callable[[np.ndarray], Result]:
    """A function of frames that keeps its last result, which several layers need."""
    last: list[tuple[np.ndarray, Result]] = []

    def of_frames(frames: np.ndarray) -> Result:
        for known, result in last:
            if np.array_equal(known, frames):
                return result
        result = function(frames)
        last[:] = [(frames, result)]
        return result

    return of_frames


def join_notes(*notes: str) -> str:
    """Notes of a panel that are not empty, separated by semicolons."""
    return "; ".join(filter(None, notes))


# --------------------------------------------------------------------- panels of points


def plane_panel(
    name: str,
    title: str,
    layers: Sequence[Layer],
    limits: PanelLimits,
    plane: Projection | None = None,
    note: str = "",
    **more: Any,
) -> Panel:
    """A panel of points in the plane of a projection. more: further fields of
    `Panel`."""
    one_axis = plane is not None and plane.heights is not None
    notes = join_notes(plane.note if plane else "", note, limits.note)
    y = limits.y
    views = limits.views
    if one_axis:
        y = (-1.0, 1.0)
        views = (
            None
            if views is None
            else np.stack([views[:, 0], np.broadcast_to(y, (len(views), 2))], axis=1)
        )
    how = {"equal": not one_axis, "origin": True, "views": views, **more}
    return Panel(name, title, tuple(layers), limits.x, y, note=notes, **how)


def token_points(
    array: str,
    tokens: int,
    joined: bool = False,
    values: ArrayFunction = no_values,
) -> Points:
    """Markers of numbered tokens, coloured as the classes of their numbers. joined: whether a
    line runs through up to 150. values: their positions at frames, (frame, token, 2)."""
    few = tokens <= MAX_LABELLED_POINTS
    return Points(
        array,
        colours.class_colours(tokens),
        tuple(map(str, range(tokens))),
        size=1.4 if few else min(0.6, 70 / tokens),
        labelled=few,
        joined=joined and tokens <= MAX_JOINED_POINTS,
        values=values,
    )


def token_note(tokens: int, joined: bool = False) -> str:
    """Meaning of the colours of many tokens, and of the line through them."""
    colour = (
        ""
        if tokens <= MAX_LABELLED_POINTS
        else f"hue: token, from 0 around the circle to {tokens - 1}"
    )
    return join_notes(
        colour,
        "line: successive tokens" if joined and tokens <= MAX_JOINED_POINTS else "",
    )


def unit_points(array: str, last: np.ndarray, values: ArrayFunction) -> Points:
    """Markers of hidden units, coloured by the direction of their positions in the last
    frame, (unit, 2). values: their positions at frames, (frame, unit, 2)."""
    x, y = last.T
    names = tuple(f"unit {unit}" for unit in range(len(last)))
    return Points(
        array,
        colours.angle_colours(np.arctan2(y, x)),
        names,
        size=0.8 if len(last) <= 64 else 0.5,
        values=values,
    )


EMBEDDING_EXPLANATION = (
    "The positions of the numbers; grey lines join successive numbers. They move during"
    " training: look for a circle, or for a grid of rows."
)


def _embedding_panel(recorded: RecordedRun) -> Panel:
    x = recorded.embedding
    plane = fit_projection(x[-1], recorded.axes)

    def places(frames: np.ndarray) -> np.ndarray:
        return plane.places(x[frames])

    tokens = x.shape[1]
    joined = recorded.has_residue_tokens
    return plane_panel(
        "embedding",
        "embedding",
        [token_points("embedding", tokens, joined, places)],
        recorded.limits(places(recorded.limit_frames)),
        plane,
        token_note(tokens, joined),
        explanation=EMBEDDING_EXPLANATION,
    )


# --------------------------------------------------------------------- panels of curves


def curve_panel(
    recorded: RecordedRun,
    name: str,
    title: str,
    values: np.ndarray,
    names: Sequence[str],
    log: bool,
    y: tuple[float, float] | None = None,
    note: str = "",
    unit: str = "",
    explanation: str = "",
) -> Panel:
    """Quantities (curve, frame) over time; on a logarithmic axis zeros are drawn at the
    lower edge."""
    values = np.asarray(values, np.float64)
    limits = y or _curve_limits(values, log, recorded.diverged)
    zero_note = ""
    if log:
        zero = values <= 0
        zero_note = "0 at the lower edge" if zero.any() else ""
        values = np.where(zero, limits[0], values)
    finite = values[np.isfinite(values)]
    sides = {"above": (finite > limits[1]).any(), "below": (finite < limits[0]).any()}
    off_scale = " and ".join(side for side, exceeded in sides.items() if exceeded)
    notes = join_notes(
        note,
        "" if finite.size else "no values",
        zero_note,
        f"off scale {off_scale}" if off_scale else "",
    )
    layer = Curves(recorded.clock, values, colours.named_colours(names), tuple(names))
    return Panel(
        name,
        title,
        (layer,),
        recorded.clock_limits,
        limits,
        recorded.unit,
        equal=False,
        log=log,
        unit=unit,
        note=notes,
        explanation=explanation,
    )


def _curve_limits(values: np.ndarray, log: bool, diverged: bool) -> tuple[float, float]:
    """Limits of curves (curve, frame); of a diverged run, some orders of magnitude
    around its median or start."""
    finite = values[np.isfinite(values) & ((values > 0) | (not log))]
    if not finite.size:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low = float(finite.min())
    high = float(finite.max())
    if diverged:
        initial = float(np.nanmax(np.abs(values[:, 0]), initial=0.0))
        typical = min(float(np.median(np.abs(finite))), 10 * initial or np.inf) or high
        high = min(high, 1e3 * typical)
        low = min(max(low, 1e-6 * typical), high) if log else min(low, high)
    if log:
        factor = max((high / low) ** 0.05, 1.05)
        return low / factor, high * factor
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def metric_panels(recorded: RecordedRun) -> dict[str, PanelFactory]:
    """Loss, accuracy and the norms of gradients and updates, if they were recorded."""
    panels: dict[str, PanelFactory] = {}
    if "loss" in recorded.data:
        panels["loss"] = lambda: _loss_panel(recorded)
    if "accuracy" in recorded.data:
        panels["accuracy"] = lambda: _accuracy_panel(recorded)
    if "gradient_norm" in recorded.data:
        panels["gradient_norm"] = lambda: _gradient_panel(recorded)
        panels["update_norm"] = lambda: _update_panel(recorded)
    return panels


def unit_of_loss(system: str) -> str:
    """Unit of the loss of a system; none of a model from outside, where it is not
    known."""
    return "" if system == RecordedSettings.system else "nats"


def _loss_panel(recorded: RecordedRun) -> Panel:
    values, splits = recorded.metric("loss", "split")
    return curve_panel(
        recorded,
        "loss",
        "loss",
        values,
        splits,
        log=True,
        unit=unit_of_loss(recorded.data.attrs["system"]),
        explanation="The error that training reduces. Fast drops, jumps and plateaus are"
        " marked on the slider.",
    )


def _accuracy_panel(recorded: RecordedRun) -> Panel:
    values, splits = recorded.metric("accuracy", "split")
    return curve_panel(
        recorded,
        "accuracy",
        "accuracy",
        values,
        splits,
        log=False,
        y=(-0.03, 1.03),
        explanation="The share of correct answers. The training split rises first if the"
        " network memorises.",
    )


def _gradient_panel(recorded: RecordedRun) -> Panel:
    return _norm_panel(
        recorded,
        "gradient_norm",
        "norm of the gradient" if "loss" in recorded.data else "norm of the force",
        "The size of the gradient for each kind of weights, or of the force on"
        " particles. Peaks of the gradient often coincide with drops and spikes of the"
        " loss.",
    )


def _update_panel(recorded: RecordedRun) -> Panel:
    return _norm_panel(
        recorded,
        "update_norm",
        "norm of the update",
        "How far the last step moved the weights of each kind, or the particles.",
    )


def _norm_panel(
    recorded: RecordedRun, name: str, title: str, explanation: str
) -> Panel:
    """A norm of each layer, or of groups of many layers, smoothed if there are many
    frames; step 0 is omitted for updates, as it has none."""
    values, layers = recorded.metric(name, "layer")
    groups = colours.grouped_layers(layers)
    if groups != layers:
        layers = list(dict.fromkeys(groups))
        members = [[group == layer for group in groups] for layer in layers]
        values = np.array(
            [np.sqrt((values[member] ** 2).sum(axis=0)) for member in members]
        )
    if name == "update_norm" and recorded.steps[0] == 0:
        values[:, 0] = np.nan
    width = len(recorded.steps) // _SMOOTHED_POINTS | 1
    note = ""
    if width > 1 and len(layers) > 1:
        values = geometric_moving_mean(values, width)
        note = f"geometric mean over {width} frames"
    names = colours.layer_labels(layers)
    return curve_panel(
        recorded,
        name,
        title,
        values,
        names,
        log=True,
        note=note,
        explanation=explanation,
    )


def geometric_moving_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Geometric mean of the positive values in windows of `width` frames: (curve,
    frame) -> the same; NaN is kept."""
    positive = values > 0
    logarithm = np.log(np.where(positive, values, 1.0))
    sums = [
        ndimage.uniform_filter1d(item, width, axis=1, mode="constant")
        for item in (logarithm, positive.astype(float))
    ]
    mean = np.divide(
        sums[0],
        sums[1],
        out=np.full(values.shape, -np.inf),
        where=sums[1] > 0.5 / width,
    )
    return np.where(np.isnan(values), np.nan, np.exp(mean))


def structure_panels(recorded: RecordedRun) -> dict[str, PanelFactory]:
    """Circularity and, where tokens are residues modulo their number, grid
    imperfections over time."""
    tokens, axes = recorded.embedding.shape[1:]
    panels: dict[str, PanelFactory] = {}
    if tokens > 1 and axes > 1:
        panels["norm_ratio"] = lambda: _norm_ratio_panel(recorded)
    if recorded.has_residue_tokens and adds_numbers(recorded.data):
        panels["imperfections"] = lambda: _imperfections_panel(recorded)
    return panels


def _norm_ratio_panel(recorded: RecordedRun) -> Panel:
    """Ratio of the largest to the smallest norm, and the threshold of a circle (CA
    algorithm 1)."""
    ratio = np.minimum(norm_ratio(recorded.embedding), _MAX_NORM_RATIO)
    values = np.stack([ratio, np.full(len(ratio), CIRCLE_RATIO)])
    high = float(np.clip(np.quantile(ratio, 0.9) * 1.3, 4.0, 100.0))
    names = ("largest / smallest norm", f"circle below {CIRCLE_RATIO:g}")
    return curve_panel(
        recorded,
        "norm_ratio",
        "norm ratio",
        values,
        names,
        log=True,
        y=(0.95, high),
        explanation="The largest distance of a number from the centre, divided by the"
        f" smallest. Below {CIRCLE_RATIO:g}, numbers in a plane, around its centre, are a"
        " circle.",
    )


def _imperfections_panel(recorded: RecordedRun) -> Panel:
    """Number of pair sums whose nearest other pair sum has another residue (CA
    algorithm 2)."""
    x = recorded.embedding
    pairs = x.shape[1] * (x.shape[1] + 1) // 2
    frames = evenly_spaced_indices(len(x), max(2, int(_MAX_COUNTED_PAIRS / pairs**1.5)))
    count = np.interp(np.arange(len(x)), frames, count_imperfections(x[frames]))[None]
    note = f"of {pairs} pairs" + (
        "" if len(frames) == len(x) else f", counted in {len(frames)} frames"
    )
    high = 1.05 * max(1.0, float(count.max()))
    return curve_panel(
        recorded,
        "imperfections",
        "grid imperfections",
        count,
        ("imperfections",),
        log=False,
        y=(-0.03 * high, high),
        note=note,
        explanation="How many pair sums have a nearest neighbour with another answer. A"
        " grid has few, a circle about half of all pairs.",
    )


_MAX_COMPONENTS = 24
"""Largest number of components of a variable that are drawn as curves."""


def scalar_panels(recorded: RecordedRun) -> dict[str, PanelFactory]:
    """Further numbers and short vectors that the trajectory has for each frame, except
    parameters and buffers of a model, such as counters and constants."""
    panels: dict[str, PanelFactory] = {}
    for name, values in recorded.data.data_vars.items():
        rest = [dim for dim in values.dims if dim not in ("run", "step")]
        is_own = not rest or (rest == [f"{name}_0"] and "." not in str(name))
        if {"run", "step"} <= set(values.dims) and is_own:
            few = all(values.sizes[dim] <= _MAX_COMPONENTS for dim in rest)
            if few and not str(name).startswith("buffer."):
                panels[str(name)] = functools.partial(
                    _scalar_panel, recorded, str(name)
                )
    return panels


def _scalar_panel(recorded: RecordedRun, name: str) -> Panel:
    """Curves of a variable (run, step) or of the components of one (run, step, ...)."""
    values = recorded.data[name].isel(run=0).transpose("step", ...).values
    curves = values.reshape(len(values), -1).T.astype(np.float64)
    curves[~np.isfinite(curves)] = np.nan
    places = range(len(curves))
    names = (name,) if values.ndim == 1 else tuple(f"{name} {at}" for at in places)
    return curve_panel(recorded, name, name.replace("_", " "), curves, names, log=False)


# --------------------------------------------------------------------------- any system


def build_default_panels(recorded: RecordedRun) -> RunPanels:
    """Panels of a system that has no builder of its own in `PANEL_BUILDERS`."""
    panels: dict[str, PanelFactory] = {}
    if "embedding" in recorded.data:
        panels["embedding"] = lambda: _embedding_panel(recorded)
        panels |= structure_panels(recorded)
    return RunPanels({**panels, **metric_panels(recorded), **scalar_panels(recorded)})
