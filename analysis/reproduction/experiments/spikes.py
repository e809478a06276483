"""VC section 4.3, figures 13 and 14: spikes of the loss, replayed and attributed, and the assemblers behind them."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification.estimate import Estimate, as_percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import (
    NO_INTERVAL,
    binomial_interval,
    clustered_binomial_interval,
    mean_interval,
    median_interval,
)
from analysis.transitions.detection import DEFAULT_DETECTION
from analysis.transitions.loss_events import plateau_escape_times, trajectory_scalar
from analysis.transitions.spike_attribution import RISE_THRESHOLD, SMOOTH_NORM_AGREEMENT
from analysis.transitions.spike_replays import (
    FRACTION_AFTER_PEAK,
    MAX_FRAMES_BEFORE_PEAK,
    attribute_spikes,
    recorded_spikes,
    smooth_norm_applies,
)
from dynamics.settings import SparseSettings
from dynamics.trajectory.schema import read_settings

FLIPS = ("normalisation", "both")
"""Causes that a flip of a normalised vector has a part in."""

CROSSINGS = ("feed-forward", "both")
"""Causes that a decision boundary has a part in."""

CAUSES = ("normalisation", "feed-forward", "both")
"""Either or both of the two."""

TURN = 30.0
"""Degrees by which a direction turns from where a normalised vector changes a lot: by half of its length."""

KEPT = (
    "of_run", "at", "cause", "way", "explained", "normalisation_share", "feed_forward_share", "input_ratio", "xi_ratio",
    "turn", "assembler_norm", "assembler_alignment", "remaining_smooth", "remaining_smooth_alike", "remaining_half",
)  # fmt: skip
"""Of what `inquest` finds of a spike."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The recipe."""
    return [RequiredRuns(SparseSettings(**params.get("settings", {})), params["runs"], params.get("epochs"))]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Every spike's cause, and how its assemblers stand among those of other runs: (spike,). Runs: (run,)."""
    trajectory = runner.ensemble(ensembles(params)[0])
    found = attribute_spikes(trajectory, recorded_spikes(trajectory))
    left = plateau_escape_times(trajectory_scalar(trajectory, "loss"))
    evidence = found[list(KEPT)].merge(assembler_rank_among_runs(trajectory, found, left))
    about = {"long_name": "spikes of the run", "units": "1"}
    evidence["spikes"] = ("run", found["examined"].values, about)
    evidence["reach"] = ("run", step_to_length_ratio(trajectory), REACH)
    evidence["escaped"] = ("run", left["escaped"].values, {"long_name": "whether it leaves its first level"})
    return evidence.drop_vars("seed", errors="ignore")


REACH = {"long_name": "an update by the learning rate on every axis over the shortest |E + P| recorded", "units": "1"}


def step_to_length_ratio(trajectory: xr.Dataset) -> np.ndarray:
    """Length of an update by the learning rate on every axis, which is about what Adam takes, over the shortest E + P
    of any token, position and recorded frame: (run,)."""
    settings = read_settings(trajectory)
    assert isinstance(settings, SparseSettings)
    tokens, shortest = trajectory["embedding"].isel(token=slice(settings.vocab)), []
    for run in range(trajectory.sizes["run"]):
        sums = tokens.isel(run=run) + trajectory["position_embedding"].isel(run=run)
        shortest.append(np.sqrt((sums.astype(np.float64) ** 2).sum("axis")).min().item())
    return settings.lr * np.sqrt(settings.dim) / np.maximum(shortest, 1e-300)


