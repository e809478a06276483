"""VC section 4.1: the same first weights under other learning rates and batch sizes."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.clustering_heads.init_dependence import ENDPOINT_MEASURES, endpoint_similarity
from analysis.reproduction.verification.estimate import Estimate, as_percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.statistics.intervals import NO_INTERVAL, clustered_binomial_interval, mean_interval
from analysis.statistics.ranks import rank_correlation
from analysis.statistics.resampling import jackknife_runs
from analysis.transitions.detection import DEFAULT_DETECTION
from analysis.transitions.loss_events import plateau_escape_times, trajectory_scalar
from dynamics.settings import SparseSettings
from dynamics.trajectory.schema import read_settings

CHANGES: tuple[dict, ...] = ({"lr": 0.002}, {"lr": 0.005}, {"batch": 16}, {"batch": 64})
"""Settings that are changed, one at a time, by a factor of 2 at most."""

EVERY = 5
"""Epochs between frames."""

TWICE = 2.0
"""Factor by which times are far apart."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The recipe, and with each change; the recipe's with every epoch, as others need it."""
    base, epochs = SparseSettings(**params.get("settings", {})), params.get("epochs")
    changed = params.get("changes", CHANGES)
    others = [RequiredRuns(dataclasses.replace(base, **each), params["runs"], epochs, EVERY) for each in changed]
    return [RequiredRuns(base, params["runs"], epochs), *others]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """When runs escape, (setting, run), and how alike their ends are to those with the recipe, (change, run)."""
    base, *changed = ensembles(params)
    first = runner.ensemble(base)
    first = first.isel(step=slice(None, None, EVERY)) if (first.sizes["step"] - 1) % EVERY == 0 else first
    names = ["recipe", *(_name(base, each) for each in changed)]
    others = [runner.ensemble(each) for each in changed]
    likeness = xr.concat([_alike(first, each) for each in others], "change").assign_coords(change=names[1:])
    waits = xr.concat([_waits(each) for each in (first, *others)], "setting").assign_coords(setting=names)
    return likeness.merge(waits)


def _name(base: RequiredRuns, other: RequiredRuns) -> str:
    """Which setting is another, and what."""
    before, after = vars(base.settings), vars(other.settings)
    return ", ".join(f"{name} {after[name]:g}" for name in after if before[name] != after[name])


def _alike(first: xr.Dataset, other: xr.Dataset) -> xr.Dataset:
    """Each of `MEASURES` between a run's two ends, and its mean between that run's end and those of other runs."""
    result, found = {}, endpoint_similarity(first, other)
    for name, (about, _) in ENDPOINT_MEASURES.items():
        matrix = found[name].values
        apart = np.where(np.eye(len(matrix), dtype=bool), np.nan, matrix)
        known = np.isfinite(apart).any(axis=1)
        usual = np.full(len(matrix), np.nan)
        usual[known] = np.nanmean(apart[known], axis=1)
        result[f"own_{name}"] = ("run", np.diagonal(matrix), {"long_name": f"{about}, same seed", "units": "1"})
        result[f"other_{name}"] = ("run", usual, {"long_name": f"{about}, other seeds", "units": "1"})
    return xr.Dataset(result)


def _waits(trajectory: xr.Dataset) -> xr.Dataset:
    """When a run leaves its first level, in epochs, and whether it does."""
    settings, found = read_settings(trajectory), plateau_escape_times(trajectory_scalar(trajectory, "loss"))
    assert isinstance(settings, SparseSettings)
    about = {"long_name": "when the first level is left, or watching ends", "units": "epochs"}
    epochs, escaped = found["escape"].values / settings.epoch_steps, found["escaped"].values
    return xr.Dataset(
        {"wait": ("run", epochs, about), "escaped": ("run", escaped, {"long_name": "whether the first level is left"})}
    )


