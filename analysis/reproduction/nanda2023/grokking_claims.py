"""NA: the phases of training, and the measures that change before the network
generalises."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis import progress_measures
from analysis.output.results import dimensionless
from analysis.progress_measures.logit_components import KEY_FRACTION
from analysis.reproduction import estimates
from analysis.reproduction.claim import Claim, Number, Sign
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
)
from analysis.structures.formation_times import halfway_time
from dynamics.settings import TRANSFORMER_PRESETS
from dynamics.trajectory.diverged import not_diverged

SERIES = (
    "restricted_loss",
    "excluded_loss",
    "embedding_gini",
    "map_gini",
    "squared_weights",
)
"""Of the progress measures, those of NA."""
THRESHOLDS = {
    "memorised": progress_measures.MEMORISED,
    "generalised": progress_measures.GENERALISED,
}
"""Training and test accuracy above which a network has memorised or generalised."""
FALLING = ("test_loss", "restricted_loss", "squared_weights")
"""Measures that fall when a network generalises; the others rise."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of a preset."""
    settings = dataclasses.replace(
        TRANSFORMER_PRESETS[params["preset"]], **params.get("settings", {})
    )
    return [RequiredRuns(settings, params["runs"], params["epochs"], params["every"])]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Times and phases of the networks that have not diverged, in epochs, and their
    measures along training (run, step)."""
    trajectory = runner.ensemble(ensembles(params)[0])
    trajectory = trajectory.isel(run=not_diverged(trajectory))
    result = progress_measures.measure_progress(
        trajectory, frames=trajectory.sizes["step"]
    )
    unit = result.attrs["unit"]
    evidence = result[list(SERIES)].assign_coords(step=result["step"].values / unit)
    for name in ("memorised", "generalised", "begin", "end"):
        epochs = result[name] / unit
        evidence[name] = epochs.assign_attrs(result[name].attrs, units="1")
    losses = trajectory["loss"].sel(split="test").transpose("run", "step").values
    evidence["test_loss"] = (
        ("run", "step"),
        losses,
        dimensionless("loss of the test pairs"),
    )
    return evidence.drop_vars("seed").assign_attrs(preset=params["preset"])


# --------------------------------------------------------------------------- the phases

DELAY = Claim(
    "NA.grokking.delay",
    "section 1",
    "transition to a generalizing solution after a large number of training steps",
    "Networks memorise early and generalise much later.",
    (
        Number(
            lambda evidence: estimates.paired_difference(
                evidence["generalised"], 2 * evidence["memorised"]
            ),
            Sign.POSITIVE,
            "epochs from memorising to generalising, less those to memorising",
            "epochs",
            0,
        ),
    ),
    "Memorised: a training accuracy above .99; generalised: a test accuracy above .9."
    " Memorisation ends before the first recorded frame after the start, at epoch 400.",
    summary="networks generalise long after they have memorised",
    figure="na-phases",
)


def epochs_between(evidence: xr.Dataset, first: str, second: str) -> Estimate:
    """Epochs from half of a measure's change to half of another's, both after
    memorisation. A change is that from memorisation to the last frame."""
    return estimates.paired_difference(
        half_times(evidence, second), half_times(evidence, first)
    )


def half_times(evidence: xr.Dataset, measure: str) -> np.ndarray:
    """When a measure is last half-way between memorisation and the end, NaN for runs in
    which it does not change in its direction: (run,)."""
    sign = 1 if measure in FALLING else -1
    times = np.full(evidence.sizes["run"], np.nan)
    for run in np.flatnonzero(np.isfinite(evidence["memorised"].values)):
        one = evidence.isel(run=run)
        later = one.isel(step=one["step"].values >= float(one["memorised"]))
        falling = sign * later[measure].values
        if np.isfinite(falling).all() and falling[-1] < falling[0]:
            times[run] = halfway_time(falling, later["step"].values)
    return times


def order_number(first: str, second: str, label: str) -> Number:
    """By how many epochs one measure changes before another."""
    return Number(
        lambda evidence: epochs_between(evidence, first, second),
        Sign.POSITIVE,
        f"epochs from half of {label}",
        "epochs",
        0,
    )


def phase_values(evidence: xr.Dataset, name: str) -> xr.Dataset:
    """The `value` of a measure at the edges of circuit formation and cleanup,
    interpolated between frames, and the `epoch` of each edge: (run, edge)."""
    cleanup = evidence[["begin", "end"]].sel(phase="cleanup", drop=True)
    edges = [evidence["memorised"], cleanup["begin"], cleanup["end"]]
    epoch = xr.concat(edges, "edge").transpose("run", "edge")
    series = evidence[name].transpose("run", "step").values
    runs = zip(epoch.values, series, strict=True)
    values = [np.interp(at, evidence["step"].values, one) for at, one in runs]
    value = epoch.copy(data=np.reshape(values, epoch.shape))
    return xr.Dataset({"value": value, "epoch": epoch})


def excluded_rise(evidence: xr.Dataset) -> Estimate:
    """Decadic logarithm of the excluded loss at the end of circuit formation relative
    to its beginning."""
    loss = phase_values(evidence, "excluded_loss")["value"]
    return estimates.estimate_mean(np.log10(loss[:, 1] / loss[:, 0]))


PROGRESS = Claim(
    "NA.phases.progress",
    "section 1, section 5.2",
    "Both metrics improve continuously prior to when grokking occurs",
    "Before the test loss falls, the restricted loss falls and the excluded loss rises.",
    (
        order_number(
            "restricted_loss",
            "test_loss",
            "the fall of the restricted loss to that of the test loss",
        ),
        Number(
            excluded_rise,
            Sign.POSITIVE,
            "log10 of the excluded loss at the end of circuit formation relative to"
            " its beginning",
            digits=2,
        ),
    ),
    "The excluded loss is near its lowest at the beginning by definition; only the size"
    " of its rise counts. The restricted loss is the better sign: it has fallen by half in the first half of"
    " circuit formation. The excluded loss rises late in circuit formation, but by"
    " orders of magnitude.",
    summary="the restricted loss falls long before the test loss",
    figure="na-phases",
)


def faster_in_cleanup(evidence: xr.Dataset, name: str) -> Estimate:
    """Change of a measure in a thousand epochs of cleanup less that in circuit
    formation."""
    edges = phase_values(evidence, name)
    change, epochs = (edges[one].diff("edge") for one in ("value", "epoch"))
    rate = 1000 * change / epochs.where(epochs > 0)
    return estimates.paired_difference(rate[:, 1], rate[:, 0])


def cleanup_number(name: str, sign: Sign, label: str, digits: int) -> Number:
    """How much faster a measure changes in cleanup than in circuit formation."""
    label = f"{label} in 1000 epochs of cleanup less in circuit formation"
    return Number(
        lambda evidence: faster_in_cleanup(evidence, name), sign, label, digits=digits
    )


CLEANUP = Claim(
    "NA.phases.cleanup",
    "figure 7",
    "decreases smoothly during circuit formation and more sharply during cleanup",
    "In cleanup the squared weights fall, and the Gini coefficients rise, faster than"
    " in circuit formation.",
    (
        cleanup_number(
            "squared_weights", Sign.NEGATIVE, "change of the squared weights", 0
        ),
        cleanup_number(
            "map_gini", Sign.POSITIVE, "change of the Gini of the neuron-logit map", 2
        ),
        cleanup_number(
            "embedding_gini", Sign.POSITIVE, "change of the Gini of the embedding", 2
        ),
    ),
    "The passage is on the sum of squared weights; of the Gini coefficients the caption"
    " says that they increase sharply during cleanup.",
    figure="na-phases",
)

ORDER = Claim(
    "OWN.grokking-order",
    "",
    "",
    "The Fourier structure of the weights reaches half of its change only after the test"
    " loss has fallen by half of its fall.",
    (
        order_number(
            "test_loss",
            "map_gini",
            "the fall of the test loss to half of the rise of the Gini of the neuron-logit"
            " map",
        ),
        order_number(
            "test_loss",
            "embedding_gini",
            "the fall of the test loss to half of the rise of the Gini of the embedding",
        ),
        order_number(
            "test_loss",
            "squared_weights",
            "the fall of the test loss to half of that of the squared weights",
        ),
    ),
    "Measures of the logits (NA.phases.progress) come before the test loss, the Gini"
    " coefficients of the weights follow it.",
    summary="in NA's transformer the weights' Fourier structure reaches half of its"
    " change only after the test loss has fallen by half of its fall",
    figure="na-phases",
)

SMALLER = (
    "p = 53 and half of the pairs instead of 113 and 30%, {} epochs instead of 40,000"
)

PHASES = Experiment(
    "na.phases",
    "when transformers of NA's recipe memorise and generalise, and their progress"
    " measures on the way",
    measure,
    quick=Sizing(
        15,
        {"preset": "small", "runs": 4, "epochs": 2000, "every": 100},
        SMALLER.format("2,000"),
    ),
    default=Sizing(
        30,
        {"preset": "small", "runs": 6, "epochs": 4000, "every": 100},
        SMALLER.format("4,000"),
    ),
    full=Sizing(1200, {"preset": "nanda", "runs": 5, "epochs": 40000, "every": 400}),
    ensembles=ensembles,
    depends={**THRESHOLDS, "keys": KEY_FRACTION},
    command="python -m analysis.progress",
    claims=(DELAY, PROGRESS, CLEANUP, ORDER),
)
