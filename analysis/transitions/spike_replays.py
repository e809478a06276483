"""The spikes of a trajectory of VC's network, each replayed step by step and examined
(`analysis.transitions.spike_attribution`)."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from numba import get_num_threads
from tqdm import tqdm

from analysis.transitions.detection import DEFAULT_DETECTION, DetectionConfig
from analysis.transitions.loss_events import event_table, trajectory_scalar
from analysis.transitions.spike_attribution import (
    SMOOTH_NORM_AGREEMENT,
    STEP_CHANGES,
    LossRise,
    SpikeStep,
    TrainingSequences,
    crossing_kind,
    is_explained,
    locate_loss_rise,
    spike_cause,
    training_sequences,
)
from dynamics.branching import replay
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of, weights

MAX_FRAMES_BEFORE_PEAK, FRACTION_AFTER_PEAK = 5, 0.5
"""Recorded frames before a spike's peak in which its rise may begin; part of one that is replayed after it."""


class RecordedSpike(NamedTuple):
    """A spike as it was recorded."""

    run: int
    seed: int
    step: int
    level: float
    """Loss before, at recorded frames."""
    height: float
    """Loss at its recorded peak."""


def recorded_spikes(trajectory: xr.Dataset, rule: DetectionConfig = DEFAULT_DETECTION) -> list[RecordedSpike]:
    """All spikes of the training loss, by run and step. Raises TrajectoryError."""
    clustering_head_of(trajectory)
    found, seeds = event_table(trajectory_scalar(trajectory, "loss"), rule), trajectory["seed"].values
    at = np.flatnonzero(found["kind"].values == "spike")
    columns = (found[name].values[at] for name in ("of_run", "middle", "before", "after"))
    return [
        RecordedSpike(int(run), int(seeds[run]), int(step), float(level), float(height))
        for run, step, level, height in zip(*columns, strict=True)
    ]


def evenly_spaced_spikes(spikes: list[RecordedSpike], most: int | None) -> list[RecordedSpike]:
    """So many of them, evenly spaced in their order, or all."""
    if most is None or most >= len(spikes):
        return spikes
    return [spikes[k] for k in np.linspace(0, len(spikes) - 1, most).round().astype(int)]


# ---------------------------------------------------------------------------------------------- one spike