def assembler_rank_among_runs(trajectory: xr.Dataset, found: xr.Dataset, left: xr.Dataset) -> xr.Dataset:
    """Which share of the other runs that have escaped by then have lighter assemblers than a spike's run has, in the
    last recorded frame before the step that is examined: (spike,). NaN where no other has.

    gain: their largest singular value, which is large if they are heavy, and if they are small but all alike; norm:
    the Frobenius norm; alignment: the share of the squares along one direction.
    """
    steps, last = trajectory["step"].values, trajectory["last_step"].values
    names = ("gain", "norm", "alignment")
    shares = {name: np.full(found.sizes["spike"], np.nan) for name in names}
    weights = trajectory["assembler"].transpose("run", "step", "hidden", "axis")
    for spike, (run, at) in enumerate(zip(found["of_run"].values, found["at"].values, strict=True)):
        frame = int(np.searchsorted(steps, at, side="right")) - 1
        others = left["escaped"].values & (left["escape"].values <= at) & (last >= at)
        others[run] = False
        if at < 0 or not others.any():
            continue
        values = np.linalg.svd(weights.isel(step=frame).values.astype(np.float64), compute_uv=False)  # (run, axis)
        squares = (values**2).sum(axis=1)
        for name, each in zip(names, (values[:, 0], squares, values[:, 0] ** 2 / squares), strict=True):
            shares[name][spike] = (each[others] < each[run]).mean() + (each[others] == each[run]).mean() / 2
    about = "share of other escaped runs whose assemblers have a lower {}"
    return xr.Dataset({f"{name}_rank": ("spike", each, {"long_name": about.format(name), "units": "1"})
                       for name, each in shares.items()})  # fmt: skip


SPIKES = Experiment(
    "vc.spikes",
    "every spike of the loss replayed step by step, and what caused it",
    sizes={Size.QUICK: {"runs": 24}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 25, Size.DEFAULT: 180, Size.FULL: 180},
    measure=measure,
    reduced={Size.QUICK: "24 runs in place of the 100 that the paper averages over"},
    ensembles=ensembles,
    depends={
        "rule": dataclasses.asdict(DEFAULT_DETECTION),
        "attributed": {"most": RISE_THRESHOLD, "fair": SMOOTH_NORM_AGREEMENT},
        "replayed": {"most_back": MAX_FRAMES_BEFORE_PEAK, "after": FRACTION_AFTER_PEAK},
    },
    command="python -m analysis.spikes RUN.nc",
)


# ----------------------------------------------------------------------------------------------- what was found


