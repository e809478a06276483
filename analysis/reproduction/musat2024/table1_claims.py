"""CA table 1: circles, validation accuracy, grid imperfections and clusters of networks
at four weight decays.

The claims of sections 4, 5 and 7 and of figures 3 and 4 on the same numbers are here
too."""

import math
from typing import Any

import numpy as np
import xarray as xr

from analysis.reproduction.ca_tables import end_accuracy
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.printed_numbers import TABLE_1 as PRINTED
from analysis.reproduction.verification import (
    Agrees,
    Estimate,
    Measure,
    Measurement,
    Params,
    Runner,
    declare_experiment,
    frame_values,
    mean_of,
    part,
    percentage_of,
    reported_count,
    reported_number,
    samples,
)
from analysis.statistics.intervals import correlation_interval
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from dynamics.settings import ModularSettings

QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "imperfections": "grid imperfections at the end of training",
    "start_imperfections": "grid imperfections before training",
    "chance_imperfections": "mean grid imperfections with tokens permuted at random",
    "accuracy": "validation accuracy at the end of training, %",
    "train_accuracy": "training accuracy at the end of training, %",
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """How each network begins and ends, (weight_decay, run)."""
    return networks.measure_by_weight_decay(
        runner, networks.ensembles(params), QUANTITIES, _measure_runs
    )


def _measure_runs(networks_of_decay: xr.Dataset) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (run,)."""
    start, end = (frame_values(networks_of_decay, "embedding", at) for at in (0, -1))
    seeds = networks_of_decay["seed"].values
    accuracy = networks_of_decay["accuracy"].isel(step=-1)
    return {
        "circle": is_circle(end),
        "imperfections": count_imperfections(end),
        "start_imperfections": count_imperfections(start),
        "chance_imperfections": networks.shuffled_imperfections(end),
        "accuracy": 100 * end_accuracy(networks_of_decay, seeds),
        "train_accuracy": 100 * accuracy.sel(split="train").values,
    }


TABLE_1 = declare_experiment(
    "ca.table1", measure, networks.ensembles, depends={"shuffles": networks.SHUFFLES}
)


def imperfection_correlation(evidence: xr.Dataset, weight_decay: float) -> Estimate:
    """Pearson's r of imperfections and validation accuracy over the networks that are
    not circles."""
    others = networks.networks_of_kind(evidence, weight_decay)
    interval = correlation_interval(
        others["imperfections"].values, others["accuracy"].values
    )
    varies = math.isfinite(interval.value)
    note = "" if varies else "imperfections or accuracies do not vary"
    return Estimate(
        interval,
        others.sizes["run"],
        networks.OTHERS,
        interval.value,
        "Pearson's r",
        note,
    )


def circle_accuracy_gain(evidence: xr.Dataset, weight_decay: float) -> Estimate:
    """Validation accuracy of circles minus that of the other networks at a weight
    decay, in points."""
    circles, others = (
        networks.networks_of_kind(evidence, weight_decay, kind)["accuracy"]
        for kind in (True, False)
    )
    estimate = samples.independent_difference(circles, others, "networks")
    return estimate._replace(
        note=f"{circles.size} circles" if circles.size else "there are no circles"
    )


def estimate_derived(
    evidence: xr.Dataset, estimator: Measure, **selection: Any
) -> Estimate:
    """An estimate from derived quantities: the `gap` of training and validation
    accuracy, and the percentage of the pair sums whose nearest other has the same
    modular sum, at the end (`clustered`), before training and with tokens permuted."""
    quantities = {
        f"{state}clustered": (
            100 - 100 * evidence[f"{state}imperfections"] / ModularSettings().pairs
        )
        for state in ("", "start_", "chance_")
    }
    gap = evidence["train_accuracy"] - evidence["accuracy"]
    return estimator(evidence.assign(quantities | {"gap": gap}), **selection)


COLUMNS: tuple[tuple[str, float, str, str, Measure, dict[str, Any]], ...] = (
    (
        "circle_accuracy_percent",
        10,
        "accuracy of circles",
        "%",
        mean_of,
        {"name": "accuracy", **networks.CIRCLES_ONLY},
    ),
    (
        "other_accuracy_percent",
        10,
        "accuracy of others",
        "%",
        mean_of,
        {"name": "accuracy", **networks.OTHERS_ONLY},
    ),
    (
        "imperfections",
        5,
        "imperfections",
        "",
        mean_of,
        {"name": "imperfections", **networks.OTHERS_ONLY},
    ),
    ("correlation", 0.1, "correlation", "", imperfection_correlation, {"digits": 2}),
)
"""Columns of the printed table beside the number of circles: the margin of our number,
label, unit, and how it is estimated."""


def row_parts(decay: float) -> list[Measurement]:
    """Comparisons with a row. The accuracy of a single circle is not compared."""
    printed = PRINTED[decay]
    circles = printed["circles"]
    parts = [
        part(
            percentage_of,
            Agrees(reported_count(circles), 10),
            "circles",
            "%",
            name="circle",
            of="networks",
            weight_decay=decay,
        )
    ]
    for column, margin, label, unit, estimator, arguments in COLUMNS:
        runs = circles if column.startswith("circle") else 100 - circles
        if runs > 1:
            agrees = Agrees(reported_number(printed[column], runs), margin)
            arguments = arguments | {"weight_decay": decay}
            parts.append(part(estimator, agrees, label, unit, **arguments))
    return parts
