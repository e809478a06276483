"""The spikes of a trajectory of VC's network, each replayed at every step and
attributed to a cause."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numba import get_num_threads

from analysis.output.results import dimensionless
from analysis.output.tables import interval_columns, make_table
from analysis.statistics.intervals import clustered_binomial_interval
from analysis.transitions import spike_attribution as attribution
from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.loss_events import event_table, trajectory_scalar
from analysis.transitions.spike_steps import step_measures
from dynamics.branching import replay
from dynamics.networks.from_trajectory import clustering_head_of, weights
from dynamics.progress import progress_bar
from dynamics.settings import RecordedSettings

MAX_FRAMES_BEFORE_PEAK = 5
"""Recorded frames before the peak of a spike in which its rise may begin."""

FRACTION_AFTER_PEAK = 0.5
"""Fraction of the recorded frame after the peak that is replayed."""


class RecordedSpike(NamedTuple):
    """A spike in the recorded frames."""

    run: int
    seed: int
    step: int
    level: float
    """Loss before the spike."""
    height: float
    """Loss at the peak."""


def recorded_spikes(
    trajectory: xr.Dataset, config: DetectionConfig = DEFAULT_DETECTION
) -> list[RecordedSpike]:
    """All spikes of the training loss, by run and step, of VC's network or a recorded
    model. Raises TrajectoryError."""
    if trajectory.attrs["system"] != RecordedSettings.system:
        clustering_head_of(trajectory)
    events = event_table(trajectory_scalar(trajectory, "loss"), config)
    seeds = trajectory["seed"].values
    spikes = events.isel(event=events["kind"].values == "spike")
    columns = (spikes[name].values for name in ("of_run", "middle", "before", "after"))
    return [
        RecordedSpike(int(run), int(seeds[run]), int(step), float(level), float(height))
        for run, step, level, height in zip(*columns, strict=True)
    ]


def evenly_spaced_spikes(
    spikes: list[RecordedSpike], count: int | None
) -> list[RecordedSpike]:
    """`count` of the spikes, evenly spaced in their order; all spikes for None."""
    if count is None or count >= len(spikes):
        return spikes
    return [
        spikes[k] for k in np.linspace(0, len(spikes) - 1, count).round().astype(int)
    ]


# ---------------------------------------------------------------------------- one spike


class SpikeExamination(NamedTuple):
    """The result for one spike."""

    values: dict[str, Any]
    """Entries of _ATTRIBUTION_VARIABLES; empty if the loss does not rise in the
    replay."""
    steps: np.ndarray
    """Steps of the replay, (step,)."""
    loss: np.ndarray
    """Training loss at these steps, (step,)."""


def examine_spike(
    trajectory: xr.Dataset,
    spike: RecordedSpike,
    sequences: attribution.TrainingSequences,
) -> SpikeExamination:
    """Replay a spike and attribute it to a cause. Raises TrajectoryError,
    Interrupted."""
    first, begin, last = replay_span(trajectory, spike)
    path = replay(trajectory, spike.run, first, last)
    loss = path["loss"].sel(split="train").values[0].astype(np.float64)
    steps = path["step"].values
    calm = max(1, begin - first)
    rise = attribution.locate_loss_rise(
        loss[begin - first :], float(np.median(loss[:calm]))
    )
    if rise is None:
        return SpikeExamination({}, steps, loss)
    rise = attribution.LossRise(*(index + begin - first for index in rise))
    network = clustering_head_of(trajectory)
    every = {name: values[0].double() for name, values in weights(path).items()}
    lengths = np.sqrt(
        (path["update_norm"].values[0, 1 : calm + 1].astype(np.float64) ** 2).sum(-1)
    )
    frames = (rise.foot, rise.step, rise.step + 1)
    foot, before, after = (
        {name: values[frame] for name, values in every.items()} for frame in frames
    )
    with torch.no_grad():
        step = attribution.SpikeStep(
            network, sequences, foot, before, after, float(np.median(lengths))
        )
        measures = step.measures()
        remaining = step.remaining_rise()
        over_steps = step_measures(network, sequences, every, loss, rise, begin - first)
    values = {
        "at": int(steps[rise.step]),
        "foot": int(steps[rise.foot]),
        "top": float(loss.max()),
        "cause": attribution.spike_cause(measures),
        "way": attribution.crossing_kind(measures),
        "explained": attribution.is_explained(measures, remaining),
    }
    left = {f"remaining_{name}": value for name, value in remaining.items()}
    return SpikeExamination(values | measures | left | over_steps, steps, loss)


def replay_span(trajectory: xr.Dataset, spike: RecordedSpike) -> tuple[int, int, int]:
    """Steps at which the replay of a spike begins, at which its rise may begin, and at
    which the replay ends.

    The rise begins after the last recorded frame that is no higher than a tenth of the
    spike; the frame before that one is replayed too, to determine the usual length of
    updates."""
    steps = trajectory["step"].values
    last = int(trajectory["last_step"].values[spike.run])
    peak = int(np.searchsorted(steps, spike.step))
    earliest = max(0, peak - MAX_FRAMES_BEFORE_PEAK)
    losses = (
        trajectory["loss"]
        .isel(run=spike.run, step=slice(earliest, peak))
        .sel(split="train")
        .values
    )
    low = np.flatnonzero(losses <= spike.level + 0.1 * (spike.height - spike.level))
    begin = earliest + int(low[-1] if low.size else np.argmin(losses))
    gap = int(steps[min(peak + 1, len(steps) - 1)]) - spike.step
    end = min(last, spike.step + max(1, round(FRACTION_AFTER_PEAK * gap)))
    return int(steps[max(0, begin - 1)]), int(steps[begin]), end


# --------------------------------------------------------------------------- all spikes


def attribute_spikes(
    trajectory: xr.Dataset, spikes: list[RecordedSpike], progress: bool = True
) -> xr.Dataset:
    """Replay spikes and attribute each to a cause.

    Parameters
    ----------
    trajectory : Dataset
        Of VC's network.
    spikes : list of RecordedSpike
        From `recorded_spikes`.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Dataset, dims spike, run, offset
        The recorded values, cause and measures of each spike (spike); `path` (spike,
        offset), the training loss at steps relative to the recorded peak, NaN outside
        the replay; `examined` (run), the number of its spikes.

    Raises
    ------
    TrajectoryError, Interrupted
        As `dynamics.replay`.

    Examples
    --------
    >>> from analysis.transitions import attribute_spikes, recorded_spikes
    >>> from dynamics import SparseSettings, simulate
    >>> small = SparseSettings(length=4, sparsity=2, data=16, batch=16, hidden=4)
    >>> trajectory = simulate(small, runs=2, steps=30, progress=False)
    >>> attribute_spikes(trajectory, recorded_spikes(trajectory)).sizes["spike"]
    0
    """
    settings = clustering_head_of(trajectory).settings
    by_run = [
        list(group)
        for _, group in itertools.groupby(spikes, key=lambda spike: spike.run)
    ]

    def examine_run(group: list[RecordedSpike]) -> list[SpikeExamination]:
        sequences = attribution.training_sequences(settings, group[0].seed)
        result = []
        for spike in group:
            result.append(examine_spike(trajectory, spike, sequences))
            bar.update()
        return result

    with (
        progress_bar(
            total=len(spikes),
            unit="spike",
            quiet=not progress,
        ) as bar,
        ThreadPoolExecutor(get_num_threads()) as pool,
    ):
        examined = [item for run in pool.map(examine_run, by_run) for item in run]
    return _attribution_dataset(spikes, examined, trajectory)


def _attribution_dataset(
    spikes: list[RecordedSpike],
    examined: list[SpikeExamination],
    trajectory: xr.Dataset,
) -> xr.Dataset:
    variables: dict[str, Any] = {}
    for name, (kind, long_name) in _RECORDED_VARIABLES.items():
        values = np.array(
            [getattr(spike, name.removeprefix("of_")) for spike in spikes], kind
        )
        variables[name] = ("spike", values, dimensionless(long_name))
    for name, long_name in _ATTRIBUTION_VARIABLES.items():
        kind, missing = _MISSING_VALUES.get(name, ("f8", np.nan))
        values = np.array([item.values.get(name, missing) for item in examined], kind)
        variables[name] = ("spike", values, dimensionless(long_name))
    offsets, path = _aligned_losses(spikes, examined)
    variables["path"] = (
        ("spike", "offset"),
        path,
        dimensionless("training loss at every step"),
    )
    runs = np.bincount(variables["of_run"][1], minlength=trajectory.sizes["run"])
    variables["examined"] = ("run", runs, dimensionless("spikes examined of each run"))
    return xr.Dataset(
        variables, {"offset": offsets, "seed": ("run", trajectory["seed"].values)}
    )


def _aligned_losses(
    spikes: list[RecordedSpike], examined: list[SpikeExamination]
) -> tuple[np.ndarray, np.ndarray]:
    """Steps relative to the recorded peak (offset,) and the losses (spike, offset), NaN
    outside the replay."""
    ends = [
        item.steps[[0, -1]] - spike.step
        for spike, item in zip(spikes, examined, strict=True)
    ]
    first = min((int(low) for low, _ in ends), default=0)
    last = max((int(high) for _, high in ends), default=0)
    path = np.full((len(spikes), last - first + 1), np.nan)
    for row, (low, high), item in zip(path, ends, examined, strict=True):
        row[low - first : high - first + 1] = item.loss
    return np.arange(first, last + 1), path


def smooth_norm_applies(result: xr.Dataset) -> np.ndarray:
    """For which spikes the change of the norm counts, because both norms classify
    nearly alike: (spike,) bool."""
    return (
        result["remaining_smooth_alike"] >= attribution.SMOOTH_NORM_AGREEMENT
    ).values


_RECORDED_VARIABLES = {
    "of_run": ("i8", "run index"),
    "of_seed": ("i8", "seed of the run"),
    "step": ("i8", "step of the recorded peak"),
    "level": ("f8", "loss before, at recorded frames"),
    "height": ("f8", "loss at the recorded peak"),
}

_ATTRIBUTION_VARIABLES = {
    "at": "step before the update that is examined",
    "foot": "step at which the loss begins to rise",
    "top": "largest loss at any step",
    "cause": (
        "normalisation, feed-forward, both or neither; empty where the replay shows no"
        " rise"
    ),
    "way": "how decision boundaries are crossed: embedding or boundary",
    "explained": (
        "whether the change against the cause removes the rise, and that against the"
        " other does not"
    ),
    "loss_before": "loss before the step",
    "loss_after": "loss after the step",
    "normalisation_share": "fraction of the rise from sequences that flips affect",
    "feed_forward_share": "fraction of the rise from sequences that crossed a boundary",
    "crossed": "fraction of the sequences that crossed a boundary",
    "by_embedding_share": (
        "fraction of the rise from sequences whose embedding crossed a boundary that"
        " stays"
    ),
    "by_boundary_share": "fraction of the rise from sequences that a boundary crossed",
    "flipped_inputs": "number of flipped E + P",
    "flipped_sequences": "fraction of the sequences whose embedding flips",
    "input_ratio": "largest update of E + P over its length",
    "xi_ratio": "largest update of a sequence embedding over its length",
    "turn": (
        "angle by which normalised sequence embeddings turn, radian, weighted by the"
        " rise"
    ),
    "assembler_norm": "Frobenius norm of the assemblers",
    "assembler_alignment": (
        "fraction of the squared norm of the assemblers along one direction"
    ),
    "update_norm": "norm of the update",
    **{
        f"remaining_{name}": f"fraction of the rise that is left: {name}"
        for name in attribution.STEP_CHANGES
    },
    **{
        f"remaining_{name}": f"change of the loss as a fraction of the rise: {step}"
        for name, step in {
            "hundredth": "a hundredth of the step",
            "descent": "a step as long along the negative gradient",
            "descent_hundredth": "a hundredth of that step",
        }.items()
    },
    "remaining_unflipped_frozen": (
        "fraction of the rise that is left: unflipped and frozen at once"
    ),
    "remaining_unflipped_held": (
        "fraction of the rise that is left: unflipped and held at once"
    ),
    "flip_steps": "steps from the foot to the peak in which a vector flips",
    "flip_rise": "fraction of the rises from the foot to the peak that flips carry",
    "largest_input_ratio": (
        "largest update of E + P over its length, from the foot to the peak"
    ),
    "largest_xi_ratio": (
        "largest update of a sequence embedding over its length, from the foot to the"
        " peak"
    ),
    "flips_in_rise": (
        "fraction of the steps from the foot to the peak in which a vector flips"
    ),
    "flips_ordinary": "the same of the steps before the spike",
    "xi_ratio_ordinary": (
        "largest update of a sequence embedding over its length in a step before the"
        " spike, median over steps"
    ),
    "closeness": (
        "probability that a crossing sequence was closer to a decision boundary than"
        " one that stays"
    ),
    "crossing_distance": (
        "median distance of crossing sequences to a decision boundary at the foot, over"
        " |xi|"
    ),
    "other_distance": (
        "the same of the other sequences that are classified correctly at the foot"
    ),
    "crossed_in_step": "fraction of the sequences that the examined step misclassifies",
    "crossed_ordinary": "the same of a step before the spike, in the mean",
    "remaining_smooth_alike": (
        "fraction of sequences that the smooth norm classifies alike before the step"
    ),
}

_MISSING_VALUES = {
    "at": ("i8", -1),
    "foot": ("i8", -1),
    "cause": ("U13", ""),
    "way": ("U9", ""),
    "explained": ("?", False),
}
"""Types other than float64, and the values for spikes that do not rise in the
replay."""


# -------------------------------------------------------------------------------- table


def cause_table(result: xr.Dataset) -> pd.DataFrame:
    """One row for each cause, for each kind of crossing, and for all spikes.

    `share`: fraction of all spikes; `height`: median height above the level before;
    `explained`: fraction that is explained; `removed_NAME`: fraction of the spikes
    whose rise a change removes, for the change of the norm among the spikes for which
    it counts."""
    cause = result["cause"].values
    kind = result["way"].values
    rows = []
    for name in attribution.SPIKE_CAUSES:
        rows.append(_cause_row(result, name, cause == name))
        if name == "feed-forward":
            for crossing_kind in attribution.CROSSING_KINDS:
                rows.append(
                    _cause_row(
                        result,
                        f"- {crossing_kind} crosses",
                        (cause == name) & (kind == crossing_kind),
                    )
                )
    return make_table([*rows, _cause_row(result, "all", cause != "")])


def _cause_row(result: xr.Dataset, name: str, members: np.ndarray) -> dict[str, Any]:
    """The row of some spikes, (spike,) bool."""

    def count_by_run(which: np.ndarray) -> np.ndarray:
        return np.bincount(
            result["of_run"].values[which], minlength=result.sizes["run"]
        )

    count = count_by_run(members)
    total = count_by_run(result["cause"].values != "")
    explained = count_by_run(members & result["explained"].values.astype(bool))
    heights = (result["top"] - result["level"]).values[members]
    row = {"cause": name, "spikes": int(members.sum())}
    row |= interval_columns("share", clustered_binomial_interval(count, total))
    row["height"] = float(np.median(heights)) if heights.size else np.nan
    row |= interval_columns("explained", clustered_binomial_interval(explained, count))
    smooth = smooth_norm_applies(result) & members
    for change in attribution.STEP_CHANGES:
        left = result[f"remaining_{change}"].values[
            smooth if change == "smooth" else members
        ]
        left = left[np.isfinite(left)]
        row[f"removed_{change}"] = (
            float((left < attribution.RISE_THRESHOLD).mean()) if left.size else np.nan
        )
    return row
