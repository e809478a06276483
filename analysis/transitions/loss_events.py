"""Events of a trajectory's loss, or of any of its scalars, and what they say of a run: two phases, the escape.

A run's first and second drop are those that are not initial (`analysis.transitions.change_points`). Between the end
of the first and
the begin of the second lies the phase between; where there is no second one, they coincide or it was never learned. The
run has escaped its first saddle when its scalar has left the first level, and not for a moment; where it never does, it
is censored.

Scalars: the loss of a split; `gradient`, the norm of the whole gradient; `force`, which is the same of particles;
`speed`, how fast the embedding moves (`analysis.structures.embedding_motion`). A loss escapes by falling by a tenth,
a force by falling to
half, a gradient or a speed by rising to twice its first level.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.structures.embedding_motion import embedding_speed
from analysis.transitions.change_points import SeriesEvent, detect_events, first_plateau_escape
from analysis.transitions.detection import DEFAULT_DETECTION, MIN_WINDOW_FRAMES, DetectionConfig
from dynamics.errors import TrajectoryError
from dynamics.settings import SettingsError
from dynamics.trajectory.diverged import mask_diverged, valid_frames


class EscapeCriterion(NamedTuple):
    """How a scalar leaves its first level."""

    share: float
    rising: bool


ESCAPE_CRITERIA: Mapping[str, EscapeCriterion] = {
    "loss": EscapeCriterion(0.1, rising=False),
    "gradient": EscapeCriterion(1.0, rising=True),
    "force": EscapeCriterion(0.5, rising=False),
    "speed": EscapeCriterion(1.0, rising=True),
}
"""By scalar."""

DIMENSIONLESS_ATTRS = {"units": "1"}


# ------------------------------------------------------------------------------------------------ scalars


def trajectory_scalar(trajectory: xr.Dataset, name: str, split: str | None = None) -> xr.DataArray:
    """A scalar by run and step, NaN in the frames of a run after it diverged.

    split: of a loss; None is the first one, which is trained on. Raises SettingsError, TrajectoryError.
    """
    if name not in ESCAPE_CRITERIA:
        raise SettingsError("of", name, "one of " + ", ".join(ESCAPE_CRITERIA))
    check_enough_frames(trajectory)
    if name == "speed":
        if "embedding" not in trajectory:
            raise TrajectoryError("variable embedding: missing; a run with record=metrics has no speed")
        return embedding_speed(trajectory).transpose("run", "step")
    if name == "loss":
        if "loss" not in trajectory:
            raise TrajectoryError(f"variable loss: missing; {trajectory.attrs['system']} have a force and a speed")
        splits = [str(each) for each in trajectory["split"].values]
        if split not in (None, *splits):
            raise SettingsError("split", split, "one of " + ", ".join(splits))
        values = trajectory["loss"].sel(split=split or splits[0], drop=True)
    else:
        values = (trajectory["gradient_norm"].astype(np.float64) ** 2).sum("layer") ** 0.5
    values = mask_diverged(values, trajectory)
    return values.transpose("run", "step").rename(name)


def check_enough_frames(trajectory: xr.Dataset) -> None:
    """See that there are enough frames for an event. Raises TrajectoryError."""
    found = trajectory.sizes["step"]
    if found <= MIN_WINDOW_FRAMES:
        raise TrajectoryError(
            f"dimension step: found {found} frames, events are looked for in {MIN_WINDOW_FRAMES + 1} or more"
        )


def default_scalar_name(trajectory: xr.Dataset) -> str:
    """The loss where there is one, else the force."""
    return "loss" if "loss" in trajectory else "force"


class _Frames(NamedTuple):
    """A run's scalar in the frames where it has one, and where these stand."""

    values: np.ndarray
    steps: np.ndarray

    def step_at(self, moment: float) -> float:
        """The step of a moment that counts frames."""
        return float(np.interp(moment, np.arange(len(self.steps)), self.steps))


def _frames(values: xr.DataArray) -> list[_Frames]:
    """Of each run."""
    steps, found = values["step"].values.astype(np.float64), []
    for row in values.values.astype(np.float64):
        known = np.isfinite(row)
        found.append(_Frames(row[known], steps[known]))
    return found


