"""CA table 1 and section 4: circles, validation accuracy and grid imperfections of networks at four weight decays."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from analysis.reproduction.ca_tables import end_accuracy
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.printed_numbers import TABLE_1 as PRINTED
from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Claim, claims_of, finding, main_result, part, parts_over
from analysis.reproduction.verification.criteria import Above, Agrees, Below
from analysis.reproduction.verification.estimate import Estimate, reported_count, reported_number
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, sized
from analysis.reproduction.verification.final_frames import frame_values
from analysis.statistics.intervals import correlation_interval
from analysis.structures.circles_and_grids import count_imperfections, is_circle

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
    return networks.measure_by_weight_decay(runner, networks.ensembles(params), QUANTITIES, _measure_runs)


def _measure_runs(trajectory: xr.Dataset, kept: np.ndarray) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (kept run,)."""
    start, end = (frame_values(trajectory, "embedding", at)[kept] for at in (0, -1))
    return {
        "circle": is_circle(end),
        "imperfections": count_imperfections(end),
        "start_imperfections": count_imperfections(start),
        "chance_imperfections": networks.shuffled_imperfections(end),
        "accuracy": 100 * end_accuracy(trajectory, trajectory["seed"].values[kept]),
        "train_accuracy": 100 * trajectory["accuracy"].sel(split="train").isel(step=-1).values[kept],
    }


TABLE_1 = Experiment(
    "ca.table1",
    "structures and accuracy of networks after 2000 epochs at weight decay 0, 0.3, 0.6 and 1",
    measure=measure,
    quick=sized(3, runs=100),
    default=sized(25, runs=1000, every=0),
    ensembles=networks.ensembles,
    depends={"shuffles": networks.SHUFFLES},
    command="python -m analysis.table1",
)


def network_circle_percentage(evidence: xr.Dataset, decay: float) -> Estimate:
    """Percentage of circles at a weight decay."""
    return samples.percentage_of_ones(evidence["circle"].sel(weight_decay=decay), "networks")


def mean_of_kind(evidence: xr.Dataset, name: str, decay: float, circles: bool = False) -> Estimate:
    """Mean of a quantity of the circles, or of the other networks, at a weight decay."""
    row = evidence.sel(weight_decay=decay)
    return samples.estimate_mean(row[name].where(row["circle"] == circles), "circles" if circles else networks.OTHERS)


def imperfection_correlation(evidence: xr.Dataset, decay: float) -> Estimate:
    """Pearson's r of imperfections and validation accuracy over the networks that are not circles."""
    row = evidence.sel(weight_decay=decay)
    others = row["circle"].values == 0
    found = correlation_interval(row["imperfections"].values[others], row["accuracy"].values[others])
    note = "" if math.isfinite(found.value) else "imperfections or accuracies do not vary"
    return Estimate(found, int(others.sum()), networks.OTHERS, found.value, "Pearson's r", note)


def circle_accuracy_gain(evidence: xr.Dataset, decay: float) -> Estimate:
    """Validation accuracy of circles minus that of the other networks at a weight decay, in points."""
    row = evidence.sel(weight_decay=decay)
    circles, others = (row["accuracy"].where(row["circle"] == kind) for kind in (1, 0))
    found = samples.independent_difference(circles, others, "networks")
    count = int(row["circle"].sum())
    return found._replace(note=f"{count} circles" if count else "there are no circles")


def circle_change(evidence: xr.Dataset) -> Estimate:
    """Percentage of circles at weight decay 1 minus that without, in points."""
    circle = evidence["circle"]
    return samples.difference_of_ones(circle.sel(weight_decay=1.0), circle.sel(weight_decay=0.0), "networks")


def imperfection_change(evidence: xr.Dataset) -> Estimate:
    """Mean imperfections of the networks that are not circles at weight decay 1 minus those without."""
    others = evidence["imperfections"].where(evidence["circle"] == 0)
    strong, none = (others.sel(weight_decay=decay) for decay in (1.0, 0.0))
    return samples.independent_difference(strong, none, networks.OTHERS)


