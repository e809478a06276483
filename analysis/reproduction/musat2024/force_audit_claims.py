"""CA sections 2, 5 and 7: how much of the true gradient of the embeddings the formulae
of the forces explain.

Also the motion of neighbouring pair sums under the true gradient, and the power of the
distance in each force (CA section 5.1)."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.forces import distance_laws
from analysis.forces.force_audit import RENAMINGS, audit_forces
from analysis.forces.pair_sum_classifier import pair_sum_gradients
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.musat2024.classifier_claims import load_classifier
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    as_percentage,
    declare_experiment,
    expand_to_runs,
    mean_of,
    paired_difference_of,
)
from analysis.statistics.intervals import NO_INTERVAL, clustered_binomial_interval
from analysis.statistics.resampling import jackknife_runs
from dynamics.trajectory.diverged import not_diverged

MOMENTS = (0, 20, 100, 500, 2000)
"""Epochs at which gradients are measured: the start, while structures form, and the
end."""
FORMING = (20, 100)
"""Epochs at which structures are forming; half of all networks have theirs by epoch
200."""
AUDITED = {
    "law_r_squared": "R² of the particle law, f_a = 1, with one free scale",
    "r_squared": "R² of the four fields, fitted",
    "renamed_r_squared": "mean R² of the four fields with tokens renamed at random",
    "weight": (
        "coefficient of a field in the fit, times its norm divided by that of the"
        " gradient"
    ),
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """What the forces explain of -dL/dE without shift and scaling, (weight_decay,
    epoch, run), and by field."""
    rows = []
    for need in tqdm(
        networks.ensembles(params),
        desc="force audit",
        unit="ensemble",
        disable=None,
        leave=False,
    ):
        trajectory = runner.ensemble(need).isel(run=slice(params.get("audited")))
        steps = trajectory["step"].values
        at = sorted(
            {
                int(np.abs(steps - epoch).argmin())
                for epoch in params.get("moments", MOMENTS)
            }
        )
        audit = audit_forces(trajectory.isel(step=at), frames=max(2, len(at)))[
            list(AUDITED)
        ]
        audit = (
            audit.sel(target="gradient", part="normalised", drop=True)
            .sel(step=steps[at])
            .drop_vars(["time", "seed"])
        )
        rows.append(audit.rename(step="epoch").transpose("epoch", "run", ...))
    joined = xr.concat(
        rows, xr.Variable("weight_decay", list(networks.DECAYS)), join="exact"
    )
    for name, words in AUDITED.items():
        joined[name].attrs.update(long_name=words, units="1")
    return joined.assign_coords(run=np.arange(joined.sizes["run"])).drop_attrs(
        deep=False
    )


AUDIT = declare_experiment(
    "ca.audit",
    measure,
    networks.ensembles,
    depends={"moments": MOMENTS, "renamings": RENAMINGS},
)


def fields_r_squared(evidence: xr.Dataset, epoch: int) -> Estimate:
    """Mean R² of the four fields at weight decay 1; in the note, that of the law with
    its own constants."""
    fields, law = (
        mean_of(
            networks.at_epoch(evidence, epoch), "networks", name=name, weight_decay=1
        )
        for name in ("r_squared", "law_r_squared")
    )
    note = f"{law.value:.2f} with the paper's constants"
    return fields._replace(note=fields.note or note)


def excess_change(evidence: xr.Dataset) -> Estimate:
    """R² of the four fields less that with tokens renamed, at weight decay 1 less the
    same without."""
    excess = evidence["r_squared"] - evidence["renamed_r_squared"]
    return paired_difference_of(
        evidence.assign(excess=excess),
        "seeds",
        name="excess",
        weight_decay=(1.0, 0.0),
    )


POWERS = {
    "repulsion": distance_laws.REPULSIONS,
    "attraction": distance_laws.ATTRACTIONS,
}
"""Powers of the distance in laws of each force."""
PAPERS = {"repulsion": 1.0, "attraction": 0.0}
"""Those of the paper."""


def decayed_networks(params: Params) -> Sequence[RequiredRuns]:
    """The networks of table 1 with weight decay 1."""
    return networks.ensembles(params)[-1:]


def measure_distance_laws(runner: Runner, params: Params) -> xr.Dataset:
    """Motion of neighbours, (epoch, run), and R² by the power of the distance, (epoch,
    run, power)."""
    trajectory = runner.ensemble(decayed_networks(params)[0])
    epochs = params.get("moments", FORMING)
    frames = [
        _measure_frame(
            trajectory, int(np.abs(trajectory["step"].values - epoch).argmin())
        )
        for epoch in epochs
    ]
    return xr.concat(frames, xr.Variable("epoch", list(epochs)))


def _measure_frame(trajectory: xr.Dataset, at: int) -> xr.Dataset:
    """The same in one frame, (run,) and (run, power)."""
    finite = not_diverged(trajectory)
    classifier = load_classifier(trajectory.isel(run=finite), at)
    measures = xr.Dataset(coords={"run": np.arange(len(finite))})
    for name, values in distance_laws.neighbour_measures(classifier).items():
        measures[name] = (
            "run",
            expand_to_runs(values, finite),
            {"long_name": distance_laws.NEIGHBOUR_MEASURES[name], "units": "1"},
        )
    gradients = pair_sum_gradients(classifier)
    runs = zip(classifier.sums, classifier.right, gradients, strict=True)
    fits = [distance_laws.distance_law_fits(*run) for run in runs]
    for place, (kind, powers) in enumerate(POWERS.items()):
        values = np.reshape([fit[place] for fit in fits], (-1, len(powers)))
        attrs = {
            "long_name": f"R² of the four fields by the power of {kind}",
            "units": "1",
        }
        measures[f"{kind}_power"] = list(powers)
        measures[f"by_{kind}"] = (
            ("run", f"{kind}_power"),
            expand_to_runs(values, finite),
            attrs,
        )
    return measures


DISTANCE = declare_experiment(
    "ca.distance",
    measure_distance_laws,
    decayed_networks,
    depends={
        "moments": FORMING,
        **POWERS,
        "soft": distance_laws.SOFT,
        "fewest": distance_laws.FEWEST,
    },
)


def best_power(evidence: xr.Dataset, kind: str, epoch: int) -> Estimate:
    """The power of the distance that explains most of the gradients, for the mean R²
    over networks.

    Between the powers tried, the vertex of a parabola through the best and its
    neighbours; the interval is a jackknife interval. At the end of the powers tried it
    is no estimate, which the note says."""
    powers = evidence[f"{kind}_power"].values
    values = networks.at_epoch(evidence, epoch)[f"by_{kind}"]
    curves = values.dropna("run").transpose("run", ...).values
    if not len(curves):
        return Estimate(NO_INTERVAL, 0, "networks", note="no network has a gradient")
    interval = jackknife_runs(
        lambda those: distance_laws.parabola_vertex(powers, curves[those].mean(axis=0)),
        len(curves),
    )
    mean = curves.mean(axis=0)
    papers = float(mean[powers == PAPERS[kind]][0])
    note = f"R² {mean.max():.3f}; with the paper's power {papers:.3f}"
    if mean.argmax() in (0, len(powers) - 1):
        note += "; at the end of the powers that were tried"
    gain = float(mean.max() - papers)
    return Estimate(interval, len(curves), "networks", gain, "gain of R²", note)


def neighbour_percentage(
    evidence: xr.Dataset, kind: str, what: str, epoch: int, of: str = "neighbours"
) -> Estimate:
    """Percentage of neighbours of different classes ("unlike") or of the same ("like"),
    or of another kind of cases, that move so, or are so."""
    here = networks.at_epoch(evidence, epoch).dropna("run", subset=[f"{kind}_count"])
    hits, counts = here[f"{kind}_{what}"].values, here[f"{kind}_count"].values
    if not counts.sum():
        return Estimate(NO_INTERVAL, 0, of, note="there are none")
    fraction = clustered_binomial_interval(hits, counts)
    effect = 2 * math.asin(math.sqrt(fraction.value)) - math.pi / 2
    return Estimate(
        as_percentage(fraction),
        int(counts.sum()),
        of,
        effect,
        "Cohen's h against a half",
    )
