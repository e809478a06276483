"""CA section 5.1: neighbouring pair sums under the true gradient, and how the two forces depend on the distance."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.forces import distance_laws
from analysis.forces.distance_laws import NEIGHBOUR_MEASURES, neighbour_measures
from analysis.forces.pair_sum_classifier import pair_sum_gradients
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.musat2024.classifier import load_classifier
from analysis.reproduction.verification.claim import Claim, Measurement, claims_of, finding, parts_over
from analysis.reproduction.verification.criteria import Above, Below, Criterion, Within
from analysis.reproduction.verification.estimate import Estimate, as_percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, sized
from analysis.reproduction.verification.final_frames import expand_to_runs
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import estimate_mean
from analysis.statistics.intervals import NO_INTERVAL, clustered_binomial_interval
from analysis.statistics.resampling import jackknife_runs
from dynamics.trajectory.diverged import not_diverged

FORMING = (20, 100)
"""Epochs at which structures are forming; half of all networks have theirs by epoch 200."""
POWERS = {"repulsion": distance_laws.REPULSIONS, "attraction": distance_laws.ATTRACTIONS}
"""Powers of the distance in laws of each force."""
PAPERS = {"repulsion": 1.0, "attraction": 0.0}
"""Those of the paper."""


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """The networks of table 1 with weight decay 1."""
    return networks.ensembles(params)[-1:]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Motion of neighbours, (epoch, run), and R² by the power of the distance, (epoch, run, power)."""
    trajectory = runner.ensemble(ensembles(params)[0])
    epochs = params.get("moments", FORMING)
    frames = [_measure_frame(trajectory, int(np.abs(trajectory["step"].values - epoch).argmin())) for epoch in epochs]
    return xr.concat(frames, xr.Variable("epoch", list(epochs)))


def _measure_frame(trajectory: xr.Dataset, at: int) -> xr.Dataset:
    """The same in one frame, (run,) and (run, power)."""
    kept = not_diverged(trajectory)
    of = load_classifier(trajectory, at, kept)
    found = xr.Dataset(coords={"run": np.arange(len(kept))})
    for name, values in neighbour_measures(of).items():
        found[name] = ("run", expand_to_runs(values, kept), {"long_name": NEIGHBOUR_MEASURES[name], "units": "1"})
    runs = zip(of.sums, of.right, pair_sum_gradients(of), strict=True)
    fits = [distance_laws.distance_law_fits(*run) for run in runs]
    for place, (kind, powers) in enumerate(POWERS.items()):
        values = expand_to_runs(np.reshape([fit[place] for fit in fits], (-1, len(powers))), kept)
        attrs = {"long_name": f"R² of the four fields by the power of {kind}", "units": "1"}
        found[f"{kind}_power"] = list(powers)
        found[f"by_{kind}"] = (("run", f"{kind}_power"), values, attrs)
    return found


DISTANCE = Experiment(
    "ca.distance",
    "motion of neighbouring pair sums under the true gradient, and the power of the distance in each force",
    measure=measure,
    quick=sized(3, runs=100),
    default=sized(3, runs=100),
    ensembles=ensembles,
    depends={"moments": FORMING, **POWERS, "soft": distance_laws.SOFT, "fewest": distance_laws.FEWEST},
    version=3,
    command="python -m analysis.audit",
)


def best_power(evidence: xr.Dataset, kind: str, epoch: int) -> Estimate:
    """The power of the distance that explains most of the gradients, for the mean R² over networks.

    Between the powers tried, the vertex of a parabola through the best and its neighbours; the interval is a jackknife
    interval. At the end of the powers tried it is no estimate, which the note says.
    """
    powers = evidence[f"{kind}_power"].values
    curves = evidence[f"by_{kind}"].sel(epoch=epoch, method="nearest").dropna("run").transpose("run", ...).values
    if not len(curves):
        return Estimate(NO_INTERVAL, 0, "networks", note="no network has a gradient")
    found = jackknife_runs(lambda those: distance_laws.parabola_vertex(powers, curves[those].mean(axis=0)), len(curves))
    mean = curves.mean(axis=0)
    papers = float(mean[powers == PAPERS[kind]][0])
    note = f"R² {mean.max():.3f}; with the paper's power {papers:.3f}"
    if mean.argmax() in (0, len(powers) - 1):
        note += "; at the end of the powers that were tried"
    return Estimate(found, len(curves), "networks", float(mean.max() - papers), "gain of R²", note)


