"""When the ends of runs are decided: committors of their first states.

The committor of a state is the probability that a copy of it, slightly perturbed, ends
with an outcome (`analysis.committors`). Where the first state explains most of the
variance of the outcome over runs and copies, it decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis.committors import explained_variance
from analysis.committors.branching_probability import committor
from analysis.committors.decision import FIRM, explained_fraction
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    experiment_runs,
    samples,
)
from analysis.statistics.resampling import jackknife_runs
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    Settings,
    SparseSettings,
)

SYSTEMS: Mapping[str, tuple[Settings, str]] = {
    "particles": (ParticleSettings(fa=2.0), "circle"),
    "networks": (ModularSettings(weight_decay=1.0), "circle"),
    "sparse": (SparseSettings(), "accuracy"),
}
"""Settings and outcome by the name of the experiment."""

PERTURBATIONS: Mapping[str, dict[str, Any]] = {
    "displaced by 1%": {"displace": 0.01},
    "displaced by 5%": {"displace": 0.05},
    "displaced by 20%": {"displace": 0.2},
    "other mini-batches": {"displace": 0.0, "reshuffle": True},
}


WORDS = {
    "committor": "fraction of the copies that end with the outcome",
    "trials": "number of copies that do not diverge",
    "outcome": "whether the run itself ends with the outcome",
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The runs whose states are copied; for copies of first states without frames in
    between."""
    settings, _ = SYSTEMS[params["system"]]
    return [experiment_runs(settings, params, params.get("every", 0))]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Copies of the first state that end with the outcome, (perturbation, run)."""
    trajectory = runner.ensemble(ensembles(params)[0])
    _, outcome = SYSTEMS[params["system"]]
    start, copies = [int(trajectory["step"][0])], params["copies"]
    tables = [
        committor(trajectory, outcome, start, copies, **PERTURBATIONS[name]).isel(
            step=0, displacement=0, drop=True
        )[list(WORDS)]
        for name in params["perturbations"]
    ]
    evidence = xr.concat(tables, "perturbation", combine_attrs="drop")
    return _with_words(evidence.drop_vars("seed")).assign_coords(
        perturbation=list(params["perturbations"])
    )


def _with_words(evidence: xr.Dataset) -> xr.Dataset:
    """Add descriptions to the variables of evidence."""
    for name, long_name in WORDS.items():
        evidence[name].attrs = {"long_name": long_name, "units": "1"}
    return evidence


PARTICLES, NETWORKS, SPARSE = (
    declare_experiment(
        f"own.fate-{system}",
        measure,
        ensembles,
        depends={"perturbations": PERTURBATIONS, "firm": FIRM},
    )
    for system in SYSTEMS
)


def measure_epochs(runner: Runner, params: Params) -> xr.Dataset:
    """Copies of the states at some epochs, with mini-batches of their own, that end
    with the outcome, (epoch, run)."""
    (need,) = ensembles(params)
    _, outcome = SYSTEMS[params["system"]]
    steps = [epoch * (need.settings.epoch_steps or 1) for epoch in params["starts"]]
    table = committor(
        runner.ensemble(need), outcome, steps, params["copies"], 0.0, reshuffle=True
    )
    evidence = table.isel(displacement=0, drop=True)[list(WORDS)]
    evidence = evidence.assign_coords(step=list(params["starts"]))
    return _with_words(evidence.rename(step="epoch").drop_vars("seed"))


EPOCHS = declare_experiment(
    "own.fate-epochs", measure_epochs, ensembles, depends={"firm": FIRM}
)


def explained_gain(evidence: xr.Dataset, first: int, last: int) -> Estimate:
    """Percentage of the variance of the outcome that the state at the last of two
    measured epochs (their indices) explains, minus that at the first, in points."""
    rows = evidence.isel(epoch=[first, last]).transpose("epoch", "run")
    rows = rows.isel(run=(rows["trials"] > 1).all("epoch").values)
    committors, trials = rows["committor"].values, rows["trials"].values

    def gain(runs: np.ndarray) -> float:
        before, after = (
            explained_fraction(committors[at, runs], trials[at, runs]) for at in (0, 1)
        )
        return after - before

    interval = as_percentage(jackknife_runs(gain, committors.shape[1]))
    note = "" if np.isfinite(interval.value) else "all copies end alike"
    return Estimate(interval, committors.shape[1], "runs", note=note)


def explained_by_start(evidence: xr.Dataset, perturbation: str) -> Estimate:
    """Percentage of the variance of the outcome that the first state explains."""
    row = evidence.sel(perturbation=perturbation).expand_dims(["step", "displacement"])
    row = row.transpose("run", ...)
    note = f"{int((row['outcome'] == 1).sum())} of {row.sizes['run']} end so"
    interval = as_percentage(explained_variance(row))
    return Estimate(interval, row.sizes["run"], "runs", note=note)


def firm_runs(evidence: xr.Dataset, perturbation: str) -> Estimate:
    """Percentage of runs as which at least 90% of the copies of their first state
    end."""
    row = evidence.sel(perturbation=perturbation)
    agreement = np.where(row["outcome"] == 1, row["committor"], 1 - row["committor"])
    return samples.percentage_of_ones(agreement >= FIRM, "runs")