# ------------------------------------------------------------------------------------------------- events


EVENT_COLUMNS = {
    "kind": ("U7", "drop, rise, spike or plateau"),
    "begin": ("f8", "step at which it begins"),
    "middle": ("f8", "step of its half, of a spike's peak"),
    "end": ("f8", "step at which it ends"),
    "before": ("f8", "{} before"),
    "after": ("f8", "{} after, of a spike its peak"),
    "initial": ("?", "whether no plateau was seen before it"),
}
"""What is told of an event: its type and meaning."""


def event_table(values: xr.DataArray, rule: DetectionConfig = DEFAULT_DETECTION) -> xr.Dataset:
    """All events of a scalar (run, step): a row each, moments in steps."""
    rows: list[tuple[int, SeriesEvent]] = []
    for run, frames in enumerate(_frames(values)):
        if len(frames.values):
            moved = (_in_steps(event, frames) for event in detect_events(frames.values, rule))
            rows += [(run, event) for event in moved]
    columns = {}
    for name, (kind, about) in EVENT_COLUMNS.items():
        column = np.array([getattr(event, name) for _, event in rows], kind)
        columns[name] = ("event", column, {"long_name": about.format(values.name)})
    runs = np.array([run for run, _ in rows], np.int64)
    return xr.Dataset(columns, {"of_run": ("event", runs, {"long_name": "place along run"})})


def _in_steps(event: SeriesEvent, frames: _Frames) -> SeriesEvent:
    begin, middle, end = (frames.step_at(each) for each in (event.begin, event.middle, event.end))
    return event._replace(begin=begin, middle=middle, end=end)


def plateau_escape_times(
    values: xr.DataArray, share: float | None = None, rule: DetectionConfig = DEFAULT_DETECTION
) -> xr.Dataset:
    """When each run's scalar (run, step) has left its first level, `escape` in steps, and whether it was `escaped`.

    share: of the first level that is lost or gained; None is the scalar's own.
    """
    way = ESCAPE_CRITERIA[str(values.name)]
    moments, observed = [], []
    for frames in _frames(values):
        if not len(frames.values):
            moments.append(0.0)
            observed.append(False)
            continue
        found = first_plateau_escape(frames.values, way.share if share is None else share, way.rising, rule)
        moments.append(frames.step_at(found.moment))
        observed.append(found.observed)
    about = "step at which the run left its first level, or until which it was watched"
    return xr.Dataset(
        {
            "escape": ("run", np.array(moments), {"long_name": about}),
            "escaped": ("run", np.array(observed, bool), {"long_name": "whether it left"}),
        }
    )


# -------------------------------------------------------------------------------------------- two phases

DROP_NAMES = ("first", "second")


def first_two_drops(found: xr.Dataset, runs: int) -> xr.Dataset:
    """First and second drop of each run, of its events: begin, middle and end (run, phase), NaN where there is none.

    `between` (run) is how many steps the phase between them lasts, from 0 on; NaN without a second drop. `spikes` and
    `drops` (run) count.
    """
    moments = np.full((3, runs, len(DROP_NAMES)), np.nan)
    counts = {kind: np.zeros(runs, np.int64) for kind in ("drop", "spike", "rise")}
    for run in range(runs):
        of_run = found.isel(event=np.flatnonzero(found["of_run"].values == run))
        kinds = of_run["kind"].values
        for kind in counts:
            counts[kind][run] = int(((kinds == kind) & ~of_run["initial"].values.astype(bool)).sum())
        drops = of_run.isel(event=np.flatnonzero((kinds == "drop") & ~of_run["initial"].values.astype(bool))[:2])
        for place, name in enumerate(("begin", "middle", "end")):
            moments[place, run, : drops.sizes["event"]] = drops[name].values
    between = np.maximum(moments[0, :, 1] - moments[2, :, 0], 0.0)
    found_at = {
        name: (("run", "phase"), values, {"long_name": f"step of the drop's {name}"})
        for name, values in zip(("begin", "middle", "end"), moments, strict=True)
    }
    counted = {
        f"{kind}s": ("run", each, {"long_name": f"number of {kind}s", **DIMENSIONLESS_ATTRS})
        for kind, each in counts.items()
    }
    about = {"long_name": "steps from the first drop's end to the second's begin"}
    return xr.Dataset({**found_at, "between": ("run", between, about), **counted}, {"phase": list(DROP_NAMES)})


