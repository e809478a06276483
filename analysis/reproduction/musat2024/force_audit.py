"""CA sections 2, 5 and 7: how much of the true gradient of the embeddings the formulae of the forces explain."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.forces.force_audit import RENAMINGS, audit_forces
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Claim, Measurement, claims_of, finding, part, parts_over
from analysis.reproduction.verification.criteria import Above
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, sized

MOMENTS = (0, 20, 100, 500, 2000)
"""Epochs at which gradients are measured: the start, while structures form, and the end."""
FORMING = (20, 100)
AUDITED = {
    "law_r_squared": "R² of the particle law, f_a = 1, with one free scale",
    "r_squared": "R² of the four fields, fitted",
    "renamed_r_squared": "mean R² of the four fields with tokens renamed at random",
    "weight": "coefficient of a field in the fit, times its norm divided by that of the gradient",
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """What the forces explain of -dL/dE without shift and scaling, (weight_decay, epoch, run), and by field."""
    rows = []
    for need in tqdm(networks.ensembles(params), desc="force audit", unit="ensemble", disable=None, leave=False):
        trajectory = runner.ensemble(need).isel(run=slice(params.get("audited")))
        steps = trajectory["step"].values
        at = sorted({int(np.abs(steps - epoch).argmin()) for epoch in params.get("moments", MOMENTS)})
        found = audit_forces(trajectory.isel(step=at), frames=max(2, len(at)))[list(AUDITED)]
        found = (
            found.sel(target="gradient", part="normalised", drop=True).sel(step=steps[at]).drop_vars(["time", "seed"])
        )
        rows.append(found.rename(step="epoch").transpose("epoch", "run", ...))
    joined = xr.concat(rows, xr.Variable("weight_decay", list(networks.DECAYS)), join="exact")
    for name, words in AUDITED.items():
        joined[name].attrs.update(long_name=words, units="1")
    return joined.assign_coords(run=np.arange(joined.sizes["run"])).drop_attrs(deep=False)


AUDIT = Experiment(
    "ca.audit",
    "how much of the true gradient of the embeddings the formulae of the forces explain",
    measure=measure,
    quick=sized(11, runs=100, audited=40),
    default=sized(26, runs=100),
    ensembles=networks.ensembles,
    depends={"moments": MOMENTS, "renamings": RENAMINGS},
    version=2,
    command="python -m analysis.audit",
)


def at_epoch(evidence: xr.Dataset, epoch: int) -> xr.Dataset:
    """Evidence at the recorded epoch nearest to one, with the R² beyond that with renamed tokens."""
    here = evidence.sel(epoch=epoch, method="nearest")
    return here.assign(excess=here["r_squared"] - here["renamed_r_squared"])


def fields_r_squared(evidence: xr.Dataset, epoch: int) -> Estimate:
    """Mean R² of the four fields at weight decay 1; in the note, that of the law with its own constants."""
    found, law = (networks.mean_at_decay(at_epoch(evidence, epoch), name, 1) for name in ("r_squared", "law_r_squared"))
    return found._replace(note=found.note or f"{law.interval.value:.2f} with the paper's constants")


def excess_r_squared(evidence: xr.Dataset, epoch: int, decay: float) -> Estimate:
    """R² of the four fields less that with tokens renamed."""
    here = at_epoch(evidence, epoch).sel(weight_decay=decay)
    return samples.paired_difference(here["r_squared"], here["renamed_r_squared"], "networks")


def excess_change(evidence: xr.Dataset, epoch: int) -> Estimate:
    """The same at weight decay 1 less that without."""
    return networks.difference(at_epoch(evidence, epoch), "excess")


def field_weight(evidence: xr.Dataset, epoch: int, field: str) -> Estimate:
    """Mean weight of a field in the fit, at weight decay 1: above 0 where it acts as its formula says."""
    return networks.mean_at_decay(at_epoch(evidence, epoch).sel(field=field), "weight", 1)


def field_weight_change(evidence: xr.Dataset, epoch: int, field: str) -> Estimate:
    """The same at weight decay 1 less that without."""
    return networks.difference(at_epoch(evidence, epoch).sel(field=field), "weight")


FIELDS = {
    "like_attraction": "attraction",
    "unlike_repulsion": "repulsion",
    "like_alignment": "alignment, same class",
    "unlike_alignment": "alignment, different classes",
}
FIT = "all four fields fitted to -dL/dE without shift and scaling, in networks with weight decay 1"


def _weight_parts(measure, epochs: Sequence[int], *fields: str) -> tuple[Measurement, ...]:
    """The weights of some fields at some epochs."""
    return tuple(
        part(measure, Above(0, 0.1), f"{FIELDS[field]}, epoch {epoch}", digits=2, field=field, epoch=epoch)
        for field, epoch in product(fields, epochs)
    )


def _excess_part(decay: float, epoch: int) -> Measurement:
    label = f"weight decay {decay:g}, epoch {epoch}"
    return part(excess_r_squared, Above(0, 0.05), label, digits=2, decay=decay, epoch=epoch)


CLAIMS = claims_of(
    AUDIT,
    finding(
        "CA.s5.1.signs",
        "The gradient attracts pair sums of the same class to each other and repels those of different classes.",
        f"mean weights of the two fields of clustering, {FIT}",
        _weight_parts(field_weight, FORMING, "like_attraction", "unlike_repulsion"),
    ),
    finding(
        "CA.s5.2.field",
        "The gradient pulls a pair sum along those of its class in its half-plane, and against those of other classes.",
        f"mean weights of the two fields of alignment, {FIT}",
        _weight_parts(field_weight, FORMING, "like_alignment", "unlike_alignment"),
    ),
    finding(
        "CA.s7.forces",
        "Weight decay strengthens the clustering force and introduces the alignment force.",
        "weights of the fields fitted to -dL/dE, at weight decay 1 minus those without weight decay",
        _weight_parts(field_weight_change, (100, 2000), *FIELDS),
        meaning="weight decay would not make circles and grids by these forces",
    ),
    finding(
        "OWN.audit",
        "While structures form, the formulae of clustering and alignment explain more than half of the true gradient.",
        f"R² of {FIT}",
        parts_over("epoch", FORMING, fields_r_squared, Above(0.5), "epoch {}", digits=2),
        meaning="particles would not end as networks do because the forces on both are the same",
    ),
    Claim(
        "OWN.audit-names",
        "The formulae explain more of the true gradient than with randomly renamed tokens, at every weight decay while "
        "structures form, and at weight decay 1 also at the end.",
        "R² of the four fields minus the mean R² with renamed tokens",
        tuple(_excess_part(*case) for case in (*product(networks.DECAYS, FORMING), (1.0, 2000))),
    ),
    Claim(
        "OWN.audit-decay",
        "At the end of training the formulae explain more of the true gradient with weight decay than without.",
        "R² of the four fields minus that with renamed tokens, at weight decay 1 minus that without",
        (part(excess_change, Above(0, 0.05), "weight decay 1 minus 0", digits=2, epoch=2000),),
    ),
)