def runs_with_spikes(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs whose training loss spikes."""
    counts = evidence["spikes"].values
    interval = as_percentage(binomial_interval(int((counts > 0).sum()), len(counts)))
    return Estimate(interval, len(counts), note=f"{int(counts.sum())} spikes in all")


def _spikes_that_replay(evidence: xr.Dataset) -> xr.Dataset:
    """The spikes that rise when they are replayed."""
    return evidence.isel(spike=evidence["cause"].values != "")


def _percentage_of_spikes(
    evidence: xr.Dataset, hits: np.ndarray, of: str, note: str = "", whole: np.ndarray | None = None
) -> Estimate:
    """Spikes (spike,) bool as a percentage of all, or of `whole`, with an interval by runs."""
    runs, of_run = evidence.sizes["run"], evidence["of_run"].values.astype(np.int64)
    whole = np.ones(len(of_run), bool) if whole is None else whole
    counts, totals = (np.bincount(of_run[chosen], minlength=runs) for chosen in (hits & whole, whole))
    if not totals.any():
        return Estimate(NO_INTERVAL, 0, of, note=f"no {of}")
    interval = as_percentage(clustered_binomial_interval(counts, totals))
    within = f"in {int((totals > 0).sum())} runs"
    return Estimate(interval, int(totals.sum()), of, note=f"{note}; {within}" if note else within)


def caused_spikes(evidence: xr.Dataset, causes: tuple[str, ...]) -> Estimate:
    """Percentage of spikes with one of some causes."""
    some = _spikes_that_replay(evidence)
    note = ""
    if causes == FLIPS and some.sizes["spike"]:
        most = [float(some[name].max()) for name in ("input_ratio", "xi_ratio")]
        note = f"the largest update of E + P is {most[0]:.2f} of its length, of a sequence embedding {most[1]:.2f}"
    return _percentage_of_spikes(some, np.isin(some["cause"].values, causes), "spikes", note)


def turned_spikes(evidence: xr.Dataset) -> Estimate:
    """Percentage of spikes in whose step the normalised sequence embeddings turn by more than TURN, in the mean
    weighted by what each has of the rise."""
    some = _spikes_that_replay(evidence)
    degrees = np.degrees(some["turn"].values)
    far = int((some["input_ratio"].values >= np.sin(np.radians(TURN))).sum())
    note = f"in the middle spike by {np.median(degrees):.1f} degrees" if degrees.size else ""
    note += f"; an E + P moves far enough to turn so in {far} spikes" if degrees.size else ""
    return _percentage_of_spikes(some, degrees > TURN, "spikes", note)


def caused_or_turned(evidence: xr.Dataset) -> Estimate:
    """Percentage of spikes with one of the causes, or whose vectors turn by more than TURN."""
    some = _spikes_that_replay(evidence)
    hits = np.isin(some["cause"].values, CAUSES) | (np.degrees(some["turn"].values) > TURN)
    return _percentage_of_spikes(some, hits, "spikes")


def spikes_without_flip(evidence: xr.Dataset) -> Estimate:
    """Percentage of spikes whose rise no flip carries."""
    some = _spikes_that_replay(evidence)
    return _percentage_of_spikes(some, ~np.isin(some["cause"].values, FLIPS), "spikes")


def crossed_by_embedding(evidence: xr.Dataset) -> Estimate:
    """Of the spikes in which sequences cross a boundary, the percentage in which the embeddings have moved over it."""
    some = _spikes_that_replay(evidence)
    crossing = np.isin(some["cause"].values, CROSSINGS)
    return _percentage_of_spikes(some, some["way"].values == "embedding", "spikes with crossings", whole=crossing)


def crossing_update(evidence: xr.Dataset) -> Estimate:
    """Largest update of a sequence embedding, in percent of its length, in spikes with crossings: median over runs of
    the run's median."""
    some = _spikes_that_replay(evidence)
    some = some.isel(spike=np.isin(some["cause"].values, CROSSINGS))
    values = 100 * _median_by_run(some, "xi_ratio", np.median)
    if not values.size:
        return Estimate(NO_INTERVAL, 0, note="no spike in which sequences cross a boundary")
    return Estimate(median_interval(values), len(values), "runs with such spikes")


def _median_by_run(some: xr.Dataset, name: str, middle=np.mean) -> np.ndarray:
    """Middle of a measure over each run's spikes, of runs that have any."""
    values, of_run = some[name].values, some["of_run"].values
    finite = np.isfinite(values)
    return np.array([middle(values[finite & (of_run == run)]) for run in np.unique(of_run[finite])])


def mean_assembler_rank(evidence: xr.Dataset) -> Estimate:
    """In spikes with crossings, the percentage of other escaped runs with a lower gain of the assemblers: mean over
    runs of the run's mean; 50 is chance."""
    some = _spikes_that_replay(evidence)
    some = some.isel(spike=np.isin(some["cause"].values, CROSSINGS))
    values, norm, alignment = (100 * _median_by_run(some, f"{name}_rank") for name in ("gain", "norm", "alignment"))
    if not values.size:
        return Estimate(NO_INTERVAL, 0, note="no spike in which sequences cross a boundary")
    note = f"by norm alone {norm.mean():.0f}%, by alignment alone {alignment.mean():.0f}%"
    found = mean_interval(values)
    return Estimate(
        found, len(values), "runs with such spikes", found.value / 50 - 1, "rank-biserial correlation", note
    )


def removed_by_smoothing(evidence: xr.Dataset) -> Estimate:
    """Percentage of spikes before which the smooth norm hardly changes what is what, and that it removes."""
    some = _spikes_that_replay(evidence)
    same = smooth_norm_applies(some)
    note = f"before {int(same.sum())} both norms classify alike"
    return _percentage_of_spikes(some, same & (some["remaining_smooth"].values < RISE_THRESHOLD), "spikes", note)


def removed_by_half_step(evidence: xr.Dataset) -> Estimate:
    """Percentage of spikes of whose rise half the step leaves less than half."""
    some = _spikes_that_replay(evidence)
    return _percentage_of_spikes(some, some["remaining_half"].values < RISE_THRESHOLD, "spikes")


def within_step_of_origin(evidence: xr.Dataset) -> Estimate:
    """Percentage of runs that have an E + P which an update by the learning rate could turn around."""
    values = evidence["reach"].values
    interval = as_percentage(binomial_interval(int((values > 1).sum()), len(values)))
    return Estimate(interval, len(values), note=f"the largest such update is {values.max():.2f} of the length")