def _row_claim(decay: float, printed: Mapping[str, Any]) -> Claim:
    """The claim of a row. The accuracy of a single circle is not compared."""
    circles, others = printed["circles"], 100 - printed["circles"]
    parts = [part(network_circle_percentage, Agrees(reported_count(circles), 10), "circles", "%", decay=decay)]

    def compare(measure: Callable[..., Estimate], column: str, runs: int, margin: float, label: str, unit="", **more):
        criterion = Agrees(reported_number(printed[column], runs), margin)
        parts.append(part(measure, criterion, label, unit, decay=decay, **more))

    if circles > 1:
        of_circles = {"name": "accuracy", "circles": True}
        compare(mean_of_kind, "circle_accuracy_percent", circles, 10, "accuracy of circles", "%", **of_circles)
    compare(mean_of_kind, "other_accuracy_percent", others, 10, "accuracy of others", "%", name="accuracy")
    compare(mean_of_kind, "imperfections", others, 5, "imperfections", name="imperfections")
    compare(imperfection_correlation, "correlation", others, 0.1, "correlation", digits=2)
    told = f" with a mean validation accuracy of {printed['circle_accuracy_percent']}%" if circles else ""
    told += " (not compared, as it is of one circle)" if circles == 1 else ""
    return main_result(
        f"CA.table1.wd{decay:g}",
        f"With weight decay {decay:g}, {circles} of 100 networks become circles{told}. The other networks have "
        f"a mean validation accuracy of {printed['other_accuracy_percent']}% and {printed['imperfections']} grid "
        f"imperfections; the correlation between the two is {printed['correlation']}.",
        "structures by the algorithms of CA appendix A; accuracy on pairs outside the training set; Pearson's r",
        parts=tuple(parts),
        readings=("each network has its own training pairs", "all networks have the same training pairs"),
        figure="ca-c",
        meaning="the networks trained here would differ from those of the paper, or its 100 seeds were unusual",
    )


WEIGHT_DECAY, HIGH = "weight decay {:g}", Below(-0.5, ours=True)

CLAIMS = claims_of(
    TABLE_1,
    *(_row_claim(decay, printed) for decay, printed in PRINTED.items()),
    finding(
        "CA.table1.circles-ahead",
        "Circles have a higher validation accuracy than the other networks at weight decays 0.3, 0.6 and 1.",
        "difference between the mean validation accuracies; the paper's table has one circle at weight decay 0.3",
        parts=parts_over("decay", networks.DECAYS[1:], circle_accuracy_gain, Above(0, 5), WEIGHT_DECAY, "points"),
    ),
    finding(
        "CA.table1.correlated",
        "Among networks that are not circles, validation accuracy is highly correlated with grid imperfections.",
        "Pearson's r at each weight decay; a correlation below -0.5 counts as high",
        parts=parts_over("decay", networks.DECAYS, imperfection_correlation, HIGH, WEIGHT_DECAY, digits=2),
        meaning="the imperfections of algorithm 2 would not measure what makes a grid useful",
    ),
    main_result(
        "CA.s4.decay-circles",
        "Weight decay is crucial for circles to form.",
        "percentage of circles at weight decay 1 minus that without; its trend over the four weight decays",
        parts=(
            part(circle_change, Above(0, 10), "weight decay 1 minus 0", "points"),
            networks.trend_part(Above(0, 0.1), "circle"),
        ),
    ),
    main_result(
        "CA.s4.decay-imperfections",
        "Weight decay is crucial for grids to have fewer imperfections.",
        "mean imperfections of networks that are not circles, at weight decay 1 minus those without, and their trend",
        parts=(
            part(imperfection_change, Below(0, 15), "weight decay 1 minus 0"),
            networks.trend_part(Below(0, 0.3), "imperfections", of_circles=False),
        ),
        meaning="weight decay would improve generalisation by something other than grids",
    ),
)
