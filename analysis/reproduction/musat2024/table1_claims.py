"""CA table 1: circles, validation accuracy, grid imperfections and clusters of networks
at four weight decays."""

import math

import numpy as np
import xarray as xr

from analysis.reproduction import estimates
from analysis.reproduction.claim import (
    Claim,
    Number,
    Sign,
    printed_count,
    printed_number,
)
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    Runner,
    Sizing,
    frame_values,
)
from analysis.reproduction.musat2024 import networks
from analysis.statistics.intervals import correlation_interval
from analysis.structures.circles_and_grids import count_imperfections, is_circle
from analysis.structures.printed_tables import TABLE_1 as PRINTED
from analysis.structures.structure_tables import end_accuracy
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


# --------------------------------------------------------------------------- the table


def circle_percentage(evidence: xr.Dataset, decay: float) -> Estimate:
    """Percentage of the networks at a weight decay that are circles."""
    circle = evidence["circle"].sel(weight_decay=decay)
    return estimates.percentage_of_ones(circle, "networks")


def accuracy(evidence: xr.Dataset, decay: float, circles: bool) -> Estimate:
    """Mean validation accuracy of the circles or of the others, in percent."""
    kind = networks.networks_of_kind(evidence, decay, circles)
    return estimates.estimate_mean(
        kind["accuracy"], "circles" if circles else networks.OTHERS, limits=(0, 100)
    )


def imperfections(evidence: xr.Dataset, decay: float) -> Estimate:
    """Mean grid imperfections of the networks that are not circles."""
    others = networks.networks_of_kind(evidence, decay)
    return estimates.estimate_mean(others["imperfections"], networks.OTHERS)


def imperfection_correlation(evidence: xr.Dataset, decay: float) -> Estimate:
    """Pearson's r of imperfections and validation accuracy over the networks that are
    not circles."""
    others = networks.networks_of_kind(evidence, decay)
    interval = correlation_interval(
        others["imperfections"].values, others["accuracy"].values
    )
    varies = math.isfinite(interval.value)
    note = "" if varies else "imperfections or accuracies do not vary"
    return Estimate(interval, others.sizes["run"], networks.OTHERS, note)


def row_claim(decay: float, passage: str, statement: str, comment: str = "") -> Claim:
    """A row of the table. The accuracy of a single circle has no uncertainty that could
    be compared."""
    row = PRINTED[decay]
    others = 100 - row.circles
    numbers = [
        Number(
            lambda evidence: circle_percentage(evidence, decay),
            printed_count(row.circles),
            "circles",
            "%",
        ),
        Number(
            lambda evidence: accuracy(evidence, decay, False),
            printed_number(row.other_accuracy_percent, others),
            "accuracy of the others",
            "%",
        ),
        Number(
            lambda evidence: imperfections(evidence, decay),
            printed_number(row.imperfections, others),
            "imperfections of the others",
        ),
        Number(
            lambda evidence: imperfection_correlation(evidence, decay),
            printed_number(row.correlation, others),
            "correlation of the two",
            digits=2,
        ),
    ]
    if row.circles > 1:
        accuracy_of_circles = Number(
            lambda evidence: accuracy(evidence, decay, True),
            printed_number(row.circle_accuracy_percent, row.circles),
            "accuracy of circles",
            "%",
        )
        numbers.insert(1, accuracy_of_circles)
    return Claim(
        f"CA.table1.decay{decay:g}",
        "table 1",
        passage,
        statement,
        tuple(numbers),
        comment,
        summary=f"the row of table 1 at weight decay {decay:g}",
        figure="ca-c",
    )


ROWS = (
    row_claim(
        0.0,
        "100 trials with different seeds",
        "Without weight decay no network becomes a circle.",
    ),
)

# ------------------------------------------------------------------------ weight decay


def clustered_difference(evidence: xr.Dataset) -> Estimate:
    """Percentage of the pair sums whose nearest other has the same modular sum, less
    that with tokens permuted at random, in points; networks at weight decay 0.6 that
    are not circles."""
    others = networks.networks_of_kind(evidence, 0.6)
    fewer = others["chance_imperfections"] - others["imperfections"]
    return estimates.estimate_mean(
        100 * fewer / ModularSettings().pairs, networks.OTHERS
    )


CLUSTERS = Claim(
    "CA.figure3.clusters",
    "figure 3",
    "",
    "In networks that form grids the pair sums cluster by their modular sum.",
    (
        Number(
            clustered_difference,
            Sign.POSITIVE,
            "pair sums whose nearest other is of their class, less with renamed tokens",
            "points",
        ),
    ),
    summary="pair sums cluster by their modular sum",
    figure="ca3",
)

TABLE_1 = Experiment(
    "ca.table1",
    "structures and accuracy of networks after 2000 epochs at weight decay 0, 0.3, 0.6"
    " and 1",
    measure,
    quick=Sizing(3, {"runs": 100}),
    default=Sizing(25, {"runs": 1000, "every": 0}),
    ensembles=networks.ensembles,
    depends={"shuffles": networks.SHUFFLES},
    command="python -m analysis.table1",
    claims=(*ROWS, CLUSTERS),
)