def examine_spike(
    trajectory: xr.Dataset, spike: RecordedSpike, on: TrainingSequences
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """What was found of a spike, and the steps and losses of its replay. Without a rise, nothing is found.

    Raises TrajectoryError, Interrupted.
    """
    first, begin, last = replay_span(trajectory, spike)
    path = replay(trajectory, spike.run, first, last)
    loss = path["loss"].sel(split="train").values[0].astype(np.float64)
    steps = path["step"].values
    calm = max(1, begin - first)
    rise = locate_loss_rise(loss[begin - first :], float(np.median(loss[:calm])))
    if rise is None:
        return {}, steps, loss
    rise = LossRise(*(place + begin - first for place in rise))
    with torch.no_grad():
        step = spike_step(path, clustering_head_of(trajectory), rise, on, calm)
        measured, remaining = step.measured(), step.remaining()
    return (
        {
            "at": int(steps[rise.step]),
            "foot": int(steps[rise.foot]),
            "top": float(loss.max()),
            "cause": spike_cause(measured),
            "way": crossing_kind(measured),
            "explained": is_explained(measured, remaining),
            **measured,
            **{f"remaining_{name}": value for name, value in remaining.items()},
        },
        steps,
        loss,
    )


def replay_span(trajectory: xr.Dataset, spike: RecordedSpike) -> tuple[int, int, int]:
    """Steps at which a spike's replay begins, from which its rise is looked for, and at which it ends.

    The rise begins with the last recorded frame that stands no higher than a tenth of the spike; the recorded frame
    before that tells what is usual.
    """
    steps, last = trajectory["step"].values, int(trajectory["last_step"].values[spike.run])
    peak = int(np.searchsorted(steps, spike.step))
    frames = (
        trajectory["loss"]
        .isel(run=spike.run, step=slice(max(0, peak - MAX_FRAMES_BEFORE_PEAK), peak))
        .sel(split="train")
        .values
    )
    low = np.flatnonzero(frames <= spike.level + 0.1 * (spike.height - spike.level))
    begin = max(0, peak - MAX_FRAMES_BEFORE_PEAK) + int(low[-1] if low.size else np.argmin(frames))
    gap = int(steps[min(peak + 1, len(steps) - 1)]) - spike.step
    end = min(last, spike.step + max(1, round(FRACTION_AFTER_PEAK * gap)))
    return int(steps[max(0, begin - 1)]), int(steps[begin]), end


def spike_step(
    path: xr.Dataset, network: ClusteringHead, rise: LossRise, on: TrainingSequences, calm: int
) -> SpikeStep:
    """The step of a replay, which has one run and every step; so many of its first steps are calm."""
    every = {name: values[0].double() for name, values in weights(path).items()}
    moments = (rise.foot, rise.step, rise.step + 1)
    foot, before, after = ({name: values[at] for name, values in every.items()} for at in moments)
    sizes = np.sqrt((path["update_norm"].values[0, 1 : calm + 1].astype(np.float64) ** 2).sum(-1))
    return SpikeStep(network, on, foot, before, after, float(np.median(sizes)))


# ------------------------------------------------------------------------------------------ all of them


def attribute_spikes(trajectory: xr.Dataset, spikes: list[RecordedSpike], progress: bool = True) -> xr.Dataset:
    """Every spike examined, a row each; `path` (spike, offset) is its loss at the steps around its recorded peak.

    Raises TrajectoryError, Interrupted.
    """
    network = clustering_head_of(trajectory)
    by_run = [list(group) for _, group in itertools.groupby(spikes, key=lambda spike: spike.run)]

    def of_run(group: list[RecordedSpike]) -> list[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
        on = training_sequences(network.settings, group[0].seed)
        found = []
        for spike in group:
            found.append(examine_spike(trajectory, spike, on))
            bar.update()
        return found

    with (
        tqdm(total=len(spikes), unit="spike", disable=None if progress else True, leave=False) as bar,
        ThreadPoolExecutor(get_num_threads()) as pool,
    ):
        rows = [row for rows in pool.map(of_run, by_run) for row in rows]
    return _dataset(spikes, rows, trajectory)


def _dataset(
    spikes: list[RecordedSpike], rows: list[tuple[dict[str, Any], np.ndarray, np.ndarray]], trajectory: xr.Dataset
) -> xr.Dataset:
    variables: dict[str, Any] = {}
    for name, (kind, about) in RECORDED_VARIABLES.items():
        values = np.array([getattr(spike, name.removeprefix("of_")) for spike in spikes], kind)
        variables[name] = ("spike", values, {"long_name": about, "units": "1"})
    for name, about in ATTRIBUTION_VARIABLES.items():
        kind, empty = EMPTY_VALUES.get(name, ("f8", np.nan))
        values = np.array([row.get(name, empty) for row, _, _ in rows], kind)
        variables[name] = ("spike", values, {"long_name": about, "units": "1"})
    offsets, path = _paths(spikes, rows)
    variables["path"] = (("spike", "offset"), path, {"long_name": "training loss at every step", "units": "1"})
    runs = np.bincount(variables["of_run"][1], minlength=trajectory.sizes["run"])
    variables["examined"] = ("run", runs, {"long_name": "spikes examined of each run", "units": "1"})
    return xr.Dataset(variables, {"offset": offsets, "seed": ("run", trajectory["seed"].values)})


def _paths(
    spikes: list[RecordedSpike], rows: list[tuple[dict[str, Any], np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Losses on a common axis of steps from the recorded peak, NaN where there are none."""
    ends = [
        (int(steps[0]) - spike.step, int(steps[-1]) - spike.step)
        for spike, (_, steps, _) in zip(spikes, rows, strict=True)
    ]
    first, last = min((low for low, _ in ends), default=0), max((high for _, high in ends), default=0)
    path = np.full((len(spikes), last - first + 1), np.nan)
    for row, (low, high), (_, _, loss) in zip(path, ends, rows, strict=True):
        row[low - first : high - first + 1] = loss
    return np.arange(first, last + 1), path


def smooth_norm_applies(result: xr.Dataset) -> np.ndarray:
    """Of which spikes the smoothed norm says something, (spike,) bool: it alone hardly changes what is what."""
    return (result["remaining_smooth_alike"] >= SMOOTH_NORM_AGREEMENT).values


RECORDED_VARIABLES = {
    "of_run": ("i8", "place along run"),
    "of_seed": ("i8", "seed of the run"),
    "step": ("i8", "step of the recorded peak"),
    "level": ("f8", "loss before, at recorded frames"),
    "height": ("f8", "loss at the recorded peak"),
}
"""What was recorded of each spike."""

ATTRIBUTION_VARIABLES = {
    "at": "the step examined leads from here to the next",
    "foot": "step at which the loss begins to rise",
    "top": "largest loss at any step",
    "cause": "normalisation, feed-forward, both or neither; empty where the replay shows no rise",
    "way": "how decision boundaries are crossed: embedding or boundary",
    "explained": "whether the change against the cause removes the rise, and that against the other does not",
    "loss_before": "loss before the step",
    "loss_after": "loss after the step",
    "normalisation_share": "share of the rise of sequences that flips concern",
    "feed_forward_share": "share of the rise of sequences that crossed a boundary",
    "crossed": "share of the sequences that crossed a boundary",
    "by_embedding_share": "share of the rise of sequences whose embedding crossed a boundary that stays",
    "by_boundary_share": "share of the rise of sequences that a boundary crossed",
    "flipped_inputs": "number of flipped E + P",
    "flipped_sequences": "share of the sequences whose embedding flips",
    "input_ratio": "largest update of E + P over its length",
    "xi_ratio": "largest update of a sequence embedding over its length",
    "turn": "angle by which normalised sequence embeddings turn, radian, weighted by the rise",
    "assembler_norm": "Frobenius norm of the assemblers",
    "assembler_alignment": "share of the assemblers' squares along one direction",
    "update_norm": "norm of the update",
    **{f"remaining_{name}": f"part of the rise that remains: {name}" for name in STEP_CHANGES},
    "remaining_unflipped_frozen": "part of the rise that remains: unflipped and frozen at once",
    "remaining_unflipped_held": "part of the rise that remains: unflipped and held at once",
    "remaining_smooth_alike": "share of sequences that the smoothed norm classifies alike just before the step",
}
"""What was found of each spike."""

EMPTY_VALUES = {
    "at": ("i8", -1),
    "foot": ("i8", -1),
    "cause": ("U13", ""),
    "way": ("U9", ""),
    "explained": ("?", False),
}
"""Types of what is no float64, and what stands there for a spike in whose replay the loss does not rise."""
