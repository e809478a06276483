"""CA sections 5 and 7: the forces between pair sums against the true gradient of the
embeddings, and the power of the distance in each."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.forces import distance_laws
from analysis.forces.force_audit import RENAMINGS, audit_forces
from analysis.forces.pair_sum_classifier import pair_sum_gradients
from analysis.reproduction import estimates
from analysis.reproduction.claim import (
    Claim,
    Number,
    PrintedNumber,
    Sign,
    exact_number,
)
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    Runner,
    Sizing,
    described,
    expand_to_runs,
)
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.musat2024.classifier_claims import load_classifier
from analysis.statistics.intervals import NO_INTERVAL
from analysis.statistics.resampling import jackknife_runs
from dynamics.progress import progress_bar
from dynamics.trajectory.diverged import not_diverged

FORMING = (100, 20)
"""Epochs at which structures are forming: half of all networks have theirs by epoch
200. The first is that of headlines."""
MOMENTS = (20, 100, 2000)
"""Epochs at which gradients are measured."""
AUDITED = {
    "r_squared": "R² of the four fields, fitted",
    "renamed_r_squared": "mean R² of the four fields with tokens renamed at random",
    "weight": (
        "coefficient of a field in the fit, times its norm divided by that of the"
        " gradient"
    ),
}
POWERS = {
    "repulsion": distance_laws.REPULSIONS,
    "attraction": distance_laws.ATTRACTIONS,
}
"""Powers of the distance in laws of each force."""
CLUSTERING = ("like_attraction", "unlike_repulsion")
ALIGNMENT = ("like_alignment", "unlike_alignment")


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """What the forces explain of -dL/dE without shift and scaling, (weight_decay,
    epoch, run), and by field; and at weight decay 1 by the power of the distance."""
    rows = []
    needs = networks.ensembles(params)
    for need in progress_bar(needs, unit="ensemble"):
        trajectory = runner.ensemble(need).isel(run=slice(params.get("audited")))
        at = [
            int(np.abs(trajectory["step"].values - epoch).argmin())
            for epoch in params.get("moments", MOMENTS)
        ]
        rows.append(_audit(trajectory, at))
    # the last ensemble has weight decay 1
    laws = [_distance_laws(trajectory, frame) for frame in at]
    evidence = xr.concat(rows, "weight_decay").merge(xr.concat(laws, "epoch"))
    powers = {f"{kind}_power": list(values) for kind, values in POWERS.items()}
    return evidence.assign_coords(
        weight_decay=list(networks.DECAYS), epoch=trajectory["step"].values[at]
    ).assign_coords(powers)


def _audit(trajectory: xr.Dataset, at: list[int]) -> xr.Dataset:
    """How much of the gradient the force fields explain in some frames, (epoch, run)."""
    audit = audit_forces(trajectory, frames=np.array(at))[list(AUDITED)]
    audit = audit.sel(target="gradient", part="normalised", drop=True)
    audit = audit.drop_vars(["step", "time", "seed"]).rename(step="epoch")
    for name, words in AUDITED.items():
        audit[name].attrs = {"long_name": words, "units": "1"}
    return audit.transpose("epoch", "run", ...).drop_attrs(deep=False)


def _distance_laws(trajectory: xr.Dataset, at: int) -> xr.Dataset:
    """R² of the four fields by the power of the distance in one of them, (run,
    power)."""
    finite = not_diverged(trajectory)
    classifier = load_classifier(trajectory.isel(run=finite), at)
    gradients = pair_sum_gradients(classifier)
    runs = zip(classifier.sums, classifier.right, gradients, strict=True)
    fits = [distance_laws.distance_law_fits(*run) for run in runs]
    laws = xr.Dataset()
    for place, (kind, powers) in enumerate(POWERS.items()):
        values = np.reshape([fit[place] for fit in fits], (-1, len(powers)))
        words = f"R² of the four fields by the power of {kind}"
        columns = {f"by_{kind}": (expand_to_runs(values, finite), words)}
        laws = laws.merge(described(("run", f"{kind}_power"), columns))
    return laws


# ------------------------------------------------------------------------ signs and laws


def field_weight(field: str, words: str, epoch: int) -> Number:
    """Mean weight of a field at weight decay 1."""

    def weight(evidence: xr.Dataset) -> Estimate:
        here = networks.at_epoch(evidence, epoch).sel(field=field, weight_decay=1.0)
        return estimates.estimate_mean(here["weight"], "networks")

    label = f"weight of the {words} in the gradient, epoch {epoch}"
    return Number(weight, Sign.POSITIVE, label, digits=2)


FIT = (
    "All four fields of equations 2 to 4 are fitted together to the negative gradient"
    " of the loss, without its parts along a shift and a change of size of all"
    " embeddings; weight decay 1."
)
ATTRACTION = Claim(
    "CA.s5.1.attraction",
    "section 5.1, equation 3",
    "We will model this case with a constant gradient towards the other",
    "The gradient attracts pair sums of the same class to each other.",
    tuple(
        field_weight("like_attraction", "attraction of pair sums of a class", epoch)
        for epoch in FORMING
    ),
    f"{FIT} A weight is the size of a fitted field over that of the gradient, with a"
    " sign. Together the four fields explain about a third of the gradient (OWN.audit).",
    summary="the gradient attracts pair sums of one class",
)
REPULSION = Claim(
    "CA.s5.1.repulsion",
    "section 5.1",
    "This decision boundary will create a gradient that will push",
    "The gradient repels pair sums of different classes from each other.",
    tuple(
        field_weight("unlike_repulsion", "repulsion of different classes", epoch)
        for epoch in FORMING
    ),
    "Fitted as the attraction (CA.s5.1.attraction): the sum over all pair sums, as in"
    " the particle simulation. The paper argues for two neighbours. Together the four"
    " fields explain about a third of the gradient (OWN.audit).",
    summary="the gradient repels pair sums of different classes",
)


def best_power(evidence: xr.Dataset, kind: str, epoch: int) -> Estimate:
    """The power of the distance that explains most of the gradients, for the mean R²
    over networks: between the powers tried, the vertex of a parabola through the best
    and its neighbours, with a jackknife interval."""
    powers = evidence[f"{kind}_power"].values
    values = networks.at_epoch(evidence, epoch)[f"by_{kind}"]
    curves = values.dropna("run").transpose("run", ...).values
    if not len(curves):
        return Estimate(NO_INTERVAL, 0, "networks", note="no network has a gradient")

    def vertex(runs: np.ndarray) -> float:
        return distance_laws.parabola_vertex(powers, curves[runs].mean(axis=0))

    return Estimate(jackknife_runs(vertex, len(curves)), len(curves), "networks")


def power_number(kind: str, expected: PrintedNumber, words: str, epoch: int) -> Number:
    """The best power of a force."""
    return Number(
        lambda evidence: best_power(evidence, kind, epoch),
        expected,
        f"{words}, epoch {epoch}",
        digits=2,
    )


CONSTANT = Claim(
    "CA.s5.1.constant",
    "section 5.1, equation 3",
    "We will model this case with a constant gradient towards the other",
    "The attraction of pair sums of the same class does not depend on their distance at"
    " all.",
    tuple(
        power_number(
            "attraction", exact_number(0), "power q of an attraction r^q", epoch
        )
        for epoch in FORMING
    ),
    "The power with which the four fields explain most of the gradient, fitted as in"
    " CA.s5.1.attraction. It is near 0, and its sign changes between the epochs.",
    summary="the attraction is exactly independent of the distance (its power is near 0)",
)
INVERSE = Claim(
    "CA.s5.1.inverse",
    "section 5.1, equation 2",
    "the push will be inversely proportional to the distance between the pair",
    "The repulsion of pair sums of different classes is inversely proportional to their"
    " distance.",
    tuple(
        power_number(
            "repulsion", exact_number(1), "power p of a repulsion 1 / r^p", epoch
        )
        for epoch in FORMING
    ),
    "The power with which the four fields explain most of the gradient, fitted over all"
    " pair sums as in CA.s5.1.attraction; the paper argues for two neighbours. At epoch"
    " 100 the repulsion falls more slowly than the paper says; at epoch 20 it even"
    " rises a little with the distance.",
    summary="the repulsion is inversely proportional to the distance",
)

# ------------------------------------------------------------------------ weight decay


def weight_change(fields: Sequence[str], words: str, epoch: int) -> Number:
    """Sum of the weights of some fields at weight decay 1 less that without weight
    decay."""

    def change(evidence: xr.Dataset) -> Estimate:
        weights = networks.at_epoch(evidence, epoch)["weight"].sel(field=list(fields))
        decayed, without = (
            weights.sel(weight_decay=decay).sum("field", skipna=False)
            for decay in (1.0, 0.0)
        )
        return estimates.paired_difference(decayed, without, "seeds")

    label = f"weight of {words}, weight decay 1 less none; epoch {epoch}"
    return Number(change, Sign.POSITIVE, label, digits=2)


FORCES = Claim(
    "CA.s7.forces",
    "section 7",
    "strengthening the clustering force and by introducing the alignment force",
    "With weight decay, clustering and alignment have larger weights in the gradient.",
    (
        weight_change(CLUSTERING, "clustering", 100),
        weight_change(ALIGNMENT, "alignment", 100),
        weight_change(CLUSTERING, "clustering", 20),
        weight_change(ALIGNMENT, "alignment", 20),
        weight_change(CLUSTERING, "clustering", 2000),
        weight_change(ALIGNMENT, "alignment", 2000),
    ),
    "The numbers do not agree: at epoch 100, while structures form, only alignment is"
    " larger; at epoch 20 neither; at epoch 2000, at the end, only clustering. Epoch 100"
    " is the first of all claims of this experiment. Weights as in CA.s5.1.attraction, of"
    " attraction and repulsion together, and of both alignments together. They are"
    " coefficients of fields that resemble each other, not parts that add up to the"
    " gradient.",
    summary="weight decay enlarges the weights of clustering and alignment in the gradient",
)

# ------------------------------------------------------------------------- own results


def explained_number(epoch: int, half: bool) -> Number:
    """R² of the four fields at weight decay 1, less one half or less that with renamed
    tokens."""

    def difference(evidence: xr.Dataset) -> Estimate:
        here = networks.at_epoch(evidence, epoch).sel(weight_decay=1.0)
        if half:
            return estimates.estimate_mean(here["r_squared"] - 0.5, "networks")
        return estimates.paired_difference(
            here["r_squared"], here["renamed_r_squared"], "networks"
        )

    than = "one half" if half else "with renamed tokens"
    label = f"R² of the four fields, less {than}; epoch {epoch}"
    sign = Sign.NEGATIVE if half else Sign.POSITIVE
    return Number(difference, sign, label, digits=2)


OWN_AUDIT = Claim(
    "OWN.audit",
    "",
    "",
    "CA's forces explain a part of the true gradient that is not due to chance, but"
    " less than half of it.",
    (
        explained_number(100, half=True),
        explained_number(20, half=True),
        explained_number(100, half=False),
        explained_number(20, half=False),
    ),
    FIT,
    summary="CA's forces explain less than half of the true gradient",
)

AUDIT = Experiment(
    "ca.audit",
    "how much of the true gradient of the embeddings the formulae of the forces"
    " explain, and the power of the distance in each",
    measure,
    quick=Sizing(5, {"runs": 100, "audited": 40}),
    default=Sizing(12, {"runs": 100}),
    ensembles=networks.ensembles,
    depends={"moments": MOMENTS, "renamings": RENAMINGS, **POWERS},
    version=3,
    command="python -m analysis.audit",
    claims=(ATTRACTION, REPULSION, CONSTANT, INVERSE, FORCES, OWN_AUDIT),
)