RELATIVES = Experiment(
    "vc.relatives",
    "the same first weights under other learning rates and batch sizes: when they escape, where they end",
    sizes={Size.QUICK: {"runs": 24}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 5, Size.DEFAULT: 10, Size.FULL: 10},
    measure=measure,
    reduced={Size.QUICK: "24 runs in place of the 100 that the paper averages over"},
    ensembles=ensembles,
    depends={"rule": dataclasses.asdict(DEFAULT_DETECTION), "every": EVERY},
    command="python -m analysis.circuits A.nc OTHER.nc",
)


# ----------------------------------------------------------------------------------------------- what was found


def escape_times_apart(evidence: xr.Dataset) -> Estimate:
    """Percentage of pairs, one run with the recipe and with a change, whose escapes are apart by a factor of TWICE.

    One that does not escape counts where it was watched for that long; pairs of which it cannot be told are left out.
    """
    wait, escaped = evidence["wait"].values, evidence["escaped"].values.astype(bool)
    base, other = wait[:1], wait[1:]
    both = escaped[:1] & escaped[1:]
    low, high = np.minimum(base, other), np.maximum(base, other)
    far = high > TWICE * np.maximum(low, 1e-300)
    first_alone = escaped[:1] & ~escaped[1:] & (other > TWICE * base)
    second_alone = ~escaped[:1] & escaped[1:] & (base > TWICE * other)
    known = both | first_alone | second_alone
    hits = ((both & far) | first_alone | second_alone).sum(axis=0)
    left = int((escaped[:1] | escaped[1:]).sum() - known.sum())
    note = f"{left} pairs of which one escapes too late to tell, and those of which none does, are left out"
    return Estimate(
        as_percentage(clustered_binomial_interval(hits, known.sum(axis=0))),
        int(known.sum()),
        "pairs of runs",
        note=note,
    )


def escape_time_correlation(evidence: xr.Dataset) -> Estimate:
    """Rank correlation of escape times with the recipe and with a change, mean over changes, of runs that escape in
    both; the interval is by runs."""
    wait, escaped = evidence["wait"].values, evidence["escaped"].values.astype(bool)

    def mean(runs: np.ndarray) -> float:
        values = []
        for other in range(1, len(wait)):
            both = runs[escaped[0, runs] & escaped[other, runs]]
            values.append(rank_correlation(wait[0, both], wait[other, both]).value)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    ever = np.flatnonzero(escaped[0] & escaped[1:].any(axis=0))
    if len(ever) < 4:
        return Estimate(NO_INTERVAL, len(ever), note="too few runs escape with both settings")
    found = jackknife_runs(lambda places: mean(ever[places]), len(ever))
    return Estimate(found, len(ever), "runs that escape", found.value, "Spearman's rho")


def end_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """A measure between the ends of a run with the recipe and with a change: mean over changes, then over runs."""
    own, other = (evidence[f"{whose}_{name}"].mean("change").values for whose in ("own", "other"))
    own, other = own[np.isfinite(own)], other[np.isfinite(other)]
    if not own.size:
        return Estimate(NO_INTERVAL, 0, note="all runs have diverged")
    by_change = ", ".join(f"{float(each.mean()):.2f} with {each['change'].item()}"
                          for each in evidence[f"own_{name}"])  # fmt: skip
    return Estimate(mean_interval(own), len(own), note=f"{by_change}; between different seeds {other.mean():.2f}")


def excess_end_similarity(evidence: xr.Dataset, name: str) -> Estimate:
    """How much nearer a run's ends are to each other than to those of other seeds, mean over changes, then runs."""
    apart = (evidence[f"other_{name}"] - evidence[f"own_{name}"]).mean("change").values
    apart = apart[np.isfinite(apart)]
    if not apart.size:
        return Estimate(NO_INTERVAL, 0, note="all runs have diverged")
    spread = float(apart.std(ddof=1)) if apart.size > 1 else 0.0
    size = float(apart.mean() / spread) if spread > 0 else float("nan")
    return Estimate(mean_interval(apart), len(apart), "runs", size, "Cohen's d, paired")
