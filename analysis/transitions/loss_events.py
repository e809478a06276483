"""Events of the loss or another scalar in all runs of a trajectory: all events,
escapes, and the first two drops.

Scalars are `loss`, the loss of a split; `gradient`, the norm of the gradient of all
parameters; `force`, the same for particles; and `speed`, the speed of the embedding
(`analysis.structures.embedding_motion`). A loss escapes from its first level by a
decrease of a tenth, a force by a decrease to half, a gradient or a speed by an increase
to twice its first level (`first_plateau_escape`). A run that never escapes is censored.

The first and second drop of a run are the first two that are not initial
(`analysis.transitions.change_points`). The phase between them lasts from the end of the
first to the start of the second (VC section 4.1)."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from analysis.output.results import dimensionless
from analysis.structures.embedding_motion import embedding_speed
from analysis.transitions.change_points import (
    SeriesEvent,
    detect_events,
    first_plateau_escape,
)
from analysis.transitions.detection import (
    DEFAULT_DETECTION,
    MIN_WINDOW_FRAMES,
    DetectionConfig,
)
from dynamics.settings import RecordedSettings, SettingsError
from dynamics.trajectory.diverged import mask_diverged
from dynamics.trajectory.netcdf import TrajectoryError
from dynamics.trajectory.schema import check_variable_recorded


class EscapeCriterion(NamedTuple):
    """How a scalar leaves its first level."""

    share: float
    """The change that counts, as a fraction of the first level."""
    rising: bool


ESCAPE_CRITERIA: Mapping[str, EscapeCriterion] = {
    "loss": EscapeCriterion(0.1, rising=False),
    "gradient": EscapeCriterion(1.0, rising=True),
    "force": EscapeCriterion(0.5, rising=False),
    "speed": EscapeCriterion(1.0, rising=True),
}
"""The criterion of each scalar."""


# ------------------------------------------------------------------------------ scalars


def trajectory_scalar(
    trajectory: xr.Dataset, name: str, split: str | None = None
) -> xr.DataArray:
    """A scalar of every run at every recorded step.

    Parameters
    ----------
    trajectory : Dataset
    name : {"loss", "gradient", "force", "speed"}
    split : str, optional
        The split of a loss (default: the training split).

    Returns
    -------
    DataArray, dims (run, step)
        Dimensionless; NaN after a run has diverged. The attribute `level` of the loss
        of a recorded model is the default of `DetectionConfig.level` for it.

    Raises
    ------
    SettingsError
        If the scalar or the split does not exist.
    TrajectoryError
        If the trajectory has five frames or fewer, or does not have the scalar.

    Examples
    --------
    >>> from analysis.transitions import trajectory_scalar
    >>> from dynamics.settings import ParticleSettings
    >>> from dynamics.simulation import simulate
    >>> particles = simulate(ParticleSettings(n=5), runs=2, steps=10, progress=False)
    >>> dict(trajectory_scalar(particles, "force").sizes)
    {'run': 2, 'step': 11}
    """
    if name not in ESCAPE_CRITERIA:
        raise SettingsError("of", name, "one of " + ", ".join(ESCAPE_CRITERIA))
    check_enough_frames(trajectory)
    if name == "speed":
        check_variable_recorded(trajectory, "embedding")
        return embedding_speed(trajectory).transpose("run", "step")
    if name == "loss":
        check_variable_recorded(trajectory, "loss")
        splits = [str(value) for value in trajectory["split"].values]
        if split not in (None, *splits):
            raise SettingsError("split", split, "one of " + ", ".join(splits))
        values = trajectory["loss"].sel(split=split or splits[0], drop=True)
    else:
        check_variable_recorded(trajectory, "gradient_norm")
        norms = trajectory["gradient_norm"].astype(np.float64)
        values = (norms**2).sum("layer") ** 0.5
    masked = mask_diverged(values, trajectory).transpose("run", "step").rename(name)
    if name == "loss" and trajectory.attrs.get("system") == RecordedSettings.system:
        masked.attrs["level"] = "local"
    return masked


def check_enough_frames(trajectory: xr.Dataset) -> None:
    """Raise TrajectoryError if the trajectory has too few frames for the detection of
    events."""
    frames = trajectory.sizes["step"]
    least = MIN_WINDOW_FRAMES + 1
    if frames < least:
        raise TrajectoryError(
            f"dimension step: found {frames} frames, events are detected in {least} or"
            " more"
        )


def default_scalar_name(trajectory: xr.Dataset) -> str:
    """The name of the scalar that is analysed by default: the loss, or the force of a
    system without a loss, or, if no norms were recorded either, the speed."""
    if "loss" in trajectory:
        return "loss"
    return "force" if "gradient_norm" in trajectory else "speed"


class _Frames(NamedTuple):
    """The valid frames of a run's scalar, (frame,) each."""

    values: np.ndarray
    steps: np.ndarray

    def step_at(self, moment: float) -> float:
        """The step at a frame index, which may be fractional."""
        return float(np.interp(moment, np.arange(len(self.steps)), self.steps))


