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
from analysis.reproduction.musat2024 import end_states, networks
from analysis.reproduction.musat2024.end_states import DISTANCES, END_STATE, SHUFFLES
from analysis.statistics.intervals import correlation_interval
from analysis.structures.ensemble_ends import end_accuracy
from analysis.structures.nearest_structures import GRID_SEARCH_STARTS
from analysis.structures.printed_tables import TABLE_1 as PRINTED
from dynamics.settings import ModularSettings

QUANTITIES = {
    **END_STATE,
    **DISTANCES,
    "chance_imperfections": "mean grid imperfections with tokens permuted at random",
    "accuracy": "validation accuracy at the end of training, %",
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Structure and accuracy of each network at the end, (weight_decay, run)."""
    return networks.measure_by_weight_decay(
        runner, networks.ensembles(params), QUANTITIES, _measure_runs
    )


def _measure_runs(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (run,)."""
    end = frame_values(trajectory, "embedding", -1)
    return {
        **end_states.end_state(trajectory),
        **end_states.structure_distances(end),
        "chance_imperfections": end_states.shuffled_imperfections(end),
        "accuracy": 100 * end_accuracy(trajectory, trajectory["seed"].values),
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


def row_claim(decay: float, comment: str = "") -> Claim:
    """A row of the table."""
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
            "correlation of accuracy and imperfections of the others",
            digits=2,
        ),
    ]
    if row.circles > 1:  # the accuracy of a single circle has no uncertainty
        accuracy_of_circles = Number(
            lambda evidence: accuracy(evidence, decay, True),
            printed_number(row.circle_accuracy_percent, row.circles),
            "accuracy of circles",
            "%",
        )
        numbers.insert(1, accuracy_of_circles)
    return Claim(
        f"CA.table1.decay{decay:g}",
        f"table 1, weight decay {decay:g}",
        "We train 100 random initializations for 2000 epochs",
        f"At weight decay {decay:g}, {row.circles} of 100 networks become circles.",
        tuple(numbers),
        comment,
        summary=f"the number of circles at weight decay {decay:g}"
        if row.circles > 1
        else "",
        figure="ca-c",
    )


OTHERS_COMMENT = (
    "The others are the networks that are no circles by algorithm 1. Each network has"
    " its own training pairs; the paper does not say whether its networks share theirs."
)
ROWS = (
    row_claim(0.0, OTHERS_COMMENT),
    row_claim(
        0.3,
        f"{OTHERS_COMMENT} The accuracy of the paper's only circle is not compared.",
    ),
    row_claim(
        0.6,
        f"{OTHERS_COMMENT} Only the number of circles differs; the other four numbers"
        " agree. Shared training pairs do not explain it: of 20 sets of pairs, with 100"
        " networks each, none has more than 9 circles.",
    ),
    row_claim(1.0, OTHERS_COMMENT),
)

# -------------------------------------------------------------------------- structures


def structured_networks(decay: float) -> Number:
    """How many networks at a weight decay are nearer to a perfect structure than with
    renamed tokens."""
    return Number(
        lambda evidence: end_states.nearer_than_renamed(
            evidence.sel(weight_decay=decay), "networks"
        ),
        Sign.POSITIVE,
        "percentage of networks that are nearer to a perfect circle or grid than after"
        f" their tokens are renamed at random, less 50%; weight decay {decay:g}",
        "points",
    )


STRUCTURES = Claim(
    "CA.s4.structures",
    "section 4",
    "the embedding vectors tend to be positioned in arithmetic progressions",
    "The order of embeddings tends to be nearer to that of a circle or grid than by"
    " chance.",
    tuple(map(structured_networks, reversed(networks.DECAYS))),
    "Fifty points are the most. A grid may have holes. Nearer does not mean near: it"
    " says that the order of the tokens is not random. Without weight decay the effect"
    " is small.",
    summary="the order of embeddings is nearer to that of circles and grids than by"
    " chance",
    figure="ca1",
)


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
    "section 5, on figure 3",
    "grid structure makes the pair sums cluster based on the modular sum",
    "In networks that form grids the pair sums cluster by their modular sum.",
    (
        Number(
            clustered_difference,
            Sign.POSITIVE,
            "pair sums whose nearest other is of their class, less the same after"
            " renaming tokens at random",
            "points",
        ),
    ),
    "Measured on all pairs, and on all networks at weight decay 0.6 that are no"
    " circles, even if they are far from a perfect grid. It is the number of"
    " imperfections of table 1 in other words.",
    summary="pair sums cluster by their modular sum",
    figure="ca3",
)


def detection_difference(evidence: xr.Dataset, of_circles: bool) -> Estimate:
    """Percentage of the circles by algorithm 1 that are regular polygons, less that of
    the other networks, in points; or of the polygons that are circles by algorithm 1,
    less that of the others. All weight decays."""
    measured = evidence["circle"].notnull().values
    circle = evidence["circle"].values[measured] == 1
    polygon = (evidence["circle_distance"] < evidence["grid_distance"]).values[measured]
    marked, given = (polygon, circle) if of_circles else (circle, polygon)
    hits = int(marked[given].sum())
    difference = estimates.difference_of_ones(marked[given], marked[~given], "networks")
    return difference._replace(note=f"{hits} of {int(given.sum())}")


DETECTION = Claim(
    "CA.appA.circles",
    "appendix A.1",
    "this simple algorithm is sufficient to detect circles with great accuracy",
    "A largest norm below 1.2 times the smallest detects circles far better than by"
    " chance.",
    (
        Number(
            lambda evidence: detection_difference(evidence, False),
            Sign.POSITIVE,
            "circles by algorithm 1 among regular polygons, less among other networks",
            "points",
        ),
        Number(
            lambda evidence: detection_difference(evidence, True),
            Sign.POSITIVE,
            "regular polygons among circles by algorithm 1, less among other networks",
            "points",
        ),
    ),
    "A hundred points would be a detection without errors; the paper's great accuracy"
    " names no bar. Embeddings that are nearer"
    " to a perfect circle, with tokens in the order of one frequency, than to any grid"
    " count as regular polygons; algorithm 1 looks only at norms. It misses about one"
    " polygon in ten; what it calls a circle nearly always is one.",
)

TABLE_1 = Experiment(
    "ca.table1",
    "structures and accuracy of networks after 2000 epochs at weight decay 0, 0.3, 0.6"
    " and 1",
    measure,
    quick=Sizing(5, {"runs": 100}),
    default=Sizing(14, {"runs": 1000, "every": 0}),
    ensembles=networks.ensembles,
    depends={"shuffles": SHUFFLES, "starts": GRID_SEARCH_STARTS},
    version=2,
    command="python -m analysis.paper table1",
    claims=(*ROWS, STRUCTURES, CLUSTERS, DETECTION),
)
