"""When the ends of runs are decided: committors of their first states.

The committor of a state is the probability that a copy of it, slightly perturbed, ends
with an outcome (`analysis.committors`). The states explain a part of the variance of
the outcome over runs and copies; what is left is due to the perturbation."""

from collections.abc import Mapping, Sequence
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
    note = f"{int((row['outcome'] == 1).sum())} of {row.sizes['run']} end so"
    interval = as_percentage(explained_variance(row))
    return Estimate(interval, row.sizes["run"], "runs", note=note)


def explained_less_left(evidence: xr.Dataset, perturbation: str) -> Estimate:
    """The same less what is left to the perturbation, in points."""
    explained = explained_by_start(evidence, perturbation)
    difference = Interval(*(2 * share - 100 for share in explained.interval))
    return explained._replace(interval=difference)


def left_to_perturbation(evidence: xr.Dataset, perturbation: str) -> Estimate:
    """Percentage of the variance of the outcome that the first state does not
    explain."""
    explained = explained_by_start(evidence, perturbation)
    value, low, high = (100 - share for share in explained.interval)
    return explained._replace(interval=Interval(value, high, low))


def decided_number(perturbation: str) -> Number:
    """Whether more of the outcome is explained than left."""
    return Number(
        lambda evidence: explained_less_left(evidence, perturbation),
        Sign.POSITIVE,
        f"explained less unexplained variance, {perturbation}",
        "points",
        0,
    )


PARTICLES_START = Claim(
    "OWN.fate-particles",
    "",
    "",
    "The first positions of particles explain most of whether they form a circle.",
    (decided_number("displaced by 1%"),),
    "f_a = 2; copies of the first positions of each run are displaced by a normal number"
    " of 1% of their spread.",
    summary="the first positions of particles decide most of whether they form a"
    " circle",
)
NETWORKS_START = Claim(
    "OWN.fate-networks",
    "",
    "",
    "The initial weights of CA's network explain most of whether its embeddings form a"
    " circle.",
    (decided_number("displaced by 5%"), decided_number("displaced by 20%")),
    "Weight decay 1; all weights of the copies are displaced by a share of the spread"
    " of their variable. What the weights explain depends on how far copies are"
    " displaced.",
)


def left_number(perturbation: str) -> Number:
    """What the first state leaves to the perturbation."""
    return Number(
        lambda evidence: left_to_perturbation(evidence, perturbation),
        Sign.POSITIVE,
        f"variance that the initial weights do not explain, {perturbation}",
        "%",
        0,
    )


SPARSE_START = Claim(
    "OWN.fate-sparse",
    "",
    "",
    "Whether VC's network learns the task is decided only in part by its initial"
    " weights.",
    (
        left_number("other mini-batches"),
        Number(
            lambda evidence: explained_by_start(evidence, "other mini-batches"),
            Sign.POSITIVE,
            "variance that the initial weights explain, other mini-batches",
            "%",
            0,
        ),
        left_number("displaced by 1%"),
    ),
    "The outcome is a test accuracy above .98 after 1000 epochs. A displacement of the"
    " initial weights by 1% leaves about as much to chance as other mini-batches.",
    summary="both the initial weights and the mini-batches decide whether VC's network"
    " learns",
)

# ------------------------------------------------------------------------- later states


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


def gain_number(first: int, epochs: str) -> Number:
    """What a later state explains beyond an earlier one."""
    return Number(
        lambda evidence: explained_gain(evidence, first, first + 1),
        Sign.POSITIVE,
        f"gain of explained variance from epoch {epochs}",
        "points",
        0,
    )


LATER = Claim(
    "OWN.fate-epochs",
    "",
    "",
    "In the course of training the mini-batches decide the rest: a state at epoch 300"
    " explains more of the outcome than the initial weights, and one at 600 more"
    " still.",
    (gain_number(0, "0 to 300"), gain_number(1, "300 to 600")),
    "Copies of the states of VC's network with other mini-batches; at epoch 600 hardly"
    " anything is left to them.",
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