def _valid_frames_of_runs(values: xr.DataArray) -> list[_Frames]:
    steps = values["step"].values.astype(np.float64)
    result = []
    for row in values.values.astype(np.float64):
        finite = np.isfinite(row)
        result.append(_Frames(row[finite], steps[finite]))
    return result


# ------------------------------------------------------------------------------- events


MOMENTS = ("begin", "middle", "end")
"""Names of the moments of an event."""
_EVENT_COLUMNS = {
    "kind": ("U7", "drop, rise, spike or plateau"),
    "begin": ("f8", "step at which it begins"),
    "middle": ("f8", "step of its middle, or of the peak of a spike"),
    "end": ("f8", "step at which it ends"),
    "before": ("f8", "{} before"),
    "after": ("f8", "{} after; of a spike, at its peak"),
    "initial": ("?", "whether it begins before the second frame"),
}


def event_table(
    values: xr.DataArray, config: DetectionConfig = DEFAULT_DETECTION
) -> xr.Dataset:
    """The drops, rises, spikes and plateaus of a scalar in all runs.

    Parameters
    ----------
    values : DataArray, dims (run, step)
        A scalar, NaN in invalid frames (`trajectory_scalar`).
    config : DetectionConfig
        Thresholds.

    Returns
    -------
    Dataset, dim event
        `of_run` (run index) and the fields of `SeriesEvent`, whose moments are steps
        here.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from analysis.transitions import event_table
    >>> loss = np.where(np.arange(400) < 100, 1.0, 0.2)
    >>> events = event_table(xr.DataArray([loss], {"step": 10 * np.arange(400)}, ("run", "step"), "loss"))
    >>> events["middle"].values[events["kind"] == "drop"].tolist()
    [995.0]
    """
    rows: list[tuple[int, SeriesEvent]] = []
    config = config.for_series(values)
    for run, frames in enumerate(_valid_frames_of_runs(values)):
        if len(frames.values):
            for event in detect_events(frames.values, config):
                at_steps = event._replace(
                    begin=frames.step_at(event.begin),
                    middle=frames.step_at(event.middle),
                    end=frames.step_at(event.end),
                )
                rows.append((run, at_steps))
    columns = {}
    for name, (kind, long_name) in _EVENT_COLUMNS.items():
        column = np.array([getattr(event, name) for _, event in rows], kind)
        columns[name] = ("event", column, {"long_name": long_name.format(values.name)})
    runs = np.array([run for run, _ in rows], np.int64)
    return xr.Dataset(columns, {"of_run": ("event", runs, {"long_name": "run index"})})


# ------------------------------------------------------------------------------ escapes