def neighbour_percentage(evidence: xr.Dataset, kind: str, what: str, epoch: int) -> Estimate:
    """Percentage of neighbours of different classes ("unlike") or of the same ("like") that move so, or are so."""
    here = evidence.sel(epoch=epoch, method="nearest").dropna("run", subset=[f"{kind}_count"])
    hits, counts = here[f"{kind}_{what}"].values, here[f"{kind}_count"].values
    if not counts.sum():
        return Estimate(NO_INTERVAL, 0, "neighbours", note="there are none")
    found = clustered_binomial_interval(hits, counts)
    effect = 2 * math.asin(math.sqrt(found.value)) - math.pi / 2
    return Estimate(as_percentage(found), int(counts.sum()), "neighbours", effect, "Cohen's h against a half")


def distance_correlation(evidence: xr.Dataset, kind: str, epoch: int) -> Estimate:
    """Mean over networks of Spearman's correlation of a push or pull with a distance."""
    return estimate_mean(evidence[kind].sel(epoch=epoch, method="nearest"), "networks")


def _while_forming(measure, criterion: Criterion, label: str = "", unit: str = "", **more) -> tuple[Measurement, ...]:
    """A part for each epoch at which structures are forming."""
    label, digits = label + "epoch {}", 1 if unit else 2
    return parts_over("epoch", FORMING, measure, criterion, label, unit, digits=digits, **more)


GRADIENT = "the negative gradient of the loss at the pair sums, without common shift and scaling; weight decay 1"
NEIGHBOUR = "neighbours (a pair sum and the one nearest to it)"
MOST = Above(50, 10)
"""More than half; 60% against 50% is a small effect, a Cohen's h of 0.2."""

CLAIMS = claims_of(
    DISTANCE,
    finding(
        "CA.s5.1.apart",
        "The gradient pushes two neighbouring pair sums of different classes apart.",
        f"percentage of {NEIGHBOUR} of different classes that move apart along {GRADIENT}",
        _while_forming(neighbour_percentage, MOST, unit="%", kind="unlike", what="hits"),
    ),
    Claim(
        "CA.s5.1.closer",
        "The closer two neighbouring pair sums of different classes are, the stronger the push.",
        f"Spearman's correlation of push and distance, for the same neighbours and {GRADIENT}",
        _while_forming(distance_correlation, Below(0, 0.1), kind="unlike_rank"),
    ),
    finding(
        "CA.s5.1.inverse",
        "The push between pair sums of different classes is inversely proportional to their distance.",
        f"the power p of a repulsion 1 / r^p that, with the other three fields, explains most of {GRADIENT}",
        _while_forming(best_power, Within(0.5, 1.5, ours=True), kind="repulsion"),
        readings=("the sum over all pair sums, as in the particle simulation", "between neighbours only"),
    ),
    finding(
        "CA.s5.1.together",
        "The gradient pulls two neighbouring pair sums of the same class together.",
        f"percentage of {NEIGHBOUR} of the same class that move together along {GRADIENT}",
        _while_forming(neighbour_percentage, MOST, unit="%", kind="like", what="hits"),
    ),
    finding(
        "CA.s5.1.constant",
        "The pull between pair sums of the same class does not depend on their distance.",
        f"the power q of an attraction r^q that, with the other three fields, explains most of {GRADIENT}; and "
        "Spearman's correlation of pull and distance of neighbours at epoch 100, before which there are too few",
        (
            *_while_forming(best_power, Within(-0.5, 0.5, ours=True), "power, ", kind="attraction"),
            _while_forming(distance_correlation, Within(-0.1, 0.1, ours=True), "correlation, ", kind="like_rank")[-1],
        ),
    ),
    Claim(
        "CA.s5.1.region",
        "Two neighbouring pair sums of the same class are likely to lie in one region of the classifier.",
        f"percentage of {NEIGHBOUR} of the same class that the network predicts to be of one class; weight decay 1",
        _while_forming(neighbour_percentage, MOST, unit="%", kind="like", what="region"),
    ),
    Claim(
        "CA.s5.1.sigmoid",
        "The gradient is largest at a boundary between classes and falls with the distance from it.",
        "Spearman's correlation of the gradient's size and the distance from the boundary in logits (right class's "
        "minus the strongest other's), on both sides of it; weight decay 1",
        (
            *_while_forming(distance_correlation, Below(0, 0.1), "right side, ", kind="right_side"),
            *_while_forming(distance_correlation, Below(0, 0.1), "wrong side, ", kind="wrong_side"),
        ),
    ),
)
