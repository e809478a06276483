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
from analysis.committors.decision import FIRM
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


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The runs whose first states are copied; without frames in between."""
    settings, _ = SYSTEMS[params["system"]]
    return [experiment_runs(settings, params, 0)]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Copies of the first state that end with the outcome, (perturbation, run)."""
    trajectory = runner.ensemble(ensembles(params)[0])
    _, outcome = SYSTEMS[params["system"]]
    start, copies = [int(trajectory["step"][0])], params["copies"]
    tables = [
        committor(trajectory, outcome, start, copies, **PERTURBATIONS[name]).isel(
            step=0, displacement=0, drop=True
        )[["committor", "trials", "outcome"]]
        for name in params["perturbations"]
    ]
    words = {
        "committor": "fraction of the copies that end with the outcome",
        "trials": "number of copies that do not diverge",
        "outcome": "whether the run itself ends with the outcome",
    }
    evidence = xr.concat(tables, "perturbation", combine_attrs="drop")
    for name, long_name in words.items():
        evidence[name].attrs = {"long_name": long_name, "units": "1"}
    return evidence.drop_vars("seed").assign_coords(
        perturbation=list(params["perturbations"])
    )


PARTICLES, NETWORKS, SPARSE = (
    declare_experiment(
        f"own.fate-{system}",
        measure,
        ensembles,
        depends={"perturbations": PERTURBATIONS, "firm": FIRM},
    )
    for system in SYSTEMS
)


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
