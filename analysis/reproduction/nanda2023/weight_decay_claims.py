"""NA: networks of NA's recipe with weight decay and without it."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis import progress_measures
from analysis.reproduction import estimates
from analysis.reproduction.claim import Claim, Number, Sign, exact_number
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    measure_ensembles,
)
from analysis.reproduction.nanda2023.grokking_claims import THRESHOLDS
from dynamics.settings import TRANSFORMER_PRESETS

DECAYS = (0.0, 1.0)
QUANTITIES = {
    "generalised": "whether the test accuracy is above .9 in a recorded epoch",
    "memorised": "whether the training accuracy is above .99 in a recorded epoch",
    "test_accuracy": "accuracy of the test pairs at the end, %",
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of a preset without and with weight decay."""
    preset = dataclasses.replace(
        TRANSFORMER_PRESETS[params["preset"]], **params.get("settings", {})
    )
    return [
        RequiredRuns(
            dataclasses.replace(preset, weight_decay=decay),
            params["runs"],
            params["epochs"],
            params["every"],
            record="metrics",
        )
        for decay in DECAYS
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Whether each network has generalised and memorised, and its last test accuracy,
    (weight_decay, run)."""
    evidence = measure_ensembles(
        runner, ensembles(params), QUANTITIES, _measure_runs, ("weight_decay", "run")
    )
    return evidence.assign_coords(weight_decay=list(DECAYS))


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (run,)."""
    times = progress_measures.grokking_times(trajectory)
    accuracy = trajectory["accuracy"].sel(split="test").isel(step=-1)
    return {
        "generalised": np.isfinite(times["generalised"].values),
        "memorised": np.isfinite(times["memorised"].values),
        "test_accuracy": 100 * accuracy.values,
    }


def without_and_with(evidence: xr.Dataset, name: str) -> list[xr.DataArray]:
    """A quantity without and with weight decay, each (run,)."""
    return [evidence[name].sel(weight_decay=decay) for decay in DECAYS]


def more_generalise(evidence: xr.Dataset) -> Estimate:
    """Percentage of the networks that generalise with weight decay, less that without,
    in points."""
    without, decayed = without_and_with(evidence, "generalised")
    return estimates.difference_of_ones(decayed, without, "networks")


def more_accurate(evidence: xr.Dataset) -> Estimate:
    """Test accuracy at the end with weight decay less that without, of equal seeds, in
    points."""
    without, decayed = without_and_with(evidence, "test_accuracy")
    return estimates.paired_difference(decayed, without, "seeds")


NEEDED = Claim(
    "NA.weight-decay",
    "section 5.3, appendix D.1",
    "Both regularization and limited data are necessary for grokking",
    "Within 4,000 epochs networks pass a test accuracy of .9 with weight decay and not"
    " without it.",
    (
        Number(
            more_generalise,
            Sign.POSITIVE,
            "networks that generalise, with weight decay less without",
            "points",
            0,
        ),
        Number(
            more_accurate,
            Sign.POSITIVE,
            "test accuracy at the end, with weight decay less without",
            "points",
        ),
        Number(
            lambda evidence: estimates.percentage_of_ones(
                evidence["memorised"].sel(weight_decay=0.0), "networks"
            ),
            exact_number(100),
            "networks without weight decay that memorise",
            "%",
            0,
        ),
    ),
    "The first difference is as large as it can be. Without weight decay the test"
    " accuracy still reaches about 45%, far above chance.",
    summary="without weight decay they do not pass a test accuracy of .9 within 4,000"
    " epochs",
)

WEIGHT_DECAY = Experiment(
    "na.weight-decay",
    "accuracy of transformers of NA's recipe with and without weight decay",
    measure,
    default=Sizing(
        2,
        {"preset": "small", "runs": 6, "epochs": 4000, "every": 100},
        "p = 53 and half of the pairs instead of 113 and 30%, 4,000 epochs instead of"
        " 40,000",
    ),
    full=Sizing(10, {"preset": "nanda", "runs": 5, "epochs": 40000, "every": 400}),
    ensembles=ensembles,
    depends=THRESHOLDS,
    version=2,
    claims=(NEEDED,),
)
