"""When the ends of runs are decided: committors of their first states.

The committor of a state is the probability that a copy of it, slightly perturbed, ends
with an outcome (`analysis.committors`). The states explain a part of the variance of
the outcome over runs and copies; what is left is due to the perturbation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from analysis.committors import explained_variance
from analysis.committors.branching_probability import committor
from analysis.committors.decision import explained_fraction
from analysis.reproduction.claim import Claim, Number, Sign
from analysis.reproduction.estimates import Estimate, as_percentage
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    experiment_runs,
)
from analysis.statistics.intervals import Interval
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
    start = [int(trajectory["step"][0])]
    copies = params["copies"]
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


def _with_words(evidence: xr.Dataset) -> xr.Dataset:
    """Add descriptions to the variables of evidence."""
    for name, long_name in WORDS.items():
        evidence[name].attrs = {"long_name": long_name, "units": "1"}
    return evidence


# ------------------------------------------------------------------------- first states


def explained_by_start(evidence: xr.Dataset, perturbation: str) -> Estimate:
    """Percentage of the variance of the outcome that the first state explains."""
    row = evidence.sel(perturbation=perturbation).expand_dims(["step", "displacement"])
    row = row.transpose("run", ...)
    has_outcome, ends = row["outcome"] == 1, row["committor"]
    same = float(xr.where(has_outcome, ends, 1 - ends).mean())
    note = (
        f"{int(has_outcome.sum())} of {row.sizes['run']} have the outcome;"
        f" {100 * same:.0f}% of the copies end as their run"
    )
    interval = as_percentage(explained_variance(row))
    return Estimate(interval, row.sizes["run"], "runs", note=note)


def explained_less_left(evidence: xr.Dataset, perturbation: str) -> Estimate:
    """The same less what is left to the perturbation, in points."""
    explained = explained_by_start(evidence, perturbation)
    difference = Interval(*(2 * share - 100 for share in explained.interval))
    return explained._replace(interval=difference)


def decided_number(perturbation: str) -> Number:
    """Whether more of the outcome is explained than left."""
    return Number(
        lambda evidence: explained_less_left(evidence, perturbation),
        Sign.POSITIVE,
        f"variance of the ends that first states explain, less the rest, {perturbation}",
        "points",
        0,
    )


PARTICLES_START = Claim(
    "OWN.fate-particles",
    "",
    "",
    "Whether particles form a circle depends more on their first positions than on a"
    " displacement of these by 1%.",
    (decided_number("displaced by 1%"),),
    "f_a = 2; copies of the first positions of each run are displaced by a normal number"
    " of 1% of their spread. The simulation has no chance of its own, so that exact first"
    " positions would explain everything.",
    summary="small displacements of the first positions seldom change whether particles"
    " form a circle",
)
NETWORKS_START = Claim(
    "OWN.fate-networks",
    "",
    "",
    "Whether CA's network forms a circle depends more on its initial weights than on a"
    " displacement of these by 5%.",
    (decided_number("displaced by 5%"), decided_number("displaced by 20%")),
    "Weight decay 1; all weights of the copies are displaced by a share of the spread"
    " of their variable. If they are displaced by 20%, the initial weights explain about"
    " half. Training has no chance of its own.",
)


SPARSE_START = Claim(
    "OWN.fate-sparse",
    "",
    "",
    "Initial weights explain more than half of whether VC's network learns the task.",
    (decided_number("other mini-batches"), decided_number("displaced by 1%")),
    "The outcome is a test accuracy above .98 after 1000 epochs. A displacement of the"
    " initial weights by 1% leaves about as much open as other mini-batches.",
    summary="initial weights explain more than half of whether VC's network learns",
)

# ------------------------------------------------------------------------- later states


def combine_explained(
    evidence: xr.Dataset, combination: Callable[[list[float]], float]
) -> Estimate:
    """A combination of the fractions of the variance of the outcome that the states at
    the measured epochs explain, as a percentage."""
    rows = evidence.transpose("epoch", "run")
    rows = rows.isel(run=(rows["trials"] > 1).all("epoch").values)
    committors = rows["committor"].values
    trials = rows["trials"].values

    def combined(runs: np.ndarray) -> float:
        samples = zip(committors[:, runs], trials[:, runs], strict=True)
        return combination([explained_fraction(*sample) for sample in samples])

    interval = as_percentage(jackknife_runs(combined, committors.shape[1]))
    note = "" if np.isfinite(interval.value) else "all copies end alike"
    return Estimate(interval, committors.shape[1], "runs", note=note)


LATER = Claim(
    "OWN.fate-epochs",
    "",
    "",
    "Of what the initial weights of VC's network leave open, the state at epoch 300"
    " explains more than half.",
    (
        Number(
            lambda evidence: combine_explained(
                evidence, lambda explained: 2 * explained[1] - explained[0] - 1
            ),
            Sign.POSITIVE,
            "what the state at epoch 300 explains beyond the initial weights, less what"
            " it leaves open",
            "points",
            0,
        ),
        Number(
            lambda evidence: combine_explained(
                evidence, lambda explained: explained[2] - explained[1]
            ),
            Sign.POSITIVE,
            "what the state at epoch 600 explains beyond that at 300",
            "points",
            0,
        ),
    ),
    "Copies of the states of VC's network with other mini-batches. A later state"
    " explains at least as much by construction; the result is how early.",
    summary="the mini-batches of the first 300 epochs decide more than half of what the"
    " initial weights leave open",
)

# -------------------------------------------------------------------------- experiments


def fate_experiment(
    system: str,
    what: str,
    seconds: float,
    copies: int,
    perturbations: Sequence[str],
    claim: Claim,
) -> Experiment:
    """Copies of the first states of a system; a fifth of them at the quick size."""
    params = {"system": system, "runs": 100, "perturbations": list(perturbations)}
    return Experiment(
        f"own.fate-{system}",
        f"copies of the first states of {what}, and how they end",
        measure,
        quick=Sizing(
            seconds / 5, {**params, "copies": copies // 5}, "a fifth of the copies"
        ),
        default=Sizing(seconds, {**params, "copies": copies}),
        ensembles=ensembles,
        depends={"perturbations": PERTURBATIONS},
        command="python -m analysis.fate RUN.nc",
        claims=(claim,),
    )


PARTICLES = fate_experiment(
    "particles",
    "particles at f_a = 2",
    20,
    100,
    ["displaced by 1%"],
    PARTICLES_START,
)
NETWORKS = fate_experiment(
    "networks",
    "CA's networks at weight decay 1",
    120,
    20,
    ["displaced by 5%", "displaced by 20%"],
    NETWORKS_START,
)
SPARSE = fate_experiment(
    "sparse",
    "VC's networks",
    480,
    10,
    ["displaced by 1%", "other mini-batches"],
    SPARSE_START,
)
EPOCHS = Experiment(
    "own.fate-epochs",
    "copies of the states of VC's networks at some epochs, with mini-batches of their"
    " own, and how they end",
    measure_epochs,
    default=Sizing(
        360,
        {
            "system": "sparse",
            "runs": 50,
            "copies": 10,
            "every": 300,
            "starts": [0, 300, 600],
        },
    ),
    ensembles=ensembles,
    command="python -m analysis.fate RUN.nc --reshuffle",
    claims=(LATER,),
)