def plateau_escape_times(
    values: xr.DataArray,
    fraction: float | None = None,
    config: DetectionConfig = DEFAULT_DETECTION,
) -> xr.Dataset:
    """When a scalar leaves its first level in each run (`first_plateau_escape`).

    Parameters
    ----------
    values : DataArray, dims (run, step)
        A scalar, NaN in invalid frames (`trajectory_scalar`); its name is a key of
        ESCAPE_CRITERIA.
    fraction : float, optional
        The change that counts, as a fraction of the first level (default: that of
        ESCAPE_CRITERIA).
    config : DetectionConfig
        Thresholds.

    Returns
    -------
    Dataset, dim run
        `escape`, a step, and `escaped`, whether the run has left; if not, `escape` is
        its last valid step (censored).

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from analysis.transitions import plateau_escape_times
    >>> loss = [np.where(np.arange(400) < 100, 1.0, 0.2), np.ones(400)]
    >>> left = plateau_escape_times(xr.DataArray(loss, {"step": np.arange(400)}, ("run", "step"), "loss"))
    >>> left["escape"].values.tolist(), left["escaped"].values.tolist()
    ([99.125, 399.0], [True, False])
    """
    config = config.for_series(values)
    criterion = ESCAPE_CRITERIA[str(values.name)]
    change = criterion.share if fraction is None else fraction
    moments = np.zeros(len(values))
    observed = np.zeros(len(values), bool)
    for run, frames in enumerate(_valid_frames_of_runs(values)):
        if len(frames.values):
            escape = first_plateau_escape(
                frames.values, change, criterion.rising, config
            )
            moments[run], observed[run] = frames.step_at(escape.moment), escape.observed
    long_name = (
        "step at which the run leaves its first level; of a run that does not, the last"
        " valid step"
    )
    escaped = ("run", observed, {"long_name": "whether the run leaves its first level"})
    return xr.Dataset(
        {"escape": ("run", moments, {"long_name": long_name}), "escaped": escaped}
    )


# ---------------------------------------------------------------------------- two drops

DROP_NAMES = ("first", "second")


def first_two_drops(events: xr.Dataset, runs: int) -> xr.Dataset:
    """The first and second drop of each run that are not initial (two-phase learning,
    VC section 4.1).

    Parameters
    ----------
    events : Dataset
        From `event_table`.
    runs : int
        The number of runs.

    Returns
    -------
    Dataset, dims (run, phase)
        `begin`, `middle` and `end` (run, phase) of both drops, in steps, NaN where
        there is none; `between` (run), the number of steps between them, NaN without a
        second drop; and the numbers of `drops`, `spikes` and `rises` (run).

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from analysis.transitions import event_table, first_two_drops
    >>> loss = np.select([np.arange(400) < 100, np.arange(400) < 200], [1.0, 0.5], 0.2)
    >>> events = event_table(xr.DataArray([loss], {"step": np.arange(400)}, ("run", "step"), "loss"))
    >>> first_two_drops(events, runs=1)["middle"].values.tolist()
    [[99.5, 199.5]]
    """
    later = events.isel(event=~events["initial"].values.astype(bool))
    of_run = later["of_run"].values
    kinds = later["kind"].values
    moments = np.full((3, runs, len(DROP_NAMES)), np.nan)
    steps = np.stack([later[name].values for name in MOMENTS])
    for run in range(runs):
        drops = steps[:, (of_run == run) & (kinds == "drop")][:, :2]
        moments[:, run, : drops.shape[1]] = drops
    variables: dict[str, tuple] = {}
    for name, values in zip(MOMENTS, moments, strict=True):
        attrs = {"long_name": f"step of the {name} of the drop"}
        variables[name] = (("run", "phase"), values, attrs)
    between = np.maximum(moments[0, :, 1] - moments[2, :, 0], 0.0)
    attrs = {"long_name": "steps from the end of the first drop to the second"}
    variables["between"] = ("run", between, attrs)
    for kind in ("drop", "spike", "rise"):
        count = np.bincount(of_run[kinds == kind], minlength=runs)
        variables[f"{kind}s"] = ("run", count, dimensionless(f"number of {kind}s"))
    return xr.Dataset(variables, {"phase": list(DROP_NAMES)})
