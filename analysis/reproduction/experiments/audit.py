"""CA section 2: how much of the true gradient of the embeddings the formulae of the forces explain."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from tqdm import tqdm

from analysis.forces.force_audit import RENAMINGS, audit_forces
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.samples import estimate_mean, paired_difference

MOMENTS = (0, 20, 100, 500, 2000)
"""Epochs at which gradients are looked at: the start, while structures form, and the end."""

AUDITED = {
    "law_r_squared": "R² of the particle law, f_a = 1, with one free scale",
    "r_squared": "R² of the four fields, fitted",
    "renamed_r_squared": "mean R² of the four fields with tokens renamed at random",
    "weight": "coefficient of a field in the fit, times its norm over the gradient's",
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """What the forces explain of -dL/dE, shift and change of size aside: (weight_decay, epoch, run), and by field."""
    rows = []
    for need in tqdm(networks.ensembles(params), desc="force audit", unit="ensemble", disable=None, leave=False):
        trajectory = runner.ensemble(need)
        at = _frames_nearest_to_epochs(trajectory, params.get("moments", MOMENTS))
        some = trajectory.isel(step=at, run=slice(params.get("audited")))
        found = audit_forces(some, frames=max(2, len(at)))[list(AUDITED)]
        found = found.sel(target="gradient", part="normalised", drop=True).drop_vars(["time", "seed"])
        found = found.sel(step=trajectory["step"].values[at])
        rows.append(found.rename(step="epoch").transpose("epoch", "run", ...))
    joined = xr.concat(rows, xr.Variable("weight_decay", list(networks.DECAYS)), join="exact")
    for name, words in AUDITED.items():
        joined[name].attrs.update(long_name=words, units="1")
    return joined.assign_coords(run=np.arange(joined.sizes["run"])).drop_attrs(deep=False)


def _frames_nearest_to_epochs(trajectory: xr.Dataset, epochs: Sequence[int]) -> list[int]:
    """Places of the recorded frames nearest to some epochs, each once."""
    steps = trajectory["step"].values
    return sorted({int(np.abs(steps - epoch).argmin()) for epoch in epochs})


AUDIT = Experiment(
    "ca.audit",
    "how much of the true gradient of the embeddings the formulae of the forces explain",
    sizes={Size.QUICK: {"runs": 100, "audited": 40}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 11, Size.DEFAULT: 26, Size.FULL: 26},
    measure=measure,
    ensembles=networks.ensembles,
    depends={"moments": MOMENTS, "renamings": RENAMINGS},
    version=2,
    command="python -m analysis.audit",
)


def fields_r_squared(evidence: xr.Dataset, decay: float, epoch: int) -> Estimate:
    """Mean R² of the four fields at a weight decay and epoch; beside it that of the law with its own constants."""
    here = evidence_at_epoch(evidence, decay, epoch)
    found, law = estimate_mean(here["r_squared"], "networks"), estimate_mean(here["law_r_squared"]).interval.value
    return found._replace(note=found.note or f"by the law with its own constants {law:.2f}")


def excess_r_squared(evidence: xr.Dataset, decay: float, epoch: int) -> Estimate:
    """R² of the four fields less that with tokens renamed."""
    here = evidence_at_epoch(evidence, decay, epoch)
    return paired_difference(here["r_squared"], here["renamed_r_squared"], "networks")


def r_squared_change(evidence: xr.Dataset, epoch: int) -> Estimate:
    """R² beyond that with tokens renamed, at weight decay 1 less that without."""
    strong, none = (evidence_at_epoch(evidence, decay, epoch) for decay in (1.0, 0.0))
    gains = [each["r_squared"].values - each["renamed_r_squared"].values for each in (strong, none)]
    return paired_difference(gains[0], gains[1], "seeds")


def field_weight(evidence: xr.Dataset, field: str, decay: float, epoch: int) -> Estimate:
    """Mean weight of a field in the fit to the true gradient: above 0 where it acts as its formula says."""
    return estimate_mean(evidence_at_epoch(evidence, decay, epoch)["weight"].sel(field=field), "networks")


def field_weight_change(evidence: xr.Dataset, field: str, epoch: int) -> Estimate:
    """The same at weight decay 1 less that without."""
    strong, none = (evidence_at_epoch(evidence, decay, epoch)["weight"].sel(field=field) for decay in (1.0, 0.0))
    return paired_difference(strong, none, "seeds")


def evidence_at_epoch(evidence: xr.Dataset, decay: float, epoch: int) -> xr.Dataset:
    """Evidence of a weight decay at the recorded epoch nearest to one."""
    return evidence.sel(weight_decay=decay).sel(epoch=epoch, method="nearest")