def layer_speeds(trajectory: xr.Dataset) -> xr.DataArray:
    """How far each layer's weights have moved since the frame before, per step: (run, step, layer).

    NaN in the first frame and in those after a run diverged. Where frames hold metrics alone it is the norm of the last
    update.
    """
    layers = [str(each) for each in trajectory["layer"].values]
    if any(name not in trajectory for name in layers):
        values = trajectory["update_norm"].astype(np.float64).transpose("run", "step", "layer")
        return mask_diverged(values, trajectory).where(trajectory["step"] > trajectory["step"][0])
    gaps, speeds = np.diff(trajectory["step"].values).astype(np.float64), []
    for name in layers:
        weights = trajectory[name].transpose("run", "step", ...).values
        flat = weights.reshape(*weights.shape[:2], -1).astype(np.float64)
        moved = np.linalg.norm(np.diff(flat, axis=1), axis=-1) / gaps
        speeds.append(np.concatenate([np.full((len(moved), 1), np.nan), moved], axis=1))
    values = xr.DataArray(
        np.stack(speeds, axis=-1),
        {"step": trajectory["step"], "layer": trajectory["layer"]},
        ("run", "step", "layer"),
        "layer_speed",
        {"long_name": "distance between frames, per step", **DIMENSIONLESS_ATTRS},
    )
    return mask_diverged(values, trajectory)


def layer_motion_at_drops(
    trajectory: xr.Dataset, found: xr.Dataset, rule: DetectionConfig = DEFAULT_DETECTION
) -> xr.Dataset:
    """What the layers do at the first and second drop of `phases`: (run, phase, layer).

    speed: median of `layer_speeds` within the drop, over the median before it (for the second drop, since the first
    one's end; without frames there, since the first frame). peak: the step of the largest gradient norm from w frames
    before the drop to w frames after; lag: from the drop's middle to it. NaN where there is no drop.
    """
    steps = trajectory["step"].values.astype(np.float64)
    speeds = layer_speeds(trajectory).values
    valid = valid_frames(trajectory).values
    norms = np.where(valid[..., None], trajectory["gradient_norm"].transpose("run", "step", "layer").values, -np.inf)
    width, shape = rule.width(len(steps)), (len(speeds), len(DROP_NAMES), speeds.shape[-1])
    ratio, peak = np.full(shape, np.nan), np.full(shape, np.nan)
    for run, drop in np.argwhere(np.isfinite(found["middle"].values)):
        begin, end = (float(found[name].values[run, drop]) for name in ("begin", "end"))
        inside = (steps > begin) & (steps <= np.maximum(end, steps[np.searchsorted(steps, begin, "right")]))
        since = float(found["end"].values[run, 0]) if drop else steps[0]
        before = (steps > since) & (steps <= begin)
        if not before.any():
            before = (steps > steps[0]) & (steps <= begin)
        if before.any() and inside.any():
            ratio[run, drop] = np.nanmedian(speeds[run, inside], axis=0) / np.nanmedian(speeds[run, before], axis=0)
        first, last = np.searchsorted(steps, [begin, end])
        first, last = max(0, first - width), min(len(steps), last + width + 1)
        peak[run, drop] = steps[first + np.argmax(norms[run, first:last], axis=0)]
    lag = peak - found["middle"].values[..., None]
    dims = ("run", "phase", "layer")
    return xr.Dataset(
        {
            "speed": (
                dims,
                ratio,
                {"long_name": "speed of the weights in the drop over that before", **DIMENSIONLESS_ATTRS},
            ),
            "peak": (dims, peak, {"long_name": "step of the largest gradient norm around the drop"}),
            "lag": (dims, lag, {"long_name": "steps from the drop's middle to that peak"}),
        },
        {"phase": list(DROP_NAMES), "layer": trajectory["layer"].values},
    )
